-- Read the indexes and counters of one partition, at one moment.
-- KEYS: 1 leases, 2 schedule, 3 queued, 4 held, 5 done, 6 counters, 7 locks
-- ARGV: none
-- Returns: {now (us), counters (flat name-count list), leases (flat list of id and deadline, by deadline),
--   sizes of schedule, queued, held and done, first due, first queued ('' if there is none),
--   how many locks are held}
-- Complexity: O(running jobs + counters).
-- @include time
local function first(index)
  return redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2] or ''
end
return {
  int(now_us()),
  redis.call('HGETALL', KEYS[6]),
  redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'),
  redis.call('ZCARD', KEYS[2]),
  redis.call('ZCARD', KEYS[3]),
  redis.call('ZCARD', KEYS[4]),
  redis.call('ZCARD', KEYS[5]),
  first(KEYS[2]),
  first(KEYS[3]),
  redis.call('ZCOUNT', KEYS[7], '(' .. int(now_us()), '+inf'),
}
