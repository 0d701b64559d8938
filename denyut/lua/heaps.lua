-- Changing the two heaps of a stream (needs stream.lua). Lower holds the odd one.
local PAIRS = 3500 -- one call takes about 7,000 values: unpack() of more fails

-- Add score-member pairs; flat holds `size` values, two for each pair.
local function insert(heap, flat, size)
  for first = 1, size, 2 * PAIRS do
    redis.call('ZADD', heap, unpack(flat, first, math.min(first + 2 * PAIRS - 1, size)))
  end
end

-- Move `many` events from one top to the other heap; scores travel as text and keep every bit.
local function move(pop, from, to, many)
  while many > 0 do
    local flat = redis.call(pop, from, math.min(many, PAIRS))
    for i = 1, #flat, 2 do flat[i], flat[i + 1] = flat[i + 1], flat[i] end
    redis.call('ZADD', to, unpack(flat))
    many = many - PAIRS
  end
end

local function rebalance(low, high)
  local surplus = low - math.ceil((low + high) / 2)
  if surplus > 0 then move('ZPOPMAX', lower, upper, surplus) end
  if surplus < 0 then move('ZPOPMIN', upper, lower, -surplus) end
end
