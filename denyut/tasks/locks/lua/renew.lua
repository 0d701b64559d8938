-- Renew locks of one partition that their owners hold, and say which of them are lost.
-- KEYS: 1 locks, 2 fences, 3 freed; then of each: lock
-- ARGV: 1 how long to remember a hold that is over (us); then of each: name, token, fence, ttl (us), time since
--       its owner was last told that it is his (us), host, pid, job
-- Returns: for each, in their order: 'RENEWED' | 'LOST' | 'FREED': its owner has released it meanwhile | an error
-- Complexity: O(locks * log n), n locks of the partition. Sent twice, it answers the same.
-- A lock that lapsed and that nobody has taken since is still its owner's. Redis may have lost data: if the Hash is
-- gone though it would have been remembered, or is older than this hold, nobody has taken the lock since either.
-- @include time
-- @include lock
local index, fences, freed, remember, now = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1]), now_us()
local PER, FIRST = 8, 3

local function renew(i)
  local name, token, fence, ttl, answered, host, pid, job = unpack(ARGV, 2 + i * PER, 1 + (i + 1) * PER)
  local key, mine = KEYS[FIRST + 1 + i], tonumber(fence)
  local r = read_lock(key)
  local ours = r.fence == mine and r.token == token
  if not ours then
    if redis.call('ZSCORE', freed, token) then return 'FREED' end
    if r.fence >= mine or r.fence == 0 and not remembered(tonumber(answered), remember) then return 'LOST' end
    if tonumber(redis.call('GET', fences) or 0) < mine then redis.call('SET', fences, fence) end
    redis.call('HSET', key, 'host', host, 'pid', pid, 'job', job, 'acquired', fence)
    redis.call('HDEL', key, 'baton')
  end
  hold(key, index, name, token, mine, tonumber(ttl), remember, now)
  return 'RENEWED'
end

local answers = {}
for i = 0, #KEYS - FIRST - 1 do
  local ok, answer = pcall(renew, i)  -- one broken key must not cost the others their locks
  answers[i + 1] = ok and answer or (type(answer) == 'table' and answer.err or tostring(answer))
end
return answers
