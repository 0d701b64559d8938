-- The expiry of a job that waits in the schedule, the field 'expires' of its record (needs job).
-- A job that expires before it is due is looked at when it expires (expires = 0: never).
local function put_off(id, due, expires)
  if expires > 0 and expires < due then due = expires end
  redis.call('ZADD', schedule, int(due), id)
end

-- left: us from now, '' if it never does.
local function keep_expiry(id, now, delay, left)
  if left == '' then
    redis.call('HDEL', record, 'expires')
  else
    local expires = math.max(now + tonumber(left), 1)
    redis.call('HSET', record, 'expires', int(expires))
    put_off(id, now + delay, expires)
  end
end
