-- Note in the story of a job what happened to it outside any step of its own: a duplicate that was answered.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 kind, 3 data, 4 who did it
-- Returns: 1, or 0 if there is no record
-- Complexity: O(1).
-- @include time
-- @include job
if redis.call('EXISTS', record) == 0 then return 0 end
often(ARGV[2], '0', '0', ARGV[3], true, {by = ARGV[4]})
return 1
