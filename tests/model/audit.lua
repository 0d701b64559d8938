-- Everything that the invariants look at, in one look, as JSON. Takes no time, changes no job.
-- KEYS: of each job record, lease and telemetry; of each partition leases, schedule, queued, held, done,
--       dead, counters, marker; of each idempotency key its entry
-- ARGV: 1 number of jobs, 2 number of partitions, 3 the broker's List, which is taken over
-- Returns: JSON: {clock, jobs: [[record, lease, telemetry]], parts: [[...]], entries: [...], pushed: [...]}
local at = 0
local function key()
  at = at + 1
  return KEYS[at]
end
local function hash() return redis.call('HGETALL', key()) end
local function zset() return redis.call('ZRANGE', key(), 0, -1, 'WITHSCORES') end
local function text() return redis.call('GET', key()) or '' end

local jobs, parts, entries = {}, {}, {}
for i = 1, tonumber(ARGV[1]) do jobs[i] = {hash(), text(), hash()} end
for i = 1, tonumber(ARGV[2]) do parts[i] = {zset(), zset(), zset(), zset(), zset(), zset(), hash(), text()} end
while at < #KEYS do entries[#entries + 1] = hash() end
local pushed = redis.call('LRANGE', ARGV[3], 0, -1)
if #pushed > 0 then redis.call('DEL', ARGV[3]) end
return cjson.encode({pushed = pushed, clock = redis.call('GET', 'model:clock') or '0', jobs = jobs, parts = parts, entries = entries})
