-- End a live job from outside its attempt. A running attempt is fenced off: its later writes are refused.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 state, 3 error, 4 retention (us), 5 '1' if a running attempt is to be ended too,
--       6 owner and 7 pid of the attempt that is meant ('' = the job, whoever has it), 8 who does it and
--       9 its pid, 10 why its budget of failures is spent ('' = it is not), 11 generation of the message
--       that the attempt has: a job that is queued is meant only by the newest message, 12 exception,
--       13 lease ttl (us): whoever ends it has its lease for so long, to tell Celery and then to settle it
--       ('' = it is settled at once)
-- Returns: {1 if it was ended, the state it was found in, new fence}; {0, '', 0} if there is no record
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it changes nothing more.
-- @include time
-- @include job
-- @include close
-- @include dead
local id, state = ARGV[1], ARGV[2]
local old = redis.call('HMGET', record, 'state', 'fence', 'task', 'attempt', 'owner', 'pid', 'gen')
local anybody = ARGV[6] == ''
local waiting = old[1] == 'QUEUED' or (anybody and (old[1] == 'SCHEDULED' or old[1] == 'RETRYING'))
if waiting and not anybody then waiting = tonumber(old[7]) == math.max(1, tonumber(ARGV[11])) end
local meant = anybody or (old[5] == ARGV[6] and old[6] == ARGV[7])
if not waiting and not (old[1] == 'RUNNING' and ARGV[5] == '1' and meant) then return {0, old[1] or '', 0} end
local now, untold = now_us(), ARGV[13] ~= ''
local fence = math.max(tonumber(old[2]) + 1, now)
event(string.lower(state), old[2], old[4], ARGV[3], true, {by = ARGV[8], pid = ARGV[9]})
redis.call('HSET', record, 'state', state, 'fence', int(fence), 'finished_at', int(now),
  'settled', untold and '0' or '1')
redis.call('HDEL', record, 'replaced')  -- a replacement on the way comes too late
changed(now)
if ARGV[3] ~= '' then redis.call('HSET', record, 'error', ARGV[3]) end
if ARGV[12] ~= '' then redis.call('HSET', record, 'exc', ARGV[12]) end
if redis.call('EXISTS', telemetry) == 1 then redis.call('HSET', telemetry, 'status', state) end
count(string.lower(state), old[3])
if ARGV[10] ~= '' then bury(id, now, 'failures', ARGV[10]) end
if untold then  -- should its holder die, recovery has the outcome told: the message is replayed
  unindex(id)
  redis.call('DEL', alive)
  redis.call('SET', lease, ARGV[8] .. '#' .. int(fence), 'PX', int(tonumber(ARGV[13]) / 1000))
  redis.call('ZADD', leases, int(now + tonumber(ARGV[13])), id)
else
  close(id, state, now, tonumber(ARGV[4]))
end
return {1, old[1], int(fence)}
