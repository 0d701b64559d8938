-- The end of a job, and of its key (needs time, job).
-- @include key

-- The end of a job's life: no lease, no index (`only` is the one that it can be in; nil: any), a time
-- to be forgotten. Its record says already that it is settled. ended: when it ended, if that was before now: the
-- index is by that time, as the job store's lists are.
local function close(id, state, now, retention_us, only, ended)
  local ms = int(math.ceil(retention_us / 1000))
  redis.call('DEL', lease, alive)
  if only then redis.call('ZREM', only, id) else unindex(id) end
  redis.call('ZADD', done, ended or int(now), id)
  if state == 'COMPLETED' then redis.call('HDEL', record, 'msg') end  -- nobody will need it again
  if (state == 'FAILED' or state == 'DEAD') and redis.call('HEXISTS', record, 'budget') == 1 then
    for _, key in ipairs({record, telemetry, events}) do redis.call('PERSIST', key) end  -- a dead letter
  elseif outbox then  -- it is forgotten when the store has it: saved.lua
    redis.call('HSET', record, 'forget_at', int(now + retention_us))
    if redis.call('EXISTS', telemetry, events) > 0 then
      redis.call('PEXPIRE', telemetry, ms)
      redis.call('PERSIST', events)
    end
  else
    redis.call('PEXPIRE', record, ms)
    if redis.call('EXISTS', telemetry, events) > 0 then
      redis.call('PEXPIRE', telemetry, ms)
      story = redis.call('PEXPIRE', events, ms) == 1
    else
      story = false
    end
  end
  if string.sub(key_entry, -2) == ':-' then return end  -- it has none, or not here
  release_key(key_entry, schedule, id, state == 'COMPLETED' and 'completed' or 'failed', retention_us, now)
end
