-- Move one job on whose time has come: to its queue, or to its end if it came too late.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 time to publish it (us), 3 lease ttl (us), 4 misfire rules: JSON object of task ('' = any
--       other) and the lateness (us) from which it is skipped, false for never; '' if nothing is skipped
-- Returns: {'PUBLISH', message, marker, now, generation, expires (us; 0 = never)}
--   | {'EXPIRED', message, fence, digest, error} the caller tells Celery, and settles it
--   | {'NOTHING', state}
-- Complexity: O(log n) in the jobs of the partition. Any number of schedulers may call it.
-- @include time
-- @include job
-- @include expiry
local BUCKETS = {50000, 100000, 250000, 500000, 1000000, 5000000, 30000000, 300000000}
local id, now = ARGV[1], now_us()
local r = redis.call('HMGET', record, 'state', 'due', 'expires', 'gen', 'attempt', 'fence', 'task', 'msg',
  'digest', 'queued_at', 'follows')
local state, task = r[1], r[7]
if state ~= 'SCHEDULED' and state ~= 'RETRYING' then
  redis.call('ZREM', schedule, id)
  return {'NOTHING', state or ''}
end
local due, expires = tonumber(r[2] or r[10] or 0), tonumber(r[3] or 0)
local late = now - due
local expired = expires > 0 and expires <= now
if late < 0 and not expired then
  put_off(id, due, expires)
  return {'NOTHING', state}
end

local function note_lateness()
  local le = 'inf'
  for i = #BUCKETS, 1, -1 do
    if late <= BUCKETS[i] then le = int(BUCKETS[i]) end
  end
  redis.call('HINCRBY', counters, 'late_us_bucket:' .. le, 1)
  redis.call('HINCRBY', counters, 'late_us_sum', int(late))
end

-- A retry, or a job that waits for another, has its own reasons to be there: only a first run is skipped.
local function skipped_from()
  if ARGV[4] == '' or state ~= 'SCHEDULED' or r[5] ~= '0' or r[11] then return nil end
  local rules = cjson.decode(ARGV[4])
  local rule = rules[task]
  if rule == nil then rule = rules[''] end
  return rule or nil
end

local function expire(why)
  local fence = math.max(tonumber(r[6] or 0) + 1, now)
  redis.call('HSET', record, 'state', 'EXPIRED', 'settled', '0', 'finished_at', int(now), 'fence', int(fence),
    'error', why)
  changed(now)
  unindex(id)
  redis.call('SET', lease, 'schedule#' .. int(fence), 'PX', int(tonumber(ARGV[3]) / 1000))
  redis.call('ZADD', leases, int(now + tonumber(ARGV[3])), id)
  count('expired', task)
  event('expired', int(fence), r[5], why, true)
  return {'EXPIRED', r[8] or '', int(fence), r[9] or '', why}
end

if expired then return expire(string.format('["Expired", "it expired %.3f s ago"]', (now - expires) / 1e6)) end
local from = skipped_from()
if from and late > from then
  count('misfired', task)
  return expire(string.format('["Misfired", "it was due %.3f s ago, and is skipped from %g s on"]',
    late / 1e6, from / 1e6))
end
redis.call('HSET', record, 'state', 'QUEUED')
changed(now)
unindex(id)
redis.call('ZADD', held, int(now + tonumber(ARGV[2])), id)
redis.call('ZADD', queued, int(now), id)
if r[2] then  -- else it waits for another job, and for no time
  note_lateness()
  event('due', r[6] or 0, r[5] or 0, int(late), false)
end
return {'PUBLISH', r[8] or '', epoch(now), int(now), r[4] or 1, int(expires)}
