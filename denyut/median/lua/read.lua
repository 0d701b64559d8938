-- Read any quantile of a stream, checked against its state, in one step.
-- KEYS: 1 lower, 2 upper, 3 state, 4 streams of the shard
-- ARGV: 1 quantile from 0 to 1, 2 stream
-- Returns: {'OK', below, above, median, count, version, updated_at, duplicates, conflicts}, where below and
--   above are the values next to the rank q * (count - 1), as text; '' for an empty stream
--   | {'FORMAT', format} | {'CORRUPT', reason}
-- Complexity: O(log n)
-- @include time
-- @include stream
local function value_at(rank, low)
  local heap, place = lower, rank
  if rank >= low then heap, place = upper, rank - low end
  return redis.call('ZRANGE', heap, int(place), int(place), 'WITHSCORES')[2]
end

local s = read_state()
if s.format ~= FORMAT then return {'FORMAT', s.format} end
local heaps = read_heaps()
local wrong = mismatch(s, heaps)
if wrong then return {'CORRUPT', wrong} end
local below, above = '', ''
if s.count > 0 then
  local place = tonumber(ARGV[1]) * (s.count - 1)
  below, above = value_at(math.floor(place), heaps.low), value_at(math.ceil(place), heaps.low)
end
return {'OK', below, above, s.median, int(s.count), int(s.version), s.updated, int(s.duplicates), int(s.conflicts)}
