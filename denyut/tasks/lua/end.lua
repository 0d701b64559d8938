-- End a live job from outside its attempt, which is fenced off: its later writes are refused.
-- KEYS: the thirteen of job.lua
-- ARGV: 1 id, 2 state, 3 error, 4 retention (us)
-- Returns: the state it was found in (terminal: nothing was changed), or '' if there is no record
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it changes nothing more.
-- @include time
-- @include job
local id, state = ARGV[1], ARGV[2]
local old = redis.call('HMGET', record, 'state', 'fence', 'task', 'attempt')
if not old[1] then return '' end
if old[1] ~= 'RUNNING' and old[1] ~= 'QUEUED' and old[1] ~= 'SCHEDULED' and old[1] ~= 'RETRYING' then
  return old[1]
end
local now = now_us()
local fence = math.max(tonumber(old[2]) + 1, now)
redis.call('HSET', record, 'state', state, 'fence', int(fence), 'finished_at', int(now))
redis.call('HINCRBY', record, 'version', 1)
if ARGV[3] ~= '' then redis.call('HSET', record, 'error', ARGV[3]) end
if redis.call('EXISTS', telemetry) == 1 then redis.call('HSET', telemetry, 'status', state) end
count(string.lower(state), old[3])
event(string.lower(state), int(fence), old[4], ARGV[3], false)
close(id, state, now, tonumber(ARGV[4]))
return old[1]
