-- Say that a worker lives, and what it does.
-- KEYS: 1 the worker, 2 all workers
-- ARGV: 1 owner, 2 time to live (ms), 3 time to be remembered (us), then pairs of field and value
-- Returns: 'OK'
-- Complexity: O(log n) in the workers.
-- @include time
local now = now_us()
redis.call('HSET', KEYS[1], 'last_heartbeat', int(now), unpack(ARGV, 4))
redis.call('HSETNX', KEYS[1], 'started', int(now))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[2], int(now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', int(now - tonumber(ARGV[3])))
return 'OK'
