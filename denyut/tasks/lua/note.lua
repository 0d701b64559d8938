-- Note in the story of a job what happened to it outside any step of its own: a duplicate that was answered.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 kind, 2 data, 3 who did it
-- Returns: 1, or 0 if there is no record
-- Complexity: O(1).
-- @include time
-- @include job
if redis.call('EXISTS', record) == 0 then return 0 end
often(ARGV[1], '0', '0', ARGV[2], true, {by = ARGV[3]})
return 1
