-- Give a job that waits in the schedule another time: earlier, later, or now.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 delay from now (us; 0 = now), 3 one-time token of this call
-- Returns: {1 if it has the new time, state, due (us; '' if it has none), expires (us; '' if never)}
--   | {0, '', '', ''} there is no record
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it answers the same.
-- @include time
-- @include job
-- @include expiry
local id, delay, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local r = redis.call('HMGET', record, 'state', 'due', 'expires', 'moved', 'fence', 'attempt')
local state = r[1] or ''
if r[4] == token then return {1, state, r[2], r[3] or ''} end
if state ~= 'SCHEDULED' and state ~= 'RETRYING' then return {0, state, r[2] or '', r[3] or ''} end
local now = now_us()
local due = int(now + delay)
redis.call('HSET', record, 'due', due, 'moved', token)
changed(now)
put_off(id, now + delay, tonumber(r[3] or 0))
event('rescheduled', r[5] or '0', r[6] or '0', due, true)
return {1, state, due, r[3] or ''}
