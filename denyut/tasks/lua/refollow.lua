-- Follow another job from now on: the one that was followed is gone, and somebody was faster to take its key.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 the job to follow
-- Returns: 1, or 0 if there is no record
-- Complexity: O(1). Sent twice, it changes nothing more.
-- @include time
-- @include job
if redis.call('EXISTS', record) == 0 then return 0 end
redis.call('HSET', record, 'follows', ARGV[2])
changed(now_us())
return 1
