-- Reserve an idempotency key and make the record of a new job, before its message is published.
-- KEYS: the thirteen of job.lua
-- ARGV: 1 id, 2 task, 3 queue, 4 key, 5 digest, 6 fingerprint, 7 enqueue token, 8 message,
--       9 delay (us; 0 = now), 10 follows, 11 conflict, 12 retention (s),
--       13 '1' if the key's entry lives here and is to be taken
-- Returns: {'RESERVED', marker, now, generation} publish it | {'SCHEDULED', due} it waits in the store
--   | {'DUPLICATE', job} the key has a job | {'CONFLICT', job} with other arguments
--   | {'EXISTS', state} the id has a job
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it answers the same.
-- @include time
-- @include job
local id, task, delay = ARGV[1], ARGV[2], tonumber(ARGV[9])
local now = now_us()
local old = redis.call('HMGET', record, 'state', 'enq', 'gen', 'replaced')

local function answer(gen)
  if delay > 0 then return {'SCHEDULED', int(now + delay)} end
  return {'RESERVED', epoch(now), int(now), gen}
end

if old[1] and old[4] then  -- replace() gave this id to another task, whose message comes now
  redis.call('HSET', record, 'task', task, 'queue', ARGV[3], 'msg', ARGV[8], 'enq', ARGV[7],
    'state', delay > 0 and 'SCHEDULED' or 'QUEUED', 'due', int(now + delay))
  redis.call('HDEL', record, 'replaced')
  redis.call('HINCRBY', record, 'version', 1)
  put_message(id, now, delay)
  return answer(tonumber(old[3]))
end
if old[1] then
  if old[2] == ARGV[7] then return answer(tonumber(old[3])) end
  count('duplicate', task)
  return {'EXISTS', old[1]}
end
if ARGV[13] == '1' then
  local holder = redis.call('HMGET', key_entry, 'job', 'fp')
  if holder[1] then
    if holder[2] ~= ARGV[6] then
      count('conflict', task)
      return {'CONFLICT', holder[1]}
    end
    count('duplicate', task)
    return {'DUPLICATE', holder[1]}
  end
  redis.call('HSET', key_entry, 'job', id, 'fp', ARGV[6], 'at', int(now))
end
redis.call('HSET', record,
  'task', task, 'queue', ARGV[3], 'state', delay > 0 and 'SCHEDULED' or 'QUEUED', 'gen', 1, 'attempt', 0,
  'failures', 0, 'crashes', 0, 'fence', 0, 'version', 1, 'enq', ARGV[7], 'msg', ARGV[8],
  'retention', ARGV[12], 'queued_at', int(now))
if delay > 0 then redis.call('HSET', record, 'due', int(now + delay)) end
if ARGV[5] ~= '' then redis.call('HSET', record, 'key', ARGV[4], 'digest', ARGV[5], 'fp', ARGV[6]) end
if ARGV[10] ~= '' then redis.call('HSET', record, 'follows', ARGV[10]) end
if ARGV[11] ~= '' then redis.call('HSET', record, 'conflict', ARGV[11]) end
put_message(id, now, delay)
count('enqueued', task)
return answer(1)
