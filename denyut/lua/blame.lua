-- Who is to blame for an attempt that was cut short (needs time, job).
-- A crash is counted for the job of a process that died alone, and for a job that was alone on its worker.
-- Nobody is to blame for a worker that was told to end. Of several jobs that shared a dead worker, any may
-- have killed it: those are suspects. After the first such death they run again at once, from the second on
-- one at a time.
local SUSPECTED_MOST = 5   -- after so many shared deaths that told nothing, each of them is counted
local DRAINED_MOST = 10    -- a job that has its worker told to end again and again does it itself:
local SOON = 60000000      -- each time so soon after it began (us)

-- known: 'child' its process died alone | 'drained' its worker ended it | 'blamed' | 'shared' | '' not known
-- Returns 'crashed' | 'drained' | 'suspected' | 'judge': the caller is to look at the worker's other jobs
local function blame(now, started, fence, known)
  local old = redis.call('HMGET', record, 'draining', 'drains', 'suspect')
  if known == 'drained' or old[1] == int(fence) then
    local drains = now - started < SOON and tonumber(old[2] or 0) + 1 or 0
    redis.call('HSET', record, 'drains', drains)
    return drains <= DRAINED_MOST and 'drained' or 'crashed'
  end
  if known == 'shared' and tonumber(old[3] or 0) < SUSPECTED_MOST then
    redis.call('HINCRBY', record, 'suspect', 1)
    return 'suspected'
  end
  return known == '' and 'judge' or 'crashed'
end

local function takes_turns()
  return tonumber(redis.call('HGET', record, 'suspect') or 0) > 1
end
