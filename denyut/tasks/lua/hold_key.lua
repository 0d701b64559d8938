-- Take an idempotency key for a job that lives in another partition (its id was given).
-- KEYS: 1 the key's entry
-- ARGV: 1 job id, 2 fingerprint, 3 time to live (ms), 4 until and 5 period (us) of the key: see key.lua ('' = none)
-- Returns: {'HELD'} | {'DUPLICATE', job} | {'CONFLICT', job}
-- Complexity: O(1).
-- @include time
-- @include key
local holder = redis.call('HMGET', KEYS[1], 'job', 'fp')
-- What it has it has, whatever its arguments are by now; and it keeps its end, as a job's own key must not lapse.
if holder[1] == ARGV[1] then return {'HELD'} end
if holder[1] then return {holder[2] == ARGV[2] and 'DUPLICATE' or 'CONFLICT', holder[1]} end
local now = now_us()
keep_key(KEYS[1], ARGV[1], ARGV[2], now, ARGV[4], end_of_period(now, ARGV[5]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'HELD'}
