-- Release an idempotency key that lives in another partition than its job, if the job still has it.
-- KEYS: 1 the key's entry, 2 the schedule of its partition
-- ARGV: 1 job id, 2 'start' | 'completed' | 'failed': what has become of the job, 3 time for which a completed
--       job answers for its key (us)
-- Returns: 1 if the job had it, else 0
-- Complexity: O(log n) in the jobs of the partition.
-- @include time
-- @include key
return release_key(KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), now_us())
