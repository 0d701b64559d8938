-- Give one worker the right to run one attempt, or say why not.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 owner, 3 pid, 4 claim token, 5 generation of the message (0: from a plain client),
--       6 marker of the message, 7 time it was sent (us), 8 lease ttl (us), 9 alive ttl (us),
--       10 max crashes, 11 retention (us), 12 task, 13 queue, 14 message ('' = not at hand),
--       15 'own' to run a job that followed another, 16 follows, 17 conflict (of a plain client's key),
--       18 key, 19 digest, 20 fingerprint, 21 what is known of the death of the last attempt (see
--       blame.lua), then further fields of a new record and their values
-- Returns: {'CLAIMED', fence, attempt, crashes, checkpoint, digest, run}
--   | {'REPLAY', fence, attempt, crashes, checkpoint, digest, run, state, result,
--   exception}
--   | {'DEAD', fence, attempt, crashes, '', digest, run} the crash budget is spent; the caller tells Celery
--   | {'CONFLICT', fence, attempt, crashes, '', digest, run, job} the caller fails it
--   | {'BUSY', owner} | {'DONE', state} | {'STALE', state} | {'FOLLOW', job, after}
--   | {'UNRECORDED'} send it again with the message
--   | {'JUDGE', owner} its worker is gone: say who is to blame, and send it again
-- Complexity: O(log n) in the jobs of the partition. Sent twice with one token, it answers the same.
-- @include time
-- @include job
-- @include passed
-- @include adopt
-- @include recovered
-- @include blame
-- @include dead
local id, owner, token, task = ARGV[1], ARGV[2], ARGV[4], ARGV[12]
local ttl, retention = tonumber(ARGV[8]), tonumber(ARGV[11])
local now, me = now_us(), {by = owner, pid = ARGV[3], gen = ARGV[5]}

local job = read(now)
if not job.state then
  local refusal = adopt(id, task, now, retention)
  if refusal then return refusal end
  job = read(now)
end

local holder = redis.call('GET', lease)
if job.state == 'RUNNING' and not holder and job.cancel then  -- it was told to stop, and has
  job = cancel_now(id, now, job.fence, job.attempt, task, job.cancel, me) and read(now)
end
local terminal = not (job.state == 'QUEUED' or job.state == 'RUNNING' or job.state == 'SCHEDULED'
  or job.state == 'RETRYING')

local function refuse(what, detail)
  count(string.lower(what), task)
  often(string.lower(what), int(job.fence), job.attempt, detail, true, me)
  return {what, detail}
end

-- Give the lease; further fields of the record are written along.
local function grant(...)
  job.fence, job.version = math.max(job.fence + 1, now), next_version(job.version, now)
  redis.call('SET', lease, owner .. '#' .. int(job.fence), 'PX', int(ttl / 1000))
  redis.call('SET', alive, int(job.fence), 'PX', int(tonumber(ARGV[9]) / 1000))
  if job.state == 'QUEUED' then  -- a message of its own is not waited for any more
    redis.call('ZREM', queued, id)
    redis.call('ZREM', held, id)
  else
    unindex(id)
  end
  redis.call('ZADD', leases, int(now + ttl), id)
  redis.call('HSET', record, 'fence', int(job.fence), 'owner', owner, 'pid', ARGV[3], 'token', token,
    'crashes', job.crashes, 'version', job.version, ...)
  mark(now)
end

local function claimed()
  if job.conflict then
    return {'CONFLICT', int(job.fence), job.attempt, job.crashes, '', job.digest, job.run, job.conflict}
  end
  return {'CLAIMED', int(job.fence), job.attempt, job.crashes, job.checkpoint, job.digest, job.run}
end

if job.token == token and holder == owner .. '#' .. int(job.fence) then
  if job.state == 'RUNNING' then return claimed() end
elseif terminal and (job.settled or holder) then
  if job.settled then return refuse('DONE', job.state) end
  return refuse('BUSY', holder)
elseif terminal then
  event('replayed', int(job.fence), job.attempt, job.state, true, me)
  grant()
elseif tonumber(ARGV[5]) > 0 and tonumber(ARGV[5]) < job.gen then
  return refuse('STALE', job.state)
elseif (job.state == 'SCHEDULED' or job.state == 'RETRYING') and job.due > now then
  return refuse('STALE', job.state)
elseif job.state == 'RUNNING' and holder then
  return refuse('BUSY', holder)
end
if terminal then
  local outcome = redis.call('HMGET', record, 'result', 'exc')
  return {'REPLAY', int(job.fence), job.attempt, job.crashes, job.checkpoint, job.digest, job.run, job.state,
    outcome[1] or '', outcome[2] or ''}
end
if job.follows and ARGV[15] ~= 'own' then return {'FOLLOW', job.follows, job.after} end

if job.state == 'RUNNING' then
  local what = blame(now, job.started, job.fence, ARGV[21])
  if what == 'judge' then return {'JUDGE', redis.call('HGET', record, 'owner') or ''} end
  if what == 'crashed' then job.crashes = job.crashes + 1 end
  job.seen = note_crash(now, job.started, job.fence, job.attempt, task, me, what)
  local budget = crash_budget(tonumber(ARGV[10]))
  if what == 'crashed' and job.crashes > budget then
    grant()
    die(id, now, job.fence, job.attempt, job.crashes, budget, task, me)
    return {'DEAD', int(job.fence), job.attempt, job.crashes, '', job.digest, job.run}
  end
end
if job.state == 'QUEUED' and not job.copies then
  local first = job.gen == 1 and job.due == 0  -- then it was queued when it was enqueued
  note_passed(first and job.queued_at or tonumber(redis.call('ZSCORE', queued, id) or 0), ARGV[13])
end
job.attempt = job.attempt + 1
grant('state', 'RUNNING', 'attempt', job.attempt, 'started_at', int(now), 'settled', '0')
count('claimed', task)
if job.seen then note_recovery(now, tonumber(job.seen), int(job.fence), job.attempt) end
event('claimed', int(job.fence), job.attempt, owner, false, me)
return claimed()
