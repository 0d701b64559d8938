-- Note why a running attempt's lease is renewed no more. It lapses by itself; whoever finds it says why.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 fence, 3 'stalled' | 'overran', 4 why, 5 owner, 6 pid
-- Returns: 1, or 0 if another attempt has the job, or it has ended
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it is noted once.
-- @include time
-- @include job
local fence = ARGV[2]
local r = redis.call('HMGET', record, 'state', 'fence', 'attempt', 'task', 'let_go')
if r[1] ~= 'RUNNING' or r[2] ~= fence then return 0 end
local said = cjson.encode({fence, ARGV[3], ARGV[4]})
if r[5] == said then return 1 end
redis.call('HSET', record, 'let_go', said)
changed(now_us())
if ARGV[3] == 'stalled' then count('stalled', r[4]) else count('overran', r[4]) end
event(ARGV[3], fence, r[3], ARGV[4], true, {by = ARGV[5], pid = ARGV[6]})
return 1
