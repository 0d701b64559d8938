-- Cancel a job in whatever state: one that waits, or whose worker is gone, ends here and now; one that
-- runs is asked to stop, which its worker's next beat sees.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 error: who and why, 3 who does it, 4 one-time token, 5 time for telling (us),
--       6 '1' to leave one alone that is RUNNING
-- Returns: {'CANCELLED', fence, message} it has ended: tell Celery and settle | {'REQUESTED', owner}
--   | {'ENDED', state} nothing was changed | {'UNKNOWN'} there is no record | {'SPARED'}
-- Complexity: O(log n) in the jobs of the partition. Sent twice with one token, it answers the same.
-- @include time
-- @include job
-- @include dead
local id, why, token = ARGV[1], ARGV[2], ARGV[4]
local r = redis.call('HMGET', record, 'state', 'fence', 'attempt', 'task', 'msg', 'owner', 'token', 'cancel')
local state = r[1]
if not state then return {'UNKNOWN'} end
if state == 'CANCELLED' and r[7] == token then return {'CANCELLED', r[2], r[5] or ''} end
if state == 'RUNNING' and ARGV[6] == '1' then return {'SPARED'} end
if state == 'RUNNING' and redis.call('EXISTS', lease) == 1 then
  if not r[8] then
    redis.call('HSET', record, 'cancel', why)
    changed(now_us())
    count('cancel_requested', r[4])
    event('cancel_requested', r[2], r[3], why, true, {by = ARGV[3]})
  end
  return {'REQUESTED', r[6] or ''}
end
if state == 'RUNNING' or state == 'QUEUED' or state == 'SCHEDULED' or state == 'RETRYING' then
  redis.call('HSET', record, 'cancel', why, 'token', token)
  local now = now_us()
  local fence = cancel_now(id, now, tonumber(r[2]), r[3], r[4], why, {by = ARGV[3]})
  funeral(id, now, fence, tonumber(ARGV[5]))
  return {'CANCELLED', fence, r[5] or ''}
end
return {'ENDED', state}
