-- The story of a job: its Stream of events (needs time). An ordinary job that goes well never gets one: it
-- begins with the first checkpoint, stage or mishap, and then tells first what the record knows of before.
-- Each entry has type, fence, attempt, data; gen; by and pid (who did it); and what else is evidence.
local STORY_MOST = 1000  -- entries, about; as in denyut/signals/beat.py
local LONG_MESSAGE = 100000  -- bytes in which nobody looks for the name of a producer

-- The producer of a message, as Celery names it in its headers.
local function origin_in(message)
  if not message or #message > LONG_MESSAGE then return '' end
  local _, last = string.find(message, '"origin": "', 1, true)
  return last and string.match(message, '^[^"\\]*', last + 1) or ''
end

local function tell(events, id, kind, fence, attempt, data, who)
  redis.call('XADD', events, 'MAXLEN', '~', STORY_MOST, id, 'type', kind, 'fence', fence, 'attempt', attempt,
    'data', data, 'gen', who.gen or '', 'by', who.by or '', 'pid', who.pid or '', unpack(who))
end

-- What came before the first entry gets the time that it had. Call it before the record is changed.
local function begin_story(record, events)
  local r = redis.call('HMGET', record, 'queued_at', 'enq', 'msg', 'attempt', 'started_at', 'fence', 'owner',
    'pid', 'gen', 'origin')
  local queued = math.floor(tonumber(r[1] or 0) / 1000)
  if queued == 0 then return end
  tell(events, int(queued) .. '-1', r[2] and 'enqueued' or 'adopted', '0', '0', '',
    {by = r[10] or origin_in(r[3])})
  if tonumber(r[4] or 0) == 0 or not r[5] then return end
  local started = math.max(math.floor(tonumber(r[5]) / 1000), queued)
  tell(events, int(started) .. '-2', 'claimed', r[6], r[4], r[7] or '', {by = r[7], pid = r[8], gen = r[9]})
end
