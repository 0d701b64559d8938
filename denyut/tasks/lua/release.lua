-- Take the lease of a running job away by hand: its attempt is fenced off, and it runs again. Neither
-- budget counts it.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 why (JSON: reason, who), 3 who does it, 4 one-time token, 5 time to publish it (us)
-- Returns: {'PUBLISH', message, marker, now, generation, owner} | {'OTHER', state} it does not run
--   | {'STOPPING', state} it was cancelled | {'UNKNOWN'}
-- Complexity: O(log n) in the jobs of the partition. Sent twice with one token, it answers the same.
-- @include time
-- @include job
local id, token, now = ARGV[1], ARGV[4], now_us()
local r = redis.call('HMGET', record, 'state', 'fence', 'gen', 'attempt', 'task', 'msg', 'owner', 'enq', 'cancel')
local state, gen = r[1], tonumber(r[3] or 0)
if not state then return {'UNKNOWN'} end
if not (state == 'QUEUED' and r[8] == token) then
  if state ~= 'RUNNING' then return {'OTHER', state} end
  if r[9] then return {'STOPPING', state} end
  local fence = int(math.max(tonumber(r[2]) + 1, now))
  gen = gen + 1
  event('released', r[2], r[4], ARGV[2], true, {by = ARGV[3], gen = int(gen)})
  redis.call('DEL', lease, alive)
  unindex(id)
  redis.call('HSET', record, 'state', 'QUEUED', 'fence', fence, 'gen', int(gen), 'enq', token)
  changed(now)
  redis.call('ZADD', held, int(now + tonumber(ARGV[5])), id)
  redis.call('ZADD', queued, int(now), id)
  count('released', r[5])
end
return {'PUBLISH', r[6] or '', epoch(now), int(now), gen, r[7] or ''}
