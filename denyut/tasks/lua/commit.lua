-- Let an attempt commit its effect only while it owns the job, and note that it may have one from now on.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 fence
-- Returns: 'OK' | 'CANCELLED' | 'LOST' another attempt owns the job, or it has ended; nothing was written
-- Complexity: O(1). Sent twice, it answers the same.
-- @include time
-- @include job
local old = redis.call('HMGET', record, 'state', 'fence', 'committing', 'cancel')
if old[1] == 'CANCELLED' then return 'CANCELLED' end
if old[1] ~= 'RUNNING' or old[2] ~= ARGV[2] then return 'LOST' end
if old[4] then return 'CANCELLED' end  -- it was told to stop, and has not heard it yet
if old[3] ~= ARGV[2] then
  redis.call('HSET', record, 'committing', ARGV[2])
  changed(now_us())
end
return 'OK'
