-- List the jobs of one partition that somebody has to move on.
-- KEYS: 1 leases, 2 held, 3 queued, 4 done, 5 outbox (absent without a job store)
-- ARGV: 1 most ids of each kind, 2 queued timeout (us; 0 = do not look), 3 retention (us),
--       4 where to begin among those queued for long (a score, as ZRANGEBYSCORE takes it), 5 most of these
-- Returns: {ids with a lapsed lease, ids whose holder is late, ids queued for long, each with its time}
-- Complexity: O(log n + ids).
-- @include time
local now, most = now_us(), ARGV[1]
local function until_(key, time)
  return redis.call('ZRANGEBYSCORE', key, '-inf', int(time), 'LIMIT', 0, most)
end
local over = now - tonumber(ARGV[3])
-- What the store has not seen was changed after the first on its index: it is listed until it has it.
local unseen = KEYS[5] and redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
if unseen then over = math.min(over, tonumber(unseen) - 1) end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', int(over))
local long = {}
if tonumber(ARGV[2]) > 0 then
  local till = int(now - tonumber(ARGV[2]))
  long = redis.call('ZRANGEBYSCORE', KEYS[3], ARGV[4], till, 'WITHSCORES', 'LIMIT', 0, ARGV[5])
end
return {until_(KEYS[1], now), until_(KEYS[2], now), long}
