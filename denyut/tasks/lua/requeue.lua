-- Begin the next generation of a running job: a retry, a replacement, or the same message again.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 fence, 3 'retry' | 'replace' | 'requeue', 4 message ('' = keep; for 'replace': it comes
--       later), 5 delay (us; 0 = now), 6 task, 7 queue, 8 enqueue token, 9 error (JSON), 10 traceback,
--       11 time to its expiry (us), if it waits in the schedule ('' = never)
-- Returns: {'RESERVED', marker, now, generation} publish it | {'SCHEDULED', due} | {'LOST'}
--   | {'CANCELLED'} it was asked to stop: nothing was written
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it answers the same.
-- @include time
-- @include job
-- @include expiry
local id, fence, what, delay = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5])
local old = redis.call('HMGET', record, 'state', 'fence', 'gen', 'enq', 'attempt', 'task', 'cancel', 'next')
local now = now_us()
local gen = tonumber(old[3] or 0)
local again = old[1] and old[2] == fence and old[1] ~= 'RUNNING' and old[4] == ARGV[8]
if not again then
  if old[1] ~= 'RUNNING' or old[2] ~= fence then
    if old[6] then
      count('lost', old[6])
      often('lost', fence, old[5] or '0', what, true, {})
    end
    return {'LOST'}
  end
  if old[7] then return {'CANCELLED'} end
  if what == 'retry' then
    event('retrying', fence, old[5], ARGV[9], true)
    if ARGV[9] ~= '' then keep_error(old[5], ARGV[9], ARGV[10], now) end
  elseif what == 'replace' then
    event('replaced', fence, old[5], ARGV[6], false)
  else
    often('requeued', fence, old[5], '', true)
  end
  if what ~= 'requeue' then gen = gen + 1 end  -- a requeued message is the same one again
  local state = 'QUEUED'
  if delay > 0 then state = what == 'retry' and 'RETRYING' or 'SCHEDULED' end
  redis.call('HSET', record, 'state', state, 'gen', gen, 'task', ARGV[6], 'queue', ARGV[7], 'enq', ARGV[8],
    'due', int(now + delay))
  changed(now)
  redis.call('HDEL', record, 'suspect')  -- it ended an attempt, and its worker lives
  if ARGV[4] ~= '' then redis.call('HSET', record, 'msg', ARGV[4]) end
  if what == 'retry' then
    redis.call('HINCRBY', record, 'failures', 1)
    if ARGV[9] ~= '' then redis.call('HSET', record, 'error', ARGV[9]) end
    count('retried', old[6])
  end
  redis.call('DEL', lease, alive)
  unindex(id)
  redis.call('HDEL', record, 'replacing', 'next')
  if what == 'replace' and old[8] then  -- the replacement has come already: recovery publishes it
    local coming = cjson.decode(old[8])
    local wait = tonumber(coming[4])
    redis.call('HSET', record, 'task', coming[1], 'queue', coming[2], 'msg', coming[3], 'by', coming[5],
      'state', wait > 0 and 'SCHEDULED' or 'QUEUED', 'due', int(now + wait))
    put_message(id, now, wait)
    if wait == 0 then redis.call('ZADD', held, int(now), id) end
  elseif what == 'replace' and ARGV[4] == '' then
    redis.call('HSET', record, 'replaced', '1')
  else
    put_message(id, now, delay)
    if delay > 0 then keep_expiry(id, now, delay, ARGV[11]) end
  end
end
if delay > 0 then return {'SCHEDULED', int(now + delay)} end
return {'RESERVED', epoch(now), int(now), gen}
