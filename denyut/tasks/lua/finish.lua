-- End a running attempt in a terminal state. Only the newest fence can.
-- KEYS: the fourteen of job.lua, then the key of Celery's result, if there is one to store
-- ARGV: 1 id, 2 fence, 3 state, 4 '1' to settle at once, 5 result, 6 exception, 7 error, 8 traceback,
--       9 retention (us), 10 lease ttl (us), 11 Celery's result ('' = not to be stored here), 12 for how
--       many seconds (0: for ever), 13 why its budget of failures is spent ('' = it is not),
--       then the last telemetry of the attempt: fields and values
-- Returns: 'OK' | 'LOST' another attempt owns the job, nothing was written
-- Complexity: O(log n) in the jobs of the partition. Sent twice, it answers the same.
-- @include time
-- @include job
-- @include close
-- @include dead
local id, fence, state = ARGV[1], ARGV[2], ARGV[3]
local old = redis.call('HMGET', record, 'state', 'fence', 'task', 'attempt', 'version', 'settled')
if not old[1] or old[2] ~= fence or (old[1] ~= 'RUNNING' and old[1] ~= state) then
  if old[3] then
    count('lost', old[3])
    often('lost', fence, old[4] or '0', state, true, {})
  end
  return 'LOST'
end
local now = now_us()

-- As Celery's Redis backend does: a success is never overwritten, and those who wait are told.
local function store_result(key, text, expires)
  local there = redis.call('GET', key)
  if there and string.find(there, '"status": "SUCCESS"', 1, true) then return end
  if expires > 0 then redis.call('SET', key, text, 'EX', expires) else redis.call('SET', key, text) end
  redis.call('PUBLISH', key, text)
end

local settled, ended = ARGV[4] == '1', nil
if old[1] == 'RUNNING' then
  local fields = {'state', state, 'finished_at', int(now), 'settled', ARGV[4], 'version', next_version(old[5], now)}
  local function add(name, value)
    if value ~= '' then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  add('result', ARGV[5])
  add('exc', ARGV[6])
  add('error', ARGV[7])
  add('traceback', ARGV[8])
  redis.call('HSET', record, unpack(fields))
  mark(now)
  if ARGV[11] ~= '' then store_result(KEYS[#KEYS], ARGV[11], tonumber(ARGV[12])) end
  count(string.lower(state), old[3])
  if ARGV[13] ~= '' then bury(id, now, 'failures', ARGV[13]) end
  if redis.call('EXISTS', telemetry, events) > 0 then
    if redis.call('EXISTS', telemetry) == 1 then  -- what the task told since the last beat is not lost
      redis.call('HSET', telemetry, 'status', state, 'fence', fence, 'attempt', old[4], unpack(ARGV, 14))
    end
    event(string.lower(state), fence, old[4], ARGV[7], false)
  end
elseif old[6] == '1' then  -- its reply was lost
  return 'OK'
elseif settled then
  redis.call('HSET', record, 'settled', '1')
  changed(now)
  ended = redis.call('HGET', record, 'finished_at')
end
if settled then
  close(id, state, now, tonumber(ARGV[9]), leases, ended)
else  -- the continuation is the owner's to send; its lease says that it is alive
  redis.call('PEXPIRE', lease, int(tonumber(ARGV[10]) / 1000))
  redis.call('ZADD', leases, int(now + tonumber(ARGV[10])), id)
end
return 'OK'
