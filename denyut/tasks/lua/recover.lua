-- Move one job on that is left alone: crashed, or its message lost.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 'lapsed' | 'lost' (its message is nowhere) | 'child' (the process that had it is dead)
--       | 'turn' (it is a suspect, and its turn has come),
--       3 owner and 4 pid of the dead process, 5 generation of the message that it had (0: any, -1:
--       none), 6 max crashes, 7 time to publish it (us), 8 lease ttl (us), 9 queued timeout (us),
--       10 owner and 11 pid of the recoverer, 12 what is known of the death (see blame.lua)
-- Returns: {'PUBLISH', message, marker, now, generation, why} | {'DEAD', message, fence, crashes, digest}
--   | {'EXPIRED' or 'CANCELLED', message, fence, digest, error} the caller tells Celery | {'NOTHING', state}
--   | {'JUDGE', owner} say who is to blame, and call again | {'SUSPECT'} it waits for its turn
-- Complexity: O(log n) in the jobs of the partition. Any number of recoverers may call it.
-- @include time
-- @include job
-- @include expiry
-- @include recovered
-- @include blame
-- @include dead
local id, why, hold = ARGV[1], ARGV[2], tonumber(ARGV[7])
local now = now_us()
local r = redis.call('HMGET', record, 'state', 'gen', 'attempt', 'crashes', 'fence', 'settled', 'due',
  'started_at', 'task', 'msg', 'replaced', 'owner', 'pid', 'digest', 'expires', 'cancel')
local state, gen, fence = r[1], tonumber(r[2] or 0), tonumber(r[5] or 0)
local me = {by = ARGV[10], pid = ARGV[11], gen = int(gen)}

local function nothing() return {'NOTHING', state or ''} end

local function send(reason)
  me.gen = int(gen)
  often('published', int(fence), r[3] or '0', reason, reason ~= 'due', me)
  return {'PUBLISH', r[10] or '', epoch(now), int(now), gen, reason}
end

local function publish(reason)
  redis.call('ZADD', held, int(now + hold), id)
  redis.call('ZADD', queued, int(now), id)
  return send(reason)
end

-- A suspect waits for its turn, off the index of lost messages; for 30 s, should nobody have lined it up.
local function wait()
  redis.call('HSET', record, 'waits', int(gen))
  redis.call('ZADD', held, int(now + 30000000), id)
  return {'SUSPECT'}
end

local function tell_celery(what, ...)
  fence = math.max(fence + 1, now)
  funeral(id, now, fence, tonumber(ARGV[8]))
  return {what, r[10] or '', int(fence), ...}
end

-- @include lost
if not state or r[6] == '1' then unindex(id) return nothing() end  -- gone, or ended and settled

local left = redis.call('PTTL', lease)
-- A lease that another has taken since, to tell Celery how the job ended, is not the dead process's.
local dead = why == 'child' and r[12] == ARGV[3] and r[13] == ARGV[4]
  and (state == 'RUNNING' or redis.call('GET', lease) == ARGV[3] .. '#' .. int(fence))
local owned = left > 0 and not dead
if state == 'RUNNING' and r[16] and not owned then  -- it was told to stop, and has
  state, fence = 'CANCELLED', tonumber(cancel_now(id, now, fence, r[3], r[9], r[16], me))
end

if state == 'RUNNING' then
  if owned then
    unindex(id)  -- where else it was, an older state of Redis that is back has put it
    redis.call('ZADD', leases, int(now + math.max(left, 0) * 1000), id)
    return nothing()
  end
  local known = ARGV[12]
  if dead and known == '' then known = 'child' end
  local what = blame(now, tonumber(r[8] or now), fence, known)
  if what == 'judge' then return {'JUDGE', r[12] or ''} end
  local crashes = tonumber(r[4]) + (what == 'crashed' and 1 or 0)
  note_crash(now, tonumber(r[8] or now), fence, r[3], r[9], me, what)
  redis.call('DEL', lease, alive)
  unindex(id)
  redis.call('HSET', record, 'crashes', crashes)
  changed(now)
  local budget = crash_budget(tonumber(ARGV[6]))
  if what == 'crashed' and crashes > budget then
    die(id, now, fence, r[3], crashes, budget, r[9], me)
    return tell_celery('DEAD', crashes, r[14] or '')
  end
  gen = gen + 1
  redis.call('HSET', record, 'state', 'QUEUED', 'gen', gen)
  count('recovered', r[9])
  if what ~= 'drained' and takes_turns() then return wait() end
  return publish(what)
end

if state == 'QUEUED' then return send_lost() end

if state == 'SCHEDULED' or state == 'RETRYING' then
  unindex(id)  -- its place is in the schedule, and nowhere else
  put_off(id, tonumber(r[7] or now), tonumber(r[15] or 0))
  return nothing()
end

if owned then
  redis.call('ZADD', leases, int(now + left * 1000), id)
  return nothing()
end
-- No lease, and not due: another recoverer has just moved it on.
if left <= 0 and tonumber(redis.call('ZSCORE', leases, id) or 0) > now then return nothing() end
redis.call('DEL', lease, alive)
unindex(id)
if state == 'EXPIRED' or state == 'CANCELLED' then  -- there is no result to replay: the caller tells Celery
  return tell_celery(state, r[14] or '', redis.call('HGET', record, 'error') or '["", ""]')
end
if state == 'DEAD' then return tell_celery('DEAD', tonumber(r[4]), r[14] or '') end
-- Ended, but its continuation was not sent: the message goes out again and is replayed.
gen = gen + 1
redis.call('HSET', record, 'gen', gen)
changed(now)
-- It may wait in a long queue: each look comes after twice the time, so that copies do not pile up.
local copies = redis.call('HINCRBY', record, 'copies', 1)
redis.call('ZADD', leases, int(now + hold * 2 ^ math.min(copies - 1, 20)), id)
count('replayed', r[9])
return send('unsettled')
