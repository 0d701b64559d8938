-- An attempt cut short, and how long it took from the last sign of life to the next one (needs time, job).
local BUCKETS = {1000000, 2000000, 4000000, 6000000, 8000000, 10000000, 15000000, 30000000, 60000000}

-- A job that was about to commit its effect may have done so, and only another attempt can tell: it has
-- a budget more for that.
local function crash_budget(most)
  if redis.call('HEXISTS', record, 'committing') == 1 then return 2 * most + 1 end
  return most
end

-- Why the heartbeat has let go of the attempt, as an error; nil if it has not (signals/lua/let_go.lua).
local function let_go(fence)
  local said = redis.call('HGET', record, 'let_go')
  if not said then return nil end
  local of, kind, why = unpack(cjson.decode(said))
  if of == int(fence) then return {kind == 'stalled' and 'JobStalled' or 'JobOverran', why} end
end

-- what: as blame.lua says
local function note_crash(now, started, fence, attempt, task, who, what)
  local seen = started
  local beat = redis.call('HMGET', telemetry, 'fence', 'last_heartbeat')
  if beat[1] and tonumber(beat[1]) == fence and beat[2] then seen = tonumber(beat[2]) end
  local lost = redis.call('HMGET', record, 'owner', 'pid')
  local ago = string.format('%.1f', (now - seen) / 1000000)
  count(what, task)
  event(what, int(fence), attempt, int(now - seen), true,
    {by = who.by, pid = who.pid, gen = who.gen, 'lost', lost[1] or '', 'lost_pid', lost[2] or ''})
  local why = what == 'drained' and {'WorkerEnded', 'its worker was told to end'} or let_go(fence)
    or {'WorkerLost', 'its worker gave the last sign of life ' .. ago .. ' s before'}
  keep_error(attempt, cjson.encode(why), '', now)
  redis.call('HSET', record, 'crashed_at', int(now), 'seen', int(seen))
  return seen
end

local function note_recovery(now, seen, fence, attempt)
  local gap = now - seen
  redis.call('HDEL', record, 'seen')
  redis.call('HSET', record, 'recovered_us', int(gap))
  for _, le in ipairs(BUCKETS) do
    if gap <= le then redis.call('HINCRBY', counters, 'recovery_us_bucket:' .. int(le), 1) end
  end
  redis.call('HINCRBY', counters, 'recovery_us_sum', int(gap))
  redis.call('HINCRBY', counters, 'recovery_us_count', 1)
  event('recovered', fence, attempt, int(gap), true)
end
