-- Note as what an ended job was retried; a dead letter leaves the list, and is remembered for a while.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 id of the new job, 3 '1' if it was made, 4 who did it and 5 its pid, 6 retention of a dead
--       letter (ms)
-- Returns: 'OK'
-- Complexity: O(log n) in the dead letters of the partition. Sent twice, it changes nothing more.
-- @include time
-- @include job
-- @include dead
local old = redis.call('HMGET', record, 'state', 'retrying_as', 'retried_as', 'fence', 'attempt')
if not old[1] or old[2] ~= ARGV[2] then return 'OK' end
local now = now_us()
redis.call('HDEL', record, 'retrying_as')
changed(now)
if ARGV[3] ~= '1' then return 'OK' end
event('retried', old[4] or '0', old[5] or '0', ARGV[2], true, {by = ARGV[4], pid = ARGV[5]})
redis.call('HSET', record, 'retried_as', ARGV[2])
changed(now)
count('redone', redis.call('HGET', record, 'task') or '')
if unbury(ARGV[1]) then
  forget_in(tonumber(ARGV[6]) * 1000, now)
end
return 'OK'
