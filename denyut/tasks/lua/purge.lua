-- Take a dead letter off the list and let go of what it was kept for.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id
-- Returns: 'PURGED' | 'UNSETTLED' Celery has not been told of it yet | 'NONE' it is no dead letter
-- Complexity: O(log n) in the dead letters of the partition.
-- @include time
-- @include job
-- @include dead
local id, now = ARGV[1], now_us()
local r = redis.call('HMGET', record, 'state', 'settled', 'finished_at', 'retention', 'attempt')
if not redis.call('ZSCORE', dead, id) then return 'NONE' end
if r[1] and r[2] ~= '1' then return 'UNSETTLED' end
unbury(id)
local left = tonumber(r[3] or 0) + tonumber(r[4] or 0) * 1000000 - now
if left <= 0 and not outbox then
  redis.call('DEL', record, telemetry, events)
  return 'PURGED'
end
-- Younger than its retention: a late copy of its message must find that it has ended. A store is to let go, too.
redis.call('HDEL', record, 'msg', 'traceback', 'exc', 'checkpoint')
local last = tonumber(r[5] or 0)
for attempt = math.max(last - ERRORS_MOST, 0), last do redis.call('HDEL', record, 'error:' .. attempt) end
if r[1] then
  redis.call('HSET', record, 'purged', int(now))
  changed(now)
  forget_in(math.max(left, 0), now)
end
return 'PURGED'
