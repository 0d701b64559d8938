-- Take a reservation back: its message could not be published.
-- A copy may have reached the broker all the same, so the job ends as CANCELLED and is remembered:
-- the copy finds an ended job and is dropped.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 enqueue token, 3 retention (us)
-- Returns: 1 if taken back, 0 if a worker was faster or the reservation is not this one
-- Complexity: O(log n) in the jobs of the partition.
-- @include time
-- @include job
-- @include close
local old = redis.call('HMGET', record, 'state', 'enq', 'attempt', 'task')
if old[2] ~= ARGV[2] or old[3] ~= '0' or (old[1] ~= 'QUEUED' and old[1] ~= 'SCHEDULED') then return 0 end
local now = now_us()
event('unpublished', '0', '0', '', true, {by = origin_in(redis.call('HGET', record, 'msg'))})
redis.call('HSET', record, 'state', 'CANCELLED', 'finished_at', int(now), 'settled', '1',
  'error', '["PublishError", "the message could not be published"]')
changed(now)
close(ARGV[1], 'CANCELLED', now, tonumber(ARGV[3]))
count('unpublished', old[4])
return 1
