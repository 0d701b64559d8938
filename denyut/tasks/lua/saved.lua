-- The job store has these versions of these jobs (or refuses them): take them off the index, unless they have
-- changed since. What may be forgotten now goes when its time comes.
-- KEYS: 1 outbox, 2 refused, then of each job: record, telemetry, events
-- ARGV: 1 number of jobs, then of each: id, version that was saved, id of the last entry of its Stream that was
--       copied ('' = none), why the store refuses it ('' = it has it)
-- Returns: how many are off the index
-- Complexity: O(jobs * log n) in the jobs of the partition. Sent twice, it changes nothing more.
local outbox, refused, off = KEYS[1], KEYS[2], 0
for i = 0, tonumber(ARGV[1]) - 1 do
  local record, telemetry, events = unpack(KEYS, 3 + 3 * i, 5 + 3 * i)
  local id, version, copied, why = unpack(ARGV, 2 + 4 * i, 5 + 4 * i)
  local r = redis.call('HMGET', record, 'version', 'forget_at')
  if r[1] and copied ~= '' then redis.call('HSET', record, 'copied', copied) end
  if not r[1] or r[1] == version then
    off = off + redis.call('ZREM', outbox, id)
    if why ~= '' and r[1] then
      redis.call('HSET', refused, id, why)
    else
      redis.call('HDEL', refused, id)
      if r[2] then
        local ms = string.format('%.0f', math.ceil(tonumber(r[2]) / 1000))
        redis.call('PEXPIREAT', record, ms)
        redis.call('PEXPIREAT', telemetry, ms)
        redis.call('PEXPIREAT', events, ms)
      end
    end
  end
end
return off
