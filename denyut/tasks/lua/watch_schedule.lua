-- Become, or stay, the one worker that watches closely: the schedules, or what the job store has not seen.
-- KEYS: 1 the lease of the watch, 2 the workers
-- ARGV: 1 owner, 2 lease ttl (ms)
-- Returns: {1 if this worker watches, ms until the lease can lapse, number of workers}
-- Complexity: O(1). Sent twice, it answers the same.
local watcher = redis.call('GET', KEYS[1])
local mine = not watcher or watcher == ARGV[1]
if mine then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return {mine and 1 or 0, redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2])}
