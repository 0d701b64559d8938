-- Apply one batch of events to a stream: dedupe, insert, rebalance once, write the state. All or nothing.
-- KEYS: 1 lower, 2 upper, 3 state, 4 streams of the shard, 5 counters of the shard
-- ARGV: 1 fence of the writer ('' counts as 0), 2 stream, 3 token of the batch ('' = none), 4 id of its
--       last event, 5 values (big-endian doubles, finite), 6 ids (16 bytes each), in the same order
-- Returns: {'APPLIED', version, count, accepted, duplicates, conflicts, median} ('' for an empty stream)
--   | {'FENCED', fence} a newer owner has written | {'FORMAT', format} written by another Denyut
--   | {'CORRUPT', reason} the heaps are not what the state says; nothing was changed
-- Complexity: O(k log n), k events of the batch, n of the stream. Sent twice in a row with one token, it
-- answers the same. Every check is before the first write, so an error leaves nothing half done.
-- @include time
-- @include stream
-- @include heaps
local STEP = 250 -- values decoded by one struct.unpack
local WRAP = 2 ^ 52 -- the checksum stays exact in a double
local counters = KEYS[5]
local fence, stream, token = tonumber(ARGV[1]) or 0, ARGV[2], ARGV[3]
local values, ids, sums = {}, {}, {}

local function decode(blob, size, form, out)
  local total = #blob / size
  for first = 1, total, STEP do
    local many = math.min(STEP, total - first + 1)
    local part = {struct.unpack('>' .. string.rep(form, many), blob, (first - 1) * size + 1)}
    for i = 1, many do out[first + i - 1] = part[i] end
  end
  return total
end

local function known(heap, total)
  local found = {}
  for first = 1, total, PAIRS do
    local last = math.min(first + PAIRS - 1, total)
    local scores = redis.call('ZMSCORE', heap, unpack(ids, first, last))
    for i = 1, last - first + 1 do found[first + i - 1] = scores[i] end
  end
  return found
end

local s = read_state()
if s.batch and token ~= '' and string.sub(s.batch, 1, #token + 1) == token .. ' ' then
  local a, d, c = string.match(s.batch, ' (%d+) (%d+) (%d+)$')
  return {'APPLIED', int(s.version), int(s.count), tonumber(a), tonumber(d), tonumber(c), s.median}
end
if s.format ~= FORMAT then return {'FORMAT', s.format} end
if fence < s.fence then return {'FENCED', int(s.fence)} end
local heaps = read_heaps()
local wrong = mismatch(s, heaps)
if wrong then return {'CORRUPT', wrong} end

local total = decode(ARGV[5], 8, 'd', values)
decode(ARGV[6], 16, 'c16', ids)
decode(ARGV[6], 16, 'I6xxxxxxxxxx', sums)
local in_lower = heaps.low > 0 and known(lower, total) or {}
local in_upper = heaps.high > 0 and known(upper, total) or {}

local seen, new_low, new_high = {}, {}, {}
local accepted, duplicates, conflicts, checksum = 0, 0, 0, s.checksum
local l, h, pivot = 0, 0, tonumber(heaps.top) or math.huge
for i = 1, total do
  local id, value = ids[i], values[i] + 0 -- -0.0 becomes 0.0
  local old = in_lower[i] or in_upper[i] or seen[id]
  if old then
    if tonumber(old) == value then duplicates = duplicates + 1 else conflicts = conflicts + 1 end
  else
    seen[id] = value
    checksum = (checksum + sums[i]) % WRAP
    if value <= pivot then
      new_low[l + 1], new_low[l + 2], l = value, id, l + 2
    else
      new_high[h + 1], new_high[h + 2], h = value, id, h + 2
    end
  end
end
accepted = (l + h) / 2

redis.call('SADD', streams, stream)
redis.call('HINCRBY', counters, 'batches', 1)
redis.call('HINCRBY', counters, 'accepted', accepted)
redis.call('HINCRBY', counters, 'duplicates', duplicates)
redis.call('HINCRBY', counters, 'conflicts', conflicts)
insert(lower, new_low, l)
insert(upper, new_high, h)
rebalance(heaps.low + l / 2, heaps.high + h / 2)
local after = read_heaps()
local median = middle(after)
redis.call('HSET', state, 'format', FORMAT, 'version', int(s.version + 1), 'count', int(after.low + after.high),
  'lower_top', after.top, 'upper_top', after.bottom, 'median', median,
  'last_event_id', accepted > 0 and ARGV[4] or s.last, 'updated_at', int(now_us()), 'fence', int(fence),
  'duplicates', int(s.duplicates + duplicates), 'conflicts', int(s.conflicts + conflicts),
  'checksum', int(checksum), 'batch', token .. ' ' .. accepted .. ' ' .. duplicates .. ' ' .. conflicts)
return {'APPLIED', int(s.version + 1), int(after.low + after.high), accepted, duplicates, conflicts, median}
