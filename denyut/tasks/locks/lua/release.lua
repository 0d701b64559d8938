-- Release a lock, if it is still the hold of the caller, and hand it to whoever waits for it first.
-- KEYS: 1 lock, 2 wake, 3 locks, 4 freed
-- ARGV: 1 name, 2 token ('' by hand: the fence alone decides), 3 fence (0: not known), 4 how long to remember a
--       hold that is over (us), 5 baton for the next one (random), 6 how long it is kept for him (us), 7 time since
--       the owner was last told that the lock is his (us)
-- Returns: 1 released, by this call or its twin | 0 the lock was lost before
-- Complexity: O(log n), n locks of the partition. Sent twice, it answers the same.
-- @include time
-- @include lock
local lock, wake, index, freed = unpack(KEYS)
local name, token, fence, remember = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local baton, grace, now = ARGV[5], tonumber(ARGV[6]), now_us()
local MOMENT = 50000  -- us; longer than it takes to line up
local r = read_lock(lock)

local by_hand = token == ''
if not by_hand and redis.call('ZSCORE', freed, token) then return 1 end
if fence == 0 and r.token == token then fence = r.fence end
local known = r.fence == fence
if known and r.token == '' then return by_hand and 1 or 0 end  -- released by hand
if known and not by_hand and r.token ~= token then return 0 end
if not known then
  -- Redis has lost this hold, and nobody has taken the lock since (see renew.lua), or it was lost before.
  local ours = r.fence < fence and (r.fence > 0 or remembered(tonumber(ARGV[7]), remember))
  if by_hand or not ours then return 0 end
end

if not by_hand then
  redis.call('ZREMRANGEBYSCORE', freed, '-inf', int(now))
  redis.call('ZADD', freed, int(now + remember), token)
  redis.call('PEXPIRE', freed, int(math.ceil(remember / 1000)))
end
if not known then return 1 end
redis.call('HDEL', lock, 'token')
redis.call('ZREM', index, name)
if r.waited > now then
  redis.call('HSET', lock, 'baton', baton, 'until', int(now + grace), 'kept', int(now + MOMENT))
  redis.call('DEL', wake)
  redis.call('RPUSH', wake, baton)
  redis.call('PEXPIRE', wake, int(math.ceil(grace / 1000)))
end
redis.call('PEXPIRE', lock, int(math.ceil(remember / 1000)))
return 1
