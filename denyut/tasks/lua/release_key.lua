-- Free an idempotency key that lives in another partition than its job, if the job still holds it.
-- KEYS: 1 the key's entry
-- ARGV: 1 job id
-- Returns: 1 if freed, else 0
-- Complexity: O(1).
if redis.call('HGET', KEYS[1], 'job') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
