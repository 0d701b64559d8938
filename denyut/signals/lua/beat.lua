-- One beat for up to 500 jobs of one partition: renew leases, write telemetry, say what is lost.
-- KEYS: 1 leases, 2 held, 3 outbox; then of each job: record, lease, alive, telemetry, events;
--       then of each message in hand: record
-- ARGV: 1 lease ttl (us), 2 alive ttl (ms), 3 time to keep telemetry and events (ms), 4 most events,
--       5 version of this beat, 6 how late it is (ms), 7 number of jobs, 8 time since the last beat that
--       was answered (us), 9 '1' if there is a job store, whose index the outbox is; then of each job: id, owner,
--       fence, attempt, progress_seq, done, total, progress, unit, stage_seq, stage, rss_mb,
--       rss_peak_mb, cpu_s, '1' if its worker is ending it; then the ids of the messages in hand
-- Returns: {places of jobs whose lease is lost, places of jobs to be cancelled, {place, error, ...}},
--       places counted from 0 in the order of the arguments
-- Complexity: O(jobs * log n), n of the partition. Sent twice, it changes nothing more.
-- @include time
-- @include story
-- @include version
-- @include standing
local ttl, alive_ms, keep_ms, most_events = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local version, lag, jobs = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local HEAD, FIRST, PER_JOB, PER_KEYS = 9, 4, 15, 5
local leases, held, outbox, now = KEYS[1], KEYS[2], ARGV[9] == '1' and KEYS[3], now_us()
local ttl_ms, deadline, now_text, version_text = int(ttl / 1000), int(now + ttl), int(now), int(version)
local put_off = tonumber(keep_ms) * 1000 / 4  -- us; so that what is left is never less than 3/4
local lost, cancelled, errors, renewed = {}, {}, {}, {}

local function numeric(text)
  return tonumber(text) or 0
end

-- Returns whether the stage has changed, and whether it is time to put off the end of the keys.
-- Writes nothing if a newer beat or attempt has written. Arguments are spelled out, and what has not
-- changed is not written: tables and fields are what a beat pays for.
local function write_telemetry(key, a)
  local fence = a[3]
  local old = redis.call('HMGET', key, 'fence', 'version', 'progress_seq', 'stage_seq', 'stage', 'cpu_s',
    'last_heartbeat')
  local known = numeric(old[1])
  if known > tonumber(fence) or (known == tonumber(fence) and numeric(old[2]) >= version) then return end
  local same = old[1] == fence
  local told = old[3] ~= a[5] or old[4] ~= a[10]
  if not same then
    told = a[5] ~= '0' or a[10] ~= '0'
    redis.call('DEL', key)
    redis.call('HSET', key, 'status', 'RUNNING', 'fence', fence, 'attempt', a[4], 'progress_seq', a[5], 'done', a[6],
      'total', a[7], 'progress', a[8], 'unit', a[9], 'stage_seq', a[10], 'stage', a[11], 'last_active', now_text)
  end
  if told then
    redis.call('HSET', key, 'version', version_text, 'last_heartbeat', now_text, 'beat_lag_ms', lag,
      'rss_mb', a[12], 'rss_peak_mb', a[13], 'cpu_s', a[14], 'last_progress', now_text, 'last_active', now_text,
      'progress_seq', a[5], 'done', a[6], 'total', a[7], 'progress', a[8], 'unit', a[9], 'stage_seq', a[10],
      'stage', a[11])
  elseif numeric(a[14]) > numeric(old[6]) then
    redis.call('HSET', key, 'version', version_text, 'last_heartbeat', now_text, 'beat_lag_ms', lag,
      'rss_mb', a[12], 'rss_peak_mb', a[13], 'cpu_s', a[14], 'last_active', now_text)
  else
    redis.call('HSET', key, 'version', version_text, 'last_heartbeat', now_text, 'beat_lag_ms', lag,
      'rss_mb', a[12], 'rss_peak_mb', a[13], 'cpu_s', a[14])
  end
  return told and a[11] ~= '' and not (same and old[5] == a[11]),
    not same or math.floor(numeric(old[7]) / put_off) ~= math.floor(now / put_off)
end

local function beat(i)
  local record, lease, alive, telemetry, events = unpack(KEYS, FIRST + i * PER_KEYS, FIRST - 1 + (i + 1) * PER_KEYS)
  local a = {unpack(ARGV, HEAD + 1 + i * PER_JOB, HEAD + (i + 1) * PER_JOB)}
  local id, fence = a[1], a[3]
  local mine = a[2] .. '#' .. fence
  local r = redis.call('HMGET', record, 'state', 'fence', 'settled', 'crashed_at', 'started_at', 'cancel', 'draining')
  local what = standing(ttl, tonumber(ARGV[8]), redis.call('GET', lease), mine, fence, unpack(r, 1, 5))
  if what == 'OVER' then return end
  if what == 'LOST' then
    lost[#lost + 1] = i
    return
  end
  if what == 'FORGOTTEN' and r[1] then
    redis.call('HSET', record, 'state', 'RUNNING', 'fence', fence, 'owner', a[2], 'attempt', a[4],
      'started_at', now_text, 'settled', '0')
    new_version(record, outbox, id, now)
    redis.call('ZREM', held, id)
    r[1] = 'RUNNING'
  end
  if r[6] then cancelled[#cancelled + 1] = i end
  -- PEXPIRE first: a full server accepts it, and after a script's first write the others too.
  if what == 'OURS' then redis.call('PEXPIRE', lease, ttl_ms) else redis.call('SET', lease, mine, 'PX', ttl_ms) end
  if redis.call('PEXPIRE', alive, alive_ms) == 0 then redis.call('SET', alive, fence, 'PX', alive_ms) end
  renewed[#renewed + 1] = deadline
  renewed[#renewed + 1] = id
  if r[1] ~= 'RUNNING' then return end
  if a[15] == '1' and r[7] ~= fence then
    redis.call('HSET', record, 'draining', fence)
    new_version(record, outbox, id, now)
  end
  local new_stage, late = write_telemetry(telemetry, a)
  if new_stage then
    if redis.call('EXISTS', events) == 0 then begin_story(record, events) end
    redis.call('XADD', events, 'MAXLEN', '~', most_events, '*',
      'type', 'stage', 'fence', fence, 'attempt', a[4], 'data', a[11])
  end
  if new_stage or late then
    redis.call('PEXPIRE', telemetry, keep_ms)
    redis.call('PEXPIRE', events, keep_ms)
  end
end

for i = 0, jobs - 1 do
  local ok, problem = pcall(beat, i)  -- one job's broken key must not cost the others their leases
  if not ok then
    errors[#errors + 1] = i
    errors[#errors + 1] = type(problem) == 'table' and problem.err or tostring(problem)
  end
end
if #renewed > 0 then redis.call('ZADD', leases, unpack(renewed)) end
for i = 1, #ARGV - HEAD - jobs * PER_JOB do
  if redis.call('HGET', KEYS[FIRST - 1 + jobs * PER_KEYS + i], 'state') == 'QUEUED' then
    redis.call('ZADD', held, 'GT', deadline, ARGV[HEAD + jobs * PER_JOB + i])
  end
end
return {lost, cancelled, errors}
