-- The end of a cancelled job by another hand than its attempt's (needs time, job). Celery has still to be told:
-- the caller takes a lease until that is done; if he dies, recovery tells.
local function cancel_now(id, now, fence, attempt, task, error, who)
  fence = int(math.max(fence + 1, now))
  redis.call('DEL', lease, alive)
  unindex(id)
  count('cancelled', task)
  event('cancelled', fence, attempt, error, true, who)
  redis.call('HSET', record, 'state', 'CANCELLED', 'settled', '0', 'finished_at', int(now), 'fence', fence,
    'error', error)
  redis.call('HDEL', record, 'replaced')
  changed(now)
  if redis.call('EXISTS', telemetry) == 1 then redis.call('HSET', telemetry, 'status', 'CANCELLED') end
  return fence
end
