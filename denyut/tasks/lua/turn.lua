-- Say whose turn it is to run alone; give it to the suspect that has waited longest if it is nobody's.
-- KEYS: 1 turn, 2 suspects
-- ARGV: 1 how long a turn lasts at most (ms), 2 id whose turn is over ('' = none)
-- Returns: {id whose turn it was before this call, id whose turn has begun}; '' where there is none
-- Complexity: O(log n) in the suspects. Sent twice, the turn that has begun is told as one that is on.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[2] then return {holder, ''} end
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if not first then
  redis.call('DEL', KEYS[1])
  return {'', ''}
end
redis.call('SET', KEYS[1], first, 'PX', ARGV[1])
redis.call('ZREM', KEYS[2], first)
return {'', first}
