-- Publishing by a script, where the broker is this Redis (needs job). The broker's Lists are the last of the KEYS.

-- Returns the error of a queue that is none, or nil. Call it before anything is written.
local function check_lists(lists)
  for i = #KEYS - lists + 1, #KEYS do
    local kind = redis.call('TYPE', KEYS[i]).ok
    if kind ~= 'list' and kind ~= 'none' then
      return redis.error_reply('WRONGTYPE the queue ' .. KEYS[i] .. ' is no List but a ' .. kind)
    end
  end
end

-- The message has the token, in quotes, where its stamp belongs: denyut/tasks/envelope.py.
local function push(lists, message, token, now, gen)
  if lists == 0 then return end
  local first, last = string.find(message, '"' .. token .. '"', 1, true)
  local stamp = string.format('{"gen": %s, "marker": "%s", "at": %s}', gen, epoch(now), int(now))
  local text = string.sub(message, 1, first - 1) .. stamp .. string.sub(message, last + 1)
  for i = #KEYS - lists + 1, #KEYS do redis.call('LPUSH', KEYS[i], text) end
end
