-- Look whether a step of a job was done in an earlier attempt, or keep what it returned. The first value stands.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 fence, 3 field of the step, 4 value (JSON; '' = only look), 5 most steps of a job
-- Returns: {'UNDONE'} | {'DONE', value} | {'FULL', steps} | {'LOST'} another attempt owns the job
-- Complexity: O(1). Sent twice, it answers the same.
-- @include time
-- @include job
local step, value = ARGV[3], ARGV[4]
local old = redis.call('HMGET', record, 'state', 'fence', 'steps', step)
if old[1] ~= 'RUNNING' or old[2] ~= ARGV[2] then return {'LOST'} end
if old[4] then return {'DONE', old[4]} end
if tonumber(old[3] or 0) >= tonumber(ARGV[5]) then return {'FULL', old[3]} end
if value == '' then return {'UNDONE'} end
redis.call('HSET', record, step, value)
redis.call('HINCRBY', record, 'steps', 1)
changed(now_us())
return {'DONE', value}
