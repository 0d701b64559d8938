-- Keep the data from which the next attempt starts.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 fence, 3 data (JSON), 4 retention (ms)
-- Returns: 'OK' | 'LOST'
-- Complexity: O(1).
-- @include time
-- @include job
local old = redis.call('HMGET', record, 'state', 'fence', 'attempt')
if old[1] ~= 'RUNNING' or old[2] ~= ARGV[2] then return 'LOST' end
redis.call('HSET', record, 'checkpoint', ARGV[3])
changed(now_us())
event('checkpoint', ARGV[2], old[3], ARGV[3], true)
redis.call('PEXPIRE', events, ARGV[4])
return 'OK'
