-- List dead letters of one partition that are to be purged: those over their retention, and the oldest of
-- too many.
-- KEYS: 1 dead
-- ARGV: 1 retention (us), 2 most letters to keep, 3 most ids to return
-- Returns: ids, oldest first
-- Complexity: O(log n + ids).
-- @include time
local before, batch = int(now_us() - tonumber(ARGV[1])), tonumber(ARGV[3])
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'LIMIT', 0, batch)
local surplus = math.min(redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[2]), batch)
if surplus > #old then old = redis.call('ZRANGE', KEYS[1], 0, surplus - 1) end
return old
