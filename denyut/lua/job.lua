-- The fourteen KEYS of every job script (denyut/keys.py, Keys.script), and what all of them do alike. With a job
-- store (a database) the fifteenth is the index of the jobs that it has not seen. ARGV[1] is the id of the job.
-- @include story
-- @include version
local record, lease, alive, telemetry, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, schedule, queued, held = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local done, counters, marker, key_entry, dead = KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local outbox = KEYS[15] == string.sub(dead, 1, -5) .. 'outbox' and KEYS[15]  -- else it is a key of the caller's

local function count(what, task) redis.call('HINCRBY', counters, what .. ':' .. task, 1) end

-- The job has changed, and the store has not seen it: since when.
local function mark(now)
  if outbox then redis.call('ZADD', outbox, 'NX', int(now), ARGV[1]) end
end

-- Call it wherever the record is changed, but for the counts of `often` below.
local function changed(now) new_version(record, outbox, ARGV[1], now) end

-- The record, and what belongs to it, may go in so many us: with a store as soon as that has it (saved.lua).
local function forget_in(us, now)
  if outbox then redis.call('HSET', record, 'forget_at', int(now + us)) end
  for _, key in ipairs({record, telemetry, events}) do
    if outbox then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, int(math.ceil(us / 1000))) end
  end
end

-- An entry of the job's Stream (see story.lua). With first = true it begins the Stream, else it is written
-- only if there is one. who: {by =, pid =, gen =, more fields and values}; nil: the owner of the attempt.
-- The Stream lives as long as the record.
local story  -- whether there is one; nil: not known yet
local function event(kind, fence, attempt, data, first, who)
  if story == nil then story = redis.call('EXISTS', events) == 1 end
  if not (story or first) then return end
  if not story then begin_story(record, events) end
  story = true
  if not who then
    local r = redis.call('HMGET', record, 'owner', 'pid', 'gen')
    who = {by = r[1], pid = r[2], gen = r[3]}
  end
  tell(events, '*', kind, fence, attempt, data, who)
  changed(now_us())
  local left = redis.call('PTTL', record)
  if left > 0 then redis.call('PEXPIRE', events, left) else redis.call('PERSIST', events) end
end

-- The same for what may come in storms: of each kind the first few are told one by one, all are counted in
-- the record (n:KIND), which also keeps the last (last:KIND).
local EACH_KIND = 5
local function often(kind, fence, attempt, data, first, who)
  local count_ = redis.call('HINCRBY', record, 'n:' .. kind, 1)
  if count_ <= EACH_KIND then return event(kind, fence, attempt, data, first, who) end
  local last = who or {}
  redis.call('HSET', record, 'last:' .. kind,
    cjson.encode({int(now_us()), fence, attempt, data, last.by or '', last.pid or '', last.gen or ''}))
end

-- What an attempt that did not end the job died of, for the last ten attempts. error: JSON list [type, message]
local ERRORS_MOST = 10
local function keep_error(attempt, error, traceback, now)
  local r = redis.call('HMGET', record, 'owner', 'pid')
  redis.call('HSET', record, 'error:' .. attempt,
    '[' .. error .. ',' .. cjson.encode({traceback, int(now), r[1] or '', r[2] or ''}) .. ']')
  redis.call('HDEL', record, 'error:' .. int(tonumber(attempt) - ERRORS_MOST))
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

-- The first use of a partition is marked, so that a Redis that lost its data can be told from one
-- that never had a record.
local function epoch(now)
  local first = redis.call('GET', marker)
  if not first then
    first = int(now)
    redis.call('SET', marker, first)
  end
  return first
end

-- The key was held for this job a moment ago, for a short time: with its record, the job has it for good.
local function confirm_key(id)
  if redis.call('HGET', key_entry, 'job') == id then redis.call('PERSIST', key_entry) end
end
