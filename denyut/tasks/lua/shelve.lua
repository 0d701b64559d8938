-- Keep the message of a client without Denyut, which is for later, in the store.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 task, 3 queue, 4 message, 5 delay (us), 6 time to its expiry (us; '' = never),
--       7 retention (s), 8 key, 9 digest, 10 fingerprint, 11 follows, 12 conflict, then further fields of the
--       record and their values
-- Returns: {'SCHEDULED', due} | {'EXISTS', state} the id has a job
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it says EXISTS.
-- @include time
-- @include job
-- @include expiry
local id, task, delay = ARGV[1], ARGV[2], tonumber(ARGV[5])
local state = redis.call('HGET', record, 'state')
if state then return {'EXISTS', state} end
local now = now_us()
redis.call('HSET', record, 'task', task, 'queue', ARGV[3], 'state', 'SCHEDULED', 'gen', 1, 'attempt', 0,
  'failures', 0, 'crashes', 0, 'fence', 0, 'version', next_version(0, now), 'msg', ARGV[4], 'retention', ARGV[7],
  'queued_at', int(now), 'due', int(now + delay))
if ARGV[9] ~= '' then redis.call('HSET', record, 'key', ARGV[8], 'digest', ARGV[9], 'fp', ARGV[10]) end
if ARGV[9] ~= '' then confirm_key(id) end
if ARGV[11] ~= '' then redis.call('HSET', record, 'follows', ARGV[11]) end
if ARGV[12] ~= '' then redis.call('HSET', record, 'conflict', ARGV[12]) end
if #ARGV > 12 then redis.call('HSET', record, unpack(ARGV, 13)) end
put_message(id, now, delay)
if ARGV[6] ~= '' then keep_expiry(id, now, delay, ARGV[6]) end
mark(now)
epoch(now)
count('adopted', task)
return {'SCHEDULED', int(now + delay)}
