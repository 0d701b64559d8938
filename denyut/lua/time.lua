-- Redis' own clock in whole microseconds; the only clock that is ever compared.
local function now_us()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
-- Lua's tostring loses digits of large numbers; this does not (exact up to 2^53).
local function int(n)
  return string.format('%.0f', n)
end
