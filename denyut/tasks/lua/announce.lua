-- A running attempt is about to be replaced by a chain or a chord: its last message may come at once.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 fence
-- Returns: 'OK' | 'LOST' another attempt owns the job
-- Complexity: O(1). Sent twice, it answers the same.
-- @include time
-- @include job
local old = redis.call('HMGET', record, 'state', 'fence')
if old[1] ~= 'RUNNING' or old[2] ~= ARGV[2] then return 'LOST' end
redis.call('HDEL', record, 'next')
redis.call('HSET', record, 'replacing', ARGV[2])
changed(now_us())
return 'OK'
