-- Follow another job from now on, or none: the one that was followed is gone, and its key was taken.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 the job to follow, which was faster to take the key ('' = the key is this job's now)
-- Returns: 1, or 0 if there is no record
-- Complexity: O(1). Sent twice, it changes nothing more.
-- @include time
-- @include job
if redis.call('EXISTS', record) == 0 then return 0 end
if ARGV[2] == '' then redis.call('HDEL', record, 'follows') else redis.call('HSET', record, 'follows', ARGV[2]) end
changed(now_us())
return 1
