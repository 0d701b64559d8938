-- List the jobs of one partition that somebody has to move on.
-- KEYS: 1 leases, 2 held, 3 queued, 4 done
-- ARGV: 1 most ids of each kind, 2 queued timeout (us; 0 = do not look), 3 retention (us)
-- Returns: {ids with a lapsed lease, ids whose holder is late, ids queued for long}
-- Complexity: O(log n + ids).
-- @include time
local now, most = now_us(), ARGV[1]
local function until_(key, time)
  return redis.call('ZRANGEBYSCORE', key, '-inf', int(time), 'LIMIT', 0, most)
end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', int(now - tonumber(ARGV[3])))
local long = {}
if tonumber(ARGV[2]) > 0 then long = until_(KEYS[3], now - tonumber(ARGV[2])) end
return {until_(KEYS[1], now), until_(KEYS[2], now), long}
