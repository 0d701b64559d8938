-- Read everything that a verdict needs, at one moment.
-- KEYS: 1 record, 2 telemetry, 3 lease, 4 alive, 5 marker of the partition
-- ARGV: the fields of the record to read
-- Returns: {record values, telemetry (flat field-value list), lease ('' if none), its time to live (ms),
--   1 if alive, marker ('' if none), now (us)}
-- Complexity: O(fields).
-- @include time
return {
  redis.call('HMGET', KEYS[1], unpack(ARGV)),
  redis.call('HGETALL', KEYS[2]),
  redis.call('GET', KEYS[3]) or '',
  redis.call('PTTL', KEYS[3]),
  redis.call('EXISTS', KEYS[4]),
  redis.call('GET', KEYS[5]) or '',
  int(now_us()),
}
