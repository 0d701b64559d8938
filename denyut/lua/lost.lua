-- A queued job whose message is nowhere, or whose turn has come (needs recover.lua, where it is included: id,
-- why, r, gen, now; nothing, wait, publish).
local function send_lost()
  if r[11] then return nothing() end  -- its replacement is on the way
  local deadline = tonumber(redis.call('ZSCORE', held, id) or 0)
  local waits = redis.call('HGET', record, 'waits') == int(gen)
  if why == 'turn' and waits then
    redis.call('HDEL', record, 'waits')
    changed(now)
    return publish('suspected')
  elseif why == 'turn' or (waits and deadline > now) then
    return nothing()
  elseif waits then
    return wait()
  elseif why == 'child' then
    local had = tonumber(ARGV[5])
    if had ~= 0 and had ~= gen then return nothing() end
  elseif deadline > now or (deadline == 0 and why ~= 'lost') then
    return nothing()
  end
  count('republished', r[9])
  local reply = publish('lost')
  if why == 'lost' then  -- a copy may be on its way after all: look again after twice the time
    local copies = redis.call('HINCRBY', record, 'copies', 1)
    changed(now)
    redis.call('ZADD', queued, int(now + tonumber(ARGV[9]) * (2 ^ math.min(copies, 20) - 1)), id)
  end
  return reply
end

