-- The entry of an idempotency key (needs time). Hash: job, the one that has it; fp, of its arguments; at, since
-- when. until ('start' | 'completed') and free_at (us), if it is not to answer as long as the job is remembered.
-- next: the job that has the key after this one: JSON list of id, fp, until, free_at ('' = none).
local function keep_key(entry, id, fp, now, until_, free_at)
  redis.call('HSET', entry, 'job', id, 'fp', fp, 'at', int(now))
  if until_ ~= '' then redis.call('HSET', entry, 'until', until_) end
  if free_at ~= '' then redis.call('HSET', entry, 'free_at', free_at) end
end

-- A job that waits for the end of another is told by that end; should it not be, it looks again by itself (us).
local LOOK_AGAIN = 60000000

-- When the period of a key is over that begins now; period: us, '' = it has none.
local function end_of_period(now, period)
  if period == '' then return '' end
  return int(now + tonumber(period))
end

-- The job that has the key has ended, or (step = 'start') has begun. A failure frees it at once; else it is free
-- when what it waits for has come, and its period is over. answers: us for which a completed job is remembered.
-- Returns 1 if the job had it.
local function release_key(entry, waiting, id, step, answers, now)
  local r = redis.call('HMGET', entry, 'job', 'until', 'free_at', 'next')
  local coming = r[4] and cjson.decode(r[4])
  if r[1] ~= id then
    if coming and coming[1] == id then redis.call('HDEL', entry, 'next') end
    return 0
  end
  if step == 'start' and r[2] ~= 'start' then return 0 end
  if coming then
    redis.call('DEL', entry)
    keep_key(entry, coming[1], coming[2], now, coming[3], coming[4])
    redis.call('ZADD', waiting, int(now), coming[1])  -- it waits there, and is looked at now
    return 1
  end
  local left = 0
  if step ~= 'failed' then
    left = math.max(r[2] and 0 or answers, tonumber(r[3] or 0) - now)
  end
  if left > 0 then
    redis.call('PEXPIRE', entry, int(math.ceil(left / 1000)))
  else
    redis.call('DEL', entry)
  end
  return 1
end
