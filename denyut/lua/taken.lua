-- Taking an idempotency key for a new job (needs time, job).
-- @include key

-- with: '1' = if it is free; '2' = after the job `after`, which has it: as the next one, or at once if that one
-- has ended. its_record: of that job.
-- Returns nil, or what the script answers if others have the key; then whether the job is the next one.
local function take_key(with, id, fp, now, after, its_record, until_, period)
  local holder = redis.call('HMGET', key_entry, 'job', 'fp', 'next')
  local coming, free_at = holder[3] and cjson.decode(holder[3]), end_of_period(now, period)
  if with == '2' and holder[1] == after then
    if coming then return {'NEXT', coming[1]} end
    local state = redis.call('HGET', its_record, 'state')
    if state == 'QUEUED' or state == 'SCHEDULED' or state == 'RETRYING' or state == 'RUNNING' then
      redis.call('HSET', key_entry, 'next', cjson.encode({id, fp, until_, free_at}))
      return nil, true
    end
    redis.call('DEL', key_entry)
  elseif holder[1] then
    if holder[2] == fp then return {'DUPLICATE', holder[1]} end
    if coming and coming[2] == fp then return {'DUPLICATE', coming[1]} end
    return {'CONFLICT', holder[1]}
  end
  keep_key(key_entry, id, fp, now, until_, free_at)
  return nil, false
end
