-- Take an idempotency key for a job that lives in another partition (its id was given).
-- KEYS: 1 the key's entry
-- ARGV: 1 job id, 2 fingerprint, 3 time to live (ms)
-- Returns: {'HELD'} | {'DUPLICATE', job} | {'CONFLICT', job}
-- Complexity: O(1).
-- @include time
local holder = redis.call('HMGET', KEYS[1], 'job', 'fp')
if holder[1] and holder[2] ~= ARGV[2] then return {'CONFLICT', holder[1]} end
if holder[1] and holder[1] ~= ARGV[1] then return {'DUPLICATE', holder[1]} end
if holder[1] then return {'HELD'} end  -- it has the end that it has: a job's own key must not lapse under it
redis.call('HSET', KEYS[1], 'job', ARGV[1], 'fp', ARGV[2], 'at', int(now_us()))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'HELD'}
