-- Let a job that follows another wait in the store, and look again later. No worker is blocked.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 generation of the message, 3 delay (us)
-- Returns: 1 if parked, 0 if the message is no longer the newest
-- Complexity: O(log n) in the jobs of the partition.
-- @include time
-- @include job
local old = redis.call('HMGET', record, 'state', 'gen', 'follows', 'after')
if old[1] ~= 'QUEUED' or tonumber(old[2]) ~= math.max(1, tonumber(ARGV[2])) then return 0 end
local now, delay = now_us(), tonumber(ARGV[3])
often('waiting', '0', '0', old[3] or '', false, {})
redis.call('HSET', record, 'state', 'SCHEDULED', 'due', int(now + delay))
if old[4] == 'key' then  -- the end of the other tells it, whenever that is, or has done so by now
  redis.call('HDEL', record, 'due')
  if redis.call('HGET', key_entry, 'job') == ARGV[1] then delay = 0 end
end
redis.call('HINCRBY', record, 'gen', 1)
changed(now)
unindex(ARGV[1])
redis.call('ZADD', schedule, int(now + delay), ARGV[1])
return 1
