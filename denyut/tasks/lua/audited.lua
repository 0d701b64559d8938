-- The job store has these entries of the audit: take them off, unless they have changed since.
-- KEYS: 1 audit
-- ARGV: of each entry: id, text that was saved
-- Returns: how many are off
-- Complexity: O(entries). Sent twice, it changes nothing more.
local off = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then off = off + redis.call('HDEL', KEYS[1], ARGV[i]) end
end
return off
