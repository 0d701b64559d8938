-- Take a lock of the user's own if it is free, or say who has it.
-- KEYS: 1 lock, 2 wake, 3 locks, 4 fences, 5 freed, 6 counters
-- ARGV: 1 name, 2 token of this try, 3 ttl (us), 4 how long to remember a hold that is over (us), 5 baton that the
--       caller was woken with ('' if none), 6 how long he will wait now if he is refused (us; 0: not at all), 7 host,
--       8 pid, 9 job
-- Returns: {'TAKEN', fence} | {'WAIT', us until the hold is over, fence, host, pid, job, acquired}: another has it
--       (pid '': he was woken, and is about to take it) | {'OVER'}: this try took it before, and has released it
-- Complexity: O(log n), n locks of the partition. Sent twice, it answers the same.
-- @include time
-- @include lock
local lock, wake, index, fences, freed, counters = unpack(KEYS)
local name, token, ttl, remember = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local baton, waits, now = ARGV[5], tonumber(ARGV[6]), now_us()
local r = read_lock(lock)

if r.token == token then
  hold(lock, index, name, token, r.fence, ttl, remember, now)
  return {'TAKEN', int(r.fence)}
end
if redis.call('ZSCORE', freed, token) then return {'OVER'} end
local live = r.till > now
-- A baton that lies in the list has no taker: whoever waits there would have been given it. But one who was refused
-- a moment ago may be about to line up there.
local coming = r.token == '' and r.baton ~= '' and r.baton ~= baton
  and (now < tonumber(redis.call('HGET', lock, 'kept')) or redis.call('LLEN', wake) == 0)
if live and (r.token ~= '' or coming) then
  if waits > 0 and now + waits > r.waited then redis.call('HSET', lock, 'waited', int(now + waits)) end
  return {'WAIT', int(r.till - now), int(r.fence), r.host, r.token ~= '' and r.pid or '', r.job, r.acquired}
end

local fence = math.max(r.fence + 1, tonumber(redis.call('GET', fences) or 0) + 1, now)
redis.call('SET', fences, int(fence))
redis.call('HINCRBY', counters, 'lock_taken', 1)
if r.token ~= '' then redis.call('HINCRBY', counters, 'lock_lapsed', 1) end
redis.call('HSET', lock, 'host', ARGV[7], 'pid', ARGV[8], 'job', ARGV[9], 'acquired', int(now))
redis.call('HDEL', lock, 'baton')
redis.call('DEL', wake)
redis.call('ZREMRANGEBYSCORE', index, '-inf', int(now))
hold(lock, index, name, token, fence, ttl, remember, now)
return {'TAKEN', int(fence)}
