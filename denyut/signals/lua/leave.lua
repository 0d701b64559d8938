-- A worker has ended in an orderly way: forget it.
-- KEYS: 1 the worker, 2 all workers
-- ARGV: 1 owner
-- Returns: 'OK'
-- Complexity: O(log n) in the workers.
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 'OK'
