-- Close an idempotency key that lives in another partition than its job, if the job still holds it.
-- KEYS: 1 the key's entry
-- ARGV: 1 job id, 2 time for which it still answers (ms; 0 = it is free at once)
-- Returns: 1 if it was closed, else 0
-- Complexity: O(1).
if redis.call('HGET', KEYS[1], 'job') ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
