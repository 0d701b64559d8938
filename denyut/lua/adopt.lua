-- The record as a claim reads it (needs job).
local function read(now)
  local r = redis.call('HMGET', record, 'state', 'gen', 'attempt', 'crashes', 'fence', 'token', 'settled',
    'checkpoint', 'follows', 'conflict', 'due', 'started_at', 'digest', 'run',
    'version', 'copies', 'seen', 'queued_at', 'cancel', 'after')
  return {state = r[1], gen = tonumber(r[2] or 0), attempt = tonumber(r[3] or 0), crashes = tonumber(r[4] or 0),
    fence = tonumber(r[5] or 0), token = r[6], settled = r[7] == '1', checkpoint = r[8] or '',
    follows = r[9], conflict = r[10], due = tonumber(r[11] or 0), started = tonumber(r[12] or now),
    digest = r[13] or '', run = r[14] or '0', version = tonumber(r[15] or 0), copies = r[16], seen = r[17],
    queued_at = tonumber(r[18] or now), cancel = r[19], after = r[20] or ''}
end

-- The record of a message that has none, from the arguments of claim.lua (needs time, job). Returns nil, or
-- the answer of the claim if there is to be none (yet).
local function adopt(id, task, now, retention)
  -- A record lives at least as long as retention after its message was sent. Missing earlier than
  -- that, Redis lost it; missing later, with Redis' memory intact, its retention is over.
  local intact = ARGV[6] ~= '' and redis.call('GET', marker) == ARGV[6]
  if intact and now - tonumber(ARGV[7]) >= retention then return {'DONE', 'GONE'} end
  if ARGV[14] == '' then return {'UNRECORDED'} end
  redis.call('HSET', record, 'task', task, 'queue', ARGV[13], 'state', 'QUEUED',
    'gen', math.max(1, tonumber(ARGV[5])), 'attempt', 0, 'failures', 0, 'crashes', 0, 'fence', 0,
    'version', next_version(0, now), 'msg', ARGV[14], 'retention', int(retention / 1000000), 'queued_at', int(now))
  if ARGV[16] ~= '' then  -- watched until it is parked: the worker may die before that
    redis.call('HSET', record, 'follows', ARGV[16])
    redis.call('ZADD', queued, int(now), id)
  end
  if ARGV[17] ~= '' then redis.call('HSET', record, 'conflict', ARGV[17]) end
  if ARGV[19] ~= '' then
    redis.call('HSET', record, 'key', ARGV[18], 'digest', ARGV[19], 'fp', ARGV[20])
    confirm_key(id)
  end
  if #ARGV > 21 then redis.call('HSET', record, unpack(ARGV, 22)) end
  mark(now)
  epoch(now)
  count('adopted', task)
end
