-- Begin to retry an ended job by hand: choose the id of the new job, and give what it is made of.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 id for the new job, 3 '1' to retry it although it has been
-- Returns: {'GO', new id, message, task, queue, key, digest, fingerprint, retention (s), checkpoint,
--   until, unique_us}; the new id is that of somebody who has begun and not come to the end, if there is one
--   | {'ALREADY', new id} | {'LIVE', state} | {'UNSETTLED', state} | {'NO_MESSAGE', state} | {'UNKNOWN'}
-- Complexity: O(1). Sent twice, it answers the same.
-- @include time
-- @include job
local r = redis.call('HMGET', record, 'state', 'settled', 'msg', 'retried_as', 'retrying_as', 'task', 'queue',
  'key', 'digest', 'fp', 'retention', 'checkpoint', 'until', 'unique_us')
local state = r[1]
if not state then return {'UNKNOWN'} end
if state == 'QUEUED' or state == 'RUNNING' or state == 'SCHEDULED' or state == 'RETRYING' then
  return {'LIVE', state}
end
if r[2] ~= '1' then return {'UNSETTLED', state} end
if r[4] and ARGV[3] ~= '1' then return {'ALREADY', r[4]} end
if not r[3] or r[3] == '' then return {'NO_MESSAGE', state} end
local new = r[5] or ARGV[2]
redis.call('HSET', record, 'retrying_as', new)
changed(now_us())
return {'GO', new, r[3], r[6] or '', r[7] or '', r[8] or '', r[9] or '', r[10] or '', r[11] or '', r[12] or '',
  r[13] or '', r[14] or ''}
