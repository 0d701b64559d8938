-- One median stream as its scripts see it (needs KEYS 1 lower, 2 upper, 3 state, 4 streams of the shard).
local lower, upper, state, streams = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local FORMAT = 1 -- of the state Hash

local function read_state()
  local s = redis.call('HMGET', state, 'format', 'version', 'count', 'fence', 'checksum', 'duplicates',
    'conflicts', 'lower_top', 'upper_top', 'median', 'last_event_id', 'updated_at', 'batch')
  local function number(i) return tonumber(s[i] or 0) end
  return {format = tonumber(s[1] or FORMAT), version = number(2), count = number(3), fence = number(4),
    checksum = number(5), duplicates = number(6), conflicts = number(7), top = s[8] or '', bottom = s[9] or '',
    median = s[10] or '', last = s[11] or '', updated = s[12] or '', batch = s[13], exists = s[1] ~= false}
end

-- Sizes of the heaps, and their tops as Redis' own text, which keeps every bit ('' = empty).
local function read_heaps()
  return {low = redis.call('ZCARD', lower), high = redis.call('ZCARD', upper),
    top = redis.call('ZRANGE', lower, -1, -1, 'WITHSCORES')[2] or '',
    bottom = redis.call('ZRANGE', upper, 0, 0, 'WITHSCORES')[2] or ''}
end

-- Bit-equal to Python's statistics.median, but finite where the sum of the two tops would overflow.
local function middle(heaps)
  if heaps.low == 0 then return '' end
  if heaps.low > heaps.high then return heaps.top end
  local a, b = tonumber(heaps.top), tonumber(heaps.bottom)
  local m = (a + b) / 2
  if m == math.huge or m == -math.huge then m = a / 2 + b / 2 end
  return string.format('%.17g', m)
end

-- Why the heaps cannot be what the state was written for; nil if all is well.
local function mismatch(s, heaps)
  if s.count ~= heaps.low + heaps.high then
    return 'the state counts ' .. int(s.count) .. ' events, the heaps hold ' .. int(heaps.low + heaps.high)
  elseif heaps.low - heaps.high ~= s.count % 2 then
    return 'the heaps hold ' .. int(heaps.low) .. ' and ' .. int(heaps.high) .. ' events'
  elseif tonumber(s.top) ~= tonumber(heaps.top) or tonumber(s.bottom) ~= tonumber(heaps.bottom) then
    return 'the tops are ' .. heaps.top .. ' and ' .. heaps.bottom .. ', the state says ' .. s.top
      .. ' and ' .. s.bottom
  elseif heaps.high > 0 and tonumber(heaps.top) > tonumber(heaps.bottom) then
    return 'the lower top ' .. heaps.top .. ' is above the upper top ' .. heaps.bottom
  elseif tonumber(s.median) ~= tonumber(middle(heaps)) then
    return 'the median is ' .. middle(heaps) .. ', the state says ' .. s.median
  elseif s.version == 0 and redis.call('SISMEMBER', streams, ARGV[2]) == 1 then
    return 'the state is gone, evicted or deleted by something else'
  end
end
