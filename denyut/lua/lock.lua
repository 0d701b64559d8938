-- A lock of the user's own, as its Hash has it (needs time). It is HELD while there is a token and its time is not
-- over, HANDED (to whoever comes with the baton) while there is a baton and its time is not over, else free.
-- The Hash outlives the hold: who asks for a lock that is his knows whether anybody has had it since.
local function read_lock(key)
  local r = redis.call('HMGET', key, 'token', 'fence', 'until', 'baton', 'waited', 'host', 'pid', 'job', 'acquired')
  return {token = r[1] or '', fence = tonumber(r[2] or 0), till = tonumber(r[3] or 0), baton = r[4] or '',
    waited = tonumber(r[5] or 0), host = r[6] or '', pid = r[7] or '', job = r[8] or '', acquired = r[9] or '0'}
end

-- Whether any hold since `answered` (us ago) would have left a Hash that is still there. The other half of the time
-- is for a call that comes late.
local function remembered(answered, remember)
  return answered < remember / 2
end

-- remember: how long the Hash stays when the hold is over (us)
local function hold(key, index, name, token, fence, ttl, remember, now)
  redis.call('HSET', key, 'token', token, 'fence', int(fence), 'until', int(now + ttl))
  redis.call('PEXPIRE', key, int(math.ceil((ttl + remember) / 1000)))
  redis.call('ZADD', index, int(now + ttl), name)
end
