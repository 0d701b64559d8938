-- Put a job that no index has into the one where it belongs: somebody deleted an index, or Redis evicted it.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id
-- Returns: 1 if it was put back, 0 if it needs none, an index has it, or there is no record
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it changes nothing more.
-- @include time
-- @include job
-- @include expiry
local id, now = ARGV[1], now_us()
local r = redis.call('HMGET', record, 'state', 'due', 'expires', 'settled', 'queued_at', 'replaced')
local state = r[1]
-- A job that is replaced is in none until its message comes; one that is settled needs nobody.
if not state or r[6] or (r[4] == '1' and state ~= 'QUEUED' and state ~= 'SCHEDULED' and state ~= 'RETRYING'
  and state ~= 'RUNNING') then return 0 end
for _, index in ipairs({leases, schedule, queued}) do
  if redis.call('ZSCORE', index, id) then return 0 end
end
if state == 'SCHEDULED' or state == 'RETRYING' then
  put_off(id, tonumber(r[2] or now), tonumber(r[3] or 0))
elseif state == 'QUEUED' then
  redis.call('ZADD', queued, r[5] or int(now), id)
else  -- it runs, or its end is still to be told: recovery looks whether somebody has its lease
  redis.call('ZADD', leases, int(now), id)
end
return 1
