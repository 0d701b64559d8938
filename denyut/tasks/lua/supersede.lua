-- Give a job that has not begun a newer message: it keeps its id and its key, the older message is void.
-- KEYS: the fourteen of job.lua, then the broker's Lists to push the message to, if it lives here
-- ARGV: 1 id, 2 task, 3 queue, 4 fingerprint, 5 enqueue token (random), 6 message (with a place for its stamp, as
--       in reserve.lua), 7 delay (us; 0 = now), 8 time to its expiry (us), if it waits in the schedule ('' =
--       never), 9 number of those Lists, 10 until and 11 period (us) of the key: see key.lua, 12 the producer
-- Returns: {'RESERVED', marker, now, generation} publish it, unless it was pushed
--   | {'SCHEDULED', due} it waits in the store
--   | {'SAME', state} it waits with these very arguments
--   | {'STARTED', state, '1' if these are its arguments} it cannot be changed any more | {'FREE'} it has not the key
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it answers the same.
-- @include time
-- @include job
-- @include expiry
-- @include key
-- @include stamp
local id, token, delay, lists = ARGV[1], ARGV[5], tonumber(ARGV[7]), tonumber(ARGV[9])
local now = now_us()
local r = redis.call('HMGET', record, 'state', 'gen', 'attempt', 'enq', 'fp', 'given', 'replaced', 'fence')
local entry = redis.call('HMGET', key_entry, 'job', 'next')
local coming = entry[2] and cjson.decode(entry[2])
local waits = coming and coming[1] == id  -- for the job that has the key
local state, gen = r[1], tonumber(r[2] or 0)
local later = delay > 0 or waits

local function answer()
  if later then return {'SCHEDULED', int(now + delay)} end
  return {'RESERVED', epoch(now), int(now), int(gen)}
end

if not state or (entry[1] ~= id and not waits) then return {'FREE'} end
if r[4] == token then return answer() end
if r[3] ~= '0' or (state ~= 'QUEUED' and state ~= 'SCHEDULED') or r[6] or r[7] then
  return {'STARTED', state, r[5] == ARGV[4] and '1' or '0'}
end
if r[5] == ARGV[4] and delay == 0 and (state == 'QUEUED' or waits) then
  count('duplicate', ARGV[2])
  often('duplicate', '0', '0', 'the same arguments', true, {by = ARGV[12]})
  return {'SAME', state}
end
local no_list = check_lists(lists)
if no_list then return no_list end
gen = gen + 1
often('superseded', r[8] or '0', '0', '', true, {by = ARGV[12], gen = int(gen)})
redis.call('HSET', record, 'state', later and 'SCHEDULED' or 'QUEUED', 'gen', int(gen), 'queue', ARGV[3], 'fp', ARGV[4],
  'enq', token, 'msg', ARGV[6], 'origin', ARGV[12])
redis.call('HDEL', record, 'due', 'expires', 'copies', 'until', 'unique_us')
if delay > 0 then redis.call('HSET', record, 'due', int(now + delay)) end
if ARGV[10] ~= '' then redis.call('HSET', record, 'until', ARGV[10]) end
if ARGV[11] ~= '' then redis.call('HSET', record, 'unique_us', ARGV[11]) end
changed(now)
local free_at = end_of_period(now, ARGV[11])
if waits then
  redis.call('HSET', key_entry, 'next', cjson.encode({id, ARGV[4], ARGV[10], free_at}))
else
  redis.call('HDEL', key_entry, 'until', 'free_at')
  keep_key(key_entry, id, ARGV[4], now, ARGV[10], free_at)
end
unindex(id)
put_message(id, now, waits and math.max(delay, LOOK_AGAIN) or delay)
if delay > 0 and ARGV[8] ~= '' then keep_expiry(id, now, delay, ARGV[8]) end
if not later then push(lists, ARGV[6], token, now, int(gen)) end
count('superseded', ARGV[2])
return answer()
