-- The thirteen KEYS of every job script (denyut/keys.py, Keys.script), and what all of them do alike.
local record, lease, alive, telemetry, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, schedule, queued, held = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local done, counters, marker, key_entry = KEYS[10], KEYS[11], KEYS[12], KEYS[13]

local function count(what, task)
  redis.call('HINCRBY', counters, what .. ':' .. task, 1)
end

-- An entry of the job's Stream. Small jobs never get one: it begins with the first checkpoint,
-- stage or mishap (first = true), and from then on records every transition.
local function event(kind, fence, attempt, data, first)
  if first or redis.call('EXISTS', events) == 1 then
    redis.call('XADD', events, 'MAXLEN', '~', 1000, '*',
      'type', kind, 'fence', fence, 'attempt', attempt, 'data', data)
  end
end

-- How far a queue has got: the youngest job, by the time it was queued, that was claimed from it. An
-- older job that is still queued was passed over, so its message is nowhere.
local function note_passed(id, queue)
  local since = redis.call('ZSCORE', queued, id)
  if not since or redis.call('HEXISTS', record, 'copies') == 1 then return end
  local field = 'passed_us:' .. queue
  if tonumber(since) > tonumber(redis.call('HGET', counters, field) or 0) then
    redis.call('HSET', counters, field, int(tonumber(since)))
  end
end

local function unindex(id)
  redis.call('ZREM', leases, id)
  redis.call('ZREM', schedule, id)
  redis.call('ZREM', queued, id)
  redis.call('ZREM', held, id)
end

local function put_message(id, now, delay)
  if delay > 0 then
    redis.call('ZADD', schedule, int(now + delay), id)
  else
    redis.call('ZADD', queued, int(now), id)
  end
end

-- A job that expires before it is due is looked at when it expires (expires = 0: never).
local function put_off(id, due, expires)
  if expires > 0 and expires < due then due = expires end
  redis.call('ZADD', schedule, int(due), id)
end

-- The first use of a partition is marked, so that a Redis that lost its data can be told from one
-- that never had a record.
local function epoch(now)
  redis.call('SET', marker, int(now), 'NX')
  return redis.call('GET', marker)
end

-- The key answers for a completed job until its retention is over; after any other end it is free.
local function close_key(id, keep, retention_ms)
  if redis.call('HGET', key_entry, 'job') ~= id then return end
  if keep then
    redis.call('PEXPIRE', key_entry, retention_ms)
  else
    redis.call('DEL', key_entry)
  end
end

-- The end of a job's life: no lease, no index, a time to be forgotten.
local function close(id, state, now, retention_us)
  local ms = int(math.ceil(retention_us / 1000))
  redis.call('DEL', lease, alive)
  unindex(id)
  redis.call('ZADD', done, int(now), id)
  redis.call('HSET', record, 'settled', '1')
  if state == 'COMPLETED' then redis.call('HDEL', record, 'msg') end  -- nobody will need it again
  redis.call('PEXPIRE', record, ms)
  redis.call('PEXPIRE', telemetry, ms)
  redis.call('PEXPIRE', events, ms)
  close_key(id, state == 'COMPLETED', ms)
end
