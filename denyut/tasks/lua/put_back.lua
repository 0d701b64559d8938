-- Put a job back as the job store has it, because Redis has lost it, or has come back with an older state of it.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 version in the store, 3 lease ttl (us), then fields and values of the record
-- Returns: 1 if it was put back, 0 if Redis has it as new, or newer
-- Complexity: O(log n + fields), n of the jobs of the partition. Sent twice, it changes nothing more.
-- @include time
-- @include job
-- @include expiry
-- @include key
local id, ttl, now = ARGV[1], tonumber(ARGV[3]), now_us()
local known = redis.call('HGET', record, 'version')
if known and tonumber(known) >= tonumber(ARGV[2]) then return 0 end
redis.call('DEL', record)
for first = 4, #ARGV, 2000 do
  redis.call('HSET', record, unpack(ARGV, first, math.min(first + 1999, #ARGV)))
end
local r = redis.call('HMGET', record, 'state', 'settled', 'due', 'expires', 'owner', 'fence', 'finished_at',
  'budget', 'retried_as', 'purged', 'fp', 'forget_at', 'task', 'attempt', 'replaced', 'follows',
  'until', 'unique_us', 'queued_at')
local state, settled = r[1], r[2] == '1'
local live = state == 'QUEUED' or state == 'SCHEDULED' or state == 'RETRYING' or state == 'RUNNING'

-- Its key answers for it again, as long as it did. If another job has taken the key since, this one takes over
-- that one's end. A job that waits for another one's end has no key to take.
local function take_key()
  local free_at = r[18] and end_of_period(tonumber(r[19] or now), r[18]) or ''
  local ends  -- nil: it answers until that is known
  if not live or (r[17] == 'start' and tonumber(r[14] or 0) > 0) then
    ends = r[17] and 0 or tonumber(r[12] or nil)
    if ends then ends = math.max(ends, tonumber(free_at) or 0) end
  end
  local holder = redis.call('HMGET', key_entry, 'job', 'fp')
  if not holder[1] and not (ends and ends <= now) then
    keep_key(key_entry, id, r[11], now, r[17] or '', free_at)
    if ends then redis.call('PEXPIREAT', key_entry, int(math.ceil(ends / 1000))) end
  elseif holder[1] and holder[1] ~= id and live and state ~= 'RUNNING' then
    redis.call('HSET', record, holder[2] == r[11] and 'follows' or 'conflict', holder[1])
  end
end

unindex(id)
if state == 'SCHEDULED' or state == 'RETRYING' then
  put_off(id, tonumber(r[3] or now), tonumber(r[4] or 0))
elseif state == 'QUEUED' and not r[15] then  -- its message may be lost, too: recovery publishes a copy
  redis.call('ZADD', queued, int(now), id)
  redis.call('ZADD', held, int(now), id)
elseif state == 'RUNNING' then  -- its worker has the time of a lease to say that it is at work still
  redis.call('SET', lease, (r[5] or '') .. '#' .. r[6], 'PX', int(ttl / 1000))
  redis.call('ZADD', leases, int(now + ttl), id)
elseif not live and not settled then
  redis.call('ZADD', leases, int(now), id)
elseif not live then
  redis.call('ZADD', done, r[7] or int(now), id)
  if r[8] and not r[9] and not r[10] and redis.call('ZADD', dead, r[7] or int(now), id) == 1 then
    redis.call('HINCRBY', counters, 'dead_now:' .. r[8] .. ':' .. (r[13] or ''), 1)
  end
end
local has_key = r[11] and not r[16] and string.sub(key_entry, -2) ~= ':-'
if has_key and (live or state == 'COMPLETED') then take_key() end
epoch(now)
changed(now)
if live then
  if not known then count('adopted', r[13] or '') end
  event('put_back', r[6] or '0', r[14] or '0', state, true)
end
return 1
