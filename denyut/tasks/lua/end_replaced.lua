-- The chain or chord that replaces a job has failed: its last message will never come.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 error, 3 retention (us)
-- Returns: 1 if the job was ended, 0 if it does not wait for a replacement
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it changes nothing more.
-- @include time
-- @include job
-- @include close
-- @include dead
local old = redis.call('HMGET', record, 'state', 'replaced', 'fence', 'attempt', 'task')
if old[1] ~= 'QUEUED' or not old[2] then return 0 end
local now = now_us()
redis.call('HSET', record, 'state', 'FAILED', 'finished_at', int(now), 'error', ARGV[2], 'settled', '1')
redis.call('HDEL', record, 'replaced')
changed(now)
if redis.call('EXISTS', telemetry) == 1 then redis.call('HSET', telemetry, 'status', 'FAILED') end
count('failed', old[5])
bury(ARGV[1], now, 'failures', 'the chain or chord that replaced it failed')
event('failed', old[3], old[4], ARGV[2], true)
close(ARGV[1], 'FAILED', now, tonumber(ARGV[3]))
return 1
