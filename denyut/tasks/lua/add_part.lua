-- Count a part that a task adds to its chord, in Celery's result backend; the same part only once.
-- KEYS: 1 Celery's count of added parts, 2 the ids of those that were counted
-- ARGV: 1 id of the part, 2 time to live (s; 0 = none)
-- Returns: how many parts were added
-- Complexity: O(1). Sent twice, it answers the same.
if redis.call('SADD', KEYS[2], ARGV[1]) == 1 then redis.call('INCR', KEYS[1]) end
if tonumber(ARGV[2]) > 0 then redis.call('EXPIRE', KEYS[2], ARGV[2]) end
return tonumber(redis.call('GET', KEYS[1]))
