-- The continuation (callbacks, chain, chord part, result) is done: free the lease, start the retention.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 fence, 3 retention (us)
-- Returns: 'OK' | 'LOST'
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it answers the same.
-- @include time
-- @include job
-- @include close
local old = redis.call('HMGET', record, 'state', 'fence', 'settled', 'attempt', 'finished_at')
if not old[1] or old[2] ~= ARGV[2] then return 'LOST' end
if old[3] == '1' then return 'OK' end
if old[1] == 'RUNNING' or old[1] == 'QUEUED' or old[1] == 'SCHEDULED' or old[1] == 'RETRYING' then
  return 'LOST'
end
local now = now_us()
redis.call('HSET', record, 'settled', '1')
changed(now)
close(ARGV[1], old[1], now, tonumber(ARGV[3]), leases, old[5])
event('settled', old[2], old[4] or '0', old[1], false)
return 'OK'
