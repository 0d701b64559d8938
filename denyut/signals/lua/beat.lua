-- One beat for up to 500 jobs of one partition: renew leases, write telemetry, report what is lost.
-- KEYS: 1 leases, 2 held, then five for each job: record, lease, alive, telemetry, events
-- ARGV: 1 lease ttl (us), 2 alive ttl (ms), 3 retention (ms), 4 number of jobs, then for each job the
--       14 of denyut/signals/beat.py (_arguments); then the ids of the messages in hand
-- Returns: {ids whose lease is lost, ids that are to be cancelled}
-- Complexity: O(jobs * log n), n of the partition. Sent twice, it changes nothing more.
-- @include time
local ttl, alive_ms, keep_ms, jobs = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local PER_JOB, PER_KEYS = 14, 5
local now = now_us()
local deadline = int(now + ttl)
local lost, cancelled = {}, {}

-- The lease is ours if it says so, or if it is gone and the record still names this very fence: then
-- it lapsed, or Redis lost it, and nobody has taken over.
local function renew(record, lease, owner, fence)
  local holder = redis.call('GET', lease)
  if holder then return holder == owner .. '#' .. fence end
  local r = redis.call('HMGET', record, 'fence', 'settled', 'owner')
  return r[1] == fence and r[2] ~= '1' and r[3] == owner
end

local function write_telemetry(telemetry, fence, version, a)
  local old = redis.call('HMGET', telemetry, 'fence', 'version', 'progress_seq', 'stage_seq', 'cpu_s',
    'last_progress', 'last_active', 'rss_peak_mb')
  local same = old[1] == fence
  if old[1] and (tonumber(old[1]) > tonumber(fence) or (same and tonumber(old[2]) >= version)) then return end
  local moved = not same or old[3] ~= a[4] or old[4] ~= a[9]
  local busy = moved or (tonumber(a[11] ~= '' and a[11] or 0) - tonumber(old[5] ~= '' and old[5] or 0)) >= 0.01
  local peak = math.max(tonumber(a[10] ~= '' and a[10] or 0), same and tonumber(old[8] or 0) or 0)
  redis.call('HSET', telemetry, 'status', 'RUNNING', 'fence', fence, 'attempt', a[3], 'version', version,
    'progress_seq', a[4], 'done', a[5], 'total', a[6], 'progress', a[7], 'unit', a[8], 'stage_seq', a[9],
    'stage', a[14], 'rss_mb', a[10], 'rss_peak_mb', string.format('%.1f', peak), 'cpu_s', a[11],
    'beat_lag_ms', a[12], 'last_heartbeat', int(now),
    'last_progress', moved and int(now) or old[6], 'last_active', busy and int(now) or old[7])
  return same and old[4] ~= a[9] or not same and a[14] ~= ''
end

for i = 0, jobs - 1 do
  local k, at = 2 + i * PER_KEYS, 4 + i * PER_JOB
  local record, lease, alive, telemetry, events = unpack(KEYS, k + 1, k + PER_KEYS)
  local a = {unpack(ARGV, at + 1, at + PER_JOB)}
  local id, fence = a[1], a[2]
  local owner, version = string.match(a[13], '^(.*)/(%d+)$')
  if renew(record, lease, owner, fence) then
    redis.call('SET', lease, owner .. '#' .. fence, 'PX', int(ttl / 1000))
    redis.call('SET', alive, fence, 'PX', alive_ms)
    redis.call('ZADD', KEYS[1], deadline, id)
    if write_telemetry(telemetry, fence, tonumber(version), a) then
      redis.call('XADD', events, 'MAXLEN', '~', 1000, '*',
        'type', 'stage', 'fence', fence, 'attempt', a[3], 'data', a[14])
    end
    redis.call('PEXPIRE', telemetry, keep_ms)
    redis.call('PEXPIRE', events, keep_ms)
    if redis.call('HEXISTS', record, 'cancel') == 1 then cancelled[#cancelled + 1] = id end
  else
    lost[#lost + 1] = id
  end
end
for i = 5 + jobs * PER_JOB, #ARGV do
  redis.call('ZADD', KEYS[2], 'GT', deadline, ARGV[i])
end
return {lost, cancelled}
