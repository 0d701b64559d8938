-- Reserve an idempotency key and make the record of a new job, before its message is published.
-- KEYS: the fourteen of job.lua, then the broker's Lists to push the message to, if it lives here
-- ARGV: 1 id, 2 task, 3 queue, 4 key, 5 digest, 6 fingerprint, 7 enqueue token (random), 8 message,
--       9 delay (us; 0 = now), 10 follows, 11 conflict, 12 retention (s),
--       13 '1' if the key's entry lives here and is to be taken, '2' if it is to be taken after the job that it
--       follows, whose record is the key before the Lists (see taken.lua), 14 number of those Lists (the
--       message then has the token, in quotes, where its stamp belongs: denyut/tasks/envelope.py), 15 dispatch
--       of a frozen signature ('' = not one): another one of an ended job without a key begins its next run,
--       16 time to its expiry (us), if it waits in the schedule ('' = never), then further fields of the
--       record and their values, of which until and unique_us are the key's, too
-- Returns: {'RESERVED', marker, now, generation} publish it, unless it was pushed
--   | {'SCHEDULED', due} it waits in the store
--   | {'DUPLICATE', job} the key has a job | {'CONFLICT', job} with other arguments
--   | {'NEXT', job} which is to run after that one
--   | {'EXISTS', state} the id has a job
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it answers the same.
-- @include time
-- @include job
-- @include expiry
-- @include dead
-- @include taken
-- @include stamp
local id, task, delay, lists = ARGV[1], ARGV[2], tonumber(ARGV[9]), tonumber(ARGV[14])
local now = now_us()
local old = redis.call('HMGET', record, 'state', 'enq', 'gen', 'replaced', 'settled', 'by', 'run', 'fence',
  'version', 'digest', 'replacing')
local gen, run, by = 1, 0, ARGV[15]
local refusal, waits  -- whether it waits for the end of the job that has its key

local no_list = check_lists(lists)
if no_list then return no_list end

local function answer()
  if delay > 0 or waits then return {'SCHEDULED', int(now + delay)} end
  return {'RESERVED', epoch(now), int(now), gen}
end

if old[1] and old[4] then  -- replace() gave this id to another task, whose message comes now
  redis.call('HSET', record, 'task', task, 'queue', ARGV[3], 'msg', ARGV[8], 'enq', ARGV[7],
    'by', by, 'state', delay > 0 and 'SCHEDULED' or 'QUEUED', 'due', int(now + delay))
  redis.call('HDEL', record, 'replaced')
  changed(now)
  put_message(id, now, delay)
  if delay > 0 then keep_expiry(id, now, delay, ARGV[16]) end
  gen = tonumber(old[3])
  if delay == 0 then push(lists, ARGV[8], ARGV[7], now, gen) end
  return answer()
end
if old[1] == 'RUNNING' and old[11] and old[11] == old[8] then  -- it comes before the attempt gives way
  redis.call('HSET', record, 'next', cjson.encode({task, ARGV[3], ARGV[8], int(delay), by}))
  changed(now)
  return {'SCHEDULED', int(now + delay)}
end
if old[1] then
  gen = tonumber(old[3])
  if old[2] == ARGV[7] then return answer() end
  if by == '' or old[6] == by or old[5] ~= '1' or old[10] then
    count('duplicate', task)
    often('duplicate', '0', '0', 'the same id', true, {by = origin_in(ARGV[8])})
    return {'EXISTS', old[1]}
  end
  -- A frozen signature is applied again: Celery runs it again, under the same id.
  gen, run = gen + 1, tonumber(old[7] or 0) + 1
  unbury(id)
  redis.call('DEL', record, telemetry, events)
  redis.call('ZREM', done, id)
end
if ARGV[13] ~= '0' then
  local more = {}
  for i = 17, #ARGV, 2 do more[ARGV[i]] = ARGV[i + 1] end
  refusal, waits = take_key(ARGV[13], id, ARGV[6], now, ARGV[10], KEYS[#KEYS - lists], more['until'] or '',
    more.unique_us or '')
  if refusal then
    if refusal[1] == 'DUPLICATE' then count('duplicate', task) end
    if refusal[1] == 'CONFLICT' then count('conflict', task) end
    return refusal
  end
elseif ARGV[5] ~= '' then
  confirm_key(id)
end
redis.call('HSET', record,
  'task', task, 'queue', ARGV[3], 'state', (delay > 0 or waits) and 'SCHEDULED' or 'QUEUED', 'gen', gen,
  'attempt', 0, 'failures', 0, 'crashes', 0, 'fence', old[8] or 0, 'version', next_version(old[9], now),
  'enq', ARGV[7], 'msg', ARGV[8], 'retention', ARGV[12], 'queued_at', int(now), unpack(ARGV, 17))
if delay > 0 then redis.call('HSET', record, 'due', int(now + delay)) end
if ARGV[5] ~= '' then redis.call('HSET', record, 'key', ARGV[4], 'digest', ARGV[5], 'fp', ARGV[6]) end
if ARGV[10] ~= '' then redis.call('HSET', record, 'follows', ARGV[10]) end
if ARGV[11] ~= '' then redis.call('HSET', record, 'conflict', ARGV[11]) end
if by ~= '' then redis.call('HSET', record, 'by', by) end
if run > 0 then redis.call('HSET', record, 'run', run) end
mark(now)
put_message(id, now, waits and math.max(delay, LOOK_AGAIN) or delay)
if delay > 0 and ARGV[16] ~= '' then keep_expiry(id, now, delay, ARGV[16]) end
if delay == 0 and not waits then push(lists, ARGV[8], ARGV[7], now, gen) end
count('enqueued', task)
return answer()
