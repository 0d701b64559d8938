-- How far a queue has got (needs job): the youngest job, by the time it was queued, that was claimed from it. An
-- older job that is still queued was passed over, so its message is nowhere. To a tenth of a second.
local function note_passed(since, queue)
  local field = 'passed_us:' .. queue
  if since > tonumber(redis.call('HGET', counters, field) or 0) + 100000 then
    redis.call('HSET', counters, field, int(since))
  end
end
