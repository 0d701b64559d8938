-- Write again what Redis has lost of a running attempt: its record (flushed), or its claim (an older state is
-- back). An attempt whose job was taken over, or has ended and is forgotten, restores nothing.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 fence, 3 owner, 4 pid, 5 attempt, 6 lease ttl (us), then fields and values for a new record
-- Returns: 'OK' the attempt stands | 'LOST'
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it answers the same.
-- @include time
-- @include job
local id, fence, mine = ARGV[1], ARGV[2], ARGV[3] .. '#' .. ARGV[2]
local old = redis.call('HMGET', record, 'state', 'fence')
if old[1] == 'RUNNING' and old[2] == fence then return 'OK' end
local holder = redis.call('GET', lease)
local now = now_us()
if old[1] then
  -- Fences only grow: a lower one in a live record is of a time before this claim.
  local live = old[1] == 'RUNNING' or old[1] == 'QUEUED' or old[1] == 'SCHEDULED' or old[1] == 'RETRYING'
  if not live or tonumber(old[2] or 0) >= tonumber(fence) then return 'LOST' end
else
  -- The beats have kept the lease, or the partition was begun anew after this claim.
  local began = redis.call('GET', marker)
  if holder ~= mine and began and tonumber(began) <= tonumber(fence) then return 'LOST' end
  redis.call('HSET', record, 'version', 0, unpack(ARGV, 7))
  epoch(now)
end
redis.call('HSET', record, 'state', 'RUNNING', 'fence', fence, 'owner', ARGV[3], 'pid', ARGV[4], 'attempt', ARGV[5],
  'settled', '0')
redis.call('HSETNX', record, 'started_at', int(now))
changed(now)
redis.call('PERSIST', record)
redis.call('SET', lease, mine, 'PX', int(tonumber(ARGV[6]) / 1000))
unindex(id)
redis.call('ZADD', leases, int(now + tonumber(ARGV[6])), id)
count('restored', redis.call('HGET', record, 'task') or '')
event('restored', fence, ARGV[5], '', true)
return 'OK'
