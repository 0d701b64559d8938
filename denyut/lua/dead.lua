-- The dead letter: jobs whose budget is spent, each with the true reason in its record (needs time, job).
-- It is kept until it is purged, so neither the record nor what belongs to it has an end of its own.
-- @include stopped
local function bury(id, now, budget, reason)
  redis.call('HSET', record, 'budget', budget, 'reason', reason)
  local what = budget .. ':' .. (redis.call('HGET', record, 'task') or '')
  redis.call('HINCRBY', counters, 'buried:' .. what, 1)
  if redis.call('ZADD', dead, int(now), id) == 1 then redis.call('HINCRBY', counters, 'dead_now:' .. what, 1) end
end

-- Take a job off the list; returns whether it was there.
local function unbury(id)
  if redis.call('ZREM', dead, id) == 0 then return false end
  local r = redis.call('HMGET', record, 'budget', 'task')
  if r[1] then redis.call('HINCRBY', counters, 'dead_now:' .. r[1] .. ':' .. (r[2] or ''), -1) end
  return true
end

-- The end of a job that has lost too many workers. Celery is told by the caller.
local function die(id, now, fence, attempt, crashes, most, task, who)
  local workers = crashes == 1 and ' worker' or ' workers'
  local reason = 'lost ' .. crashes .. workers .. ' (max_crashes=' .. most .. ')'
  local said = redis.call('HGET', record, 'let_go')
  if said then reason = reason .. '; let go of: ' .. cjson.decode(said)[3] end
  if redis.call('HEXISTS', record, 'committing') == 1 then
    reason = reason .. '; its effect may have been committed'
  end
  redis.call('HSET', record, 'state', 'DEAD', 'settled', '0', 'finished_at', int(now),
    'error', cjson.encode({'JobDead', reason}))
  bury(id, now, 'crashes', reason)
  count('dead', task)
  event('dead', int(fence), attempt, reason, true, who)
end

-- Give a recoverer the lease of a dead job, until Celery has been told. If it lapses, the next one tells.
local function funeral(id, now, fence, ttl)
  redis.call('HSET', record, 'fence', int(fence))
  changed(now)
  redis.call('SET', lease, 'recovery#' .. int(fence), 'PX', int(ttl / 1000))
  redis.call('ZADD', leases, int(now + ttl), id)
end
