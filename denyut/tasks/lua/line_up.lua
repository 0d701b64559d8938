-- Let a suspect wait for its turn.
-- KEYS: 1 suspects
-- ARGV: 1 id
-- Returns: 1 if it is new in the line, else 0
-- Complexity: O(log n) in the suspects. Sent twice, it changes nothing more.
-- @include time
return redis.call('ZADD', KEYS[1], 'NX', int(now_us()), ARGV[1])
