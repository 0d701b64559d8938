-- Every change of a record is a new version. It grows also over a Redis that has lost its data, or has come back
-- with an older state: what the job store has is never taken for newer than what it does not have yet.
local function next_version(version, now)
  return int(math.max(tonumber(version or 0) + 1, now))
end

-- The record has changed. outbox: the index of what the job store has not seen, with the time since when; nil or
-- false if there is no store. Nothing is forgotten before the store has it.
local function new_version(record, outbox, id, now)
  redis.call('HSET', record, 'version', next_version(redis.call('HGET', record, 'version'), now))
  if not outbox then return end
  redis.call('ZADD', outbox, 'NX', int(now), id)
  redis.call('PERSIST', record)
end
