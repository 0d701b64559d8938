-- Put before the text of every script by tests/model/scripts.py: time that the model moves.
--
-- The script below it is the one of production, to the letter. It finds a table `redis` whose TIME is
-- the model's clock, and whose expiries are kept as deadlines on that clock: no key of the model has a
-- TTL of the server, so how long a test takes changes nothing. As in Redis, a key that is over is gone
-- when the script begins, and none goes while it runs. Each script takes 20 us.
-- Keys of its own: 'model:clock' (us), 'model:ends' (ZSET of keys by deadline, us).
local redis = (function(server)
  local ENDS, TICK = 'model:ends', 20
  local now = server.call('INCRBY', 'model:clock', TICK)

  for _, key in ipairs(server.call('ZRANGEBYSCORE', ENDS, '-inf', string.format('%.0f', now))) do
    server.call('DEL', key)
    server.call('ZREM', ENDS, key)
  end

  local function expire(key, ms)
    if server.call('EXISTS', key) == 0 then return 0 end
    server.call('ZADD', ENDS, string.format('%.0f', now + tonumber(ms) * 1000), key)
    return 1
  end

  local commands = {
    TIME = function()
      return {string.format('%.0f', math.floor(now / 1000000)), string.format('%.0f', now % 1000000)}
    end,
    SET = function(key, value, ...)
      local options, ms = {}, nil
      local given = {...}
      local i = 1
      while i <= #given do
        if given[i] == 'PX' or given[i] == 'EX' then
          ms = tonumber(given[i + 1]) * (given[i] == 'EX' and 1000 or 1)
          i = i + 1
        else
          options[#options + 1] = given[i]
        end
        i = i + 1
      end
      local reply = server.call('SET', key, value, unpack(options))
      if reply then
        server.call('ZREM', ENDS, key)
        if ms then expire(key, ms) end
      end
      return reply
    end,
    PEXPIRE = expire,
    EXPIRE = function(key, s) return expire(key, tonumber(s) * 1000) end,
    PERSIST = function(key) return server.call('ZREM', ENDS, key) end,
    PTTL = function(key)
      local over = server.call('ZSCORE', ENDS, key)
      if over then return math.ceil((tonumber(over) - now) / 1000) end
      return server.call('EXISTS', key) == 1 and -1 or -2
    end,
    DEL = function(...)
      server.call('ZREM', ENDS, ...)
      return server.call('DEL', ...)
    end,
  }

  local function call(name, ...)
    local own = commands[string.upper(name)]
    if own then return own(...) end
    return server.call(name, ...)
  end
  return setmetatable({call = call, pcall = function(...) return call(...) end}, {__index = server})
end)(redis)
