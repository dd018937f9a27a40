-- Tokens are decimal strings: a Lua number is exact up to 2^53 only. idle is how long a counter lives after its last
-- use, in ms; 0 is a plain counter, that never expires and doesn't look at the clock.

local exact = 9007199254740992

local function integer(n) return string.format('%.0f', n) end

local function is_below(a, b)
  return string.sub(a, 1, 1) == '-' or #a < #b or (#a == #b and a < b)
end

-- The counter's end: idle after the lease, that ends in ttl, and after the time that its value stands for.
local function end_of(token, time, ttl, idle)
  local now_ms = tonumber(time[1] .. string.format('%03d', math.floor(time[2] / 1000)))
  return integer(math.max(now_ms + ttl, tonumber(string.sub(token, 1, -4)) or 0) + idle)
end

-- Lifts the counter to token, if it is below.
local function lift(key, token, ttl, idle)
  local counter = redis.call('GET', key)
  if counter and not string.match(counter, '^%-?%d+$') then
    redis.call('INCR', key) -- complains
  end
  if counter and not is_below(counter, token) then
    if idle == 0 then
      redis.call('PERSIST', key)
    end
    return
  end
  if idle == 0 then
    redis.call('SET', key, token)
  else
    redis.call('SET', key, token, 'PXAT', end_of(token, redis.call('TIME'), ttl, idle))
  end
end

-- The next token: above the counter, and not below the server's clock in microseconds.
local function next_token(key, ttl, idle)
  local n = redis.call('INCR', key)
  local token = n < exact and integer(n) or redis.call('GET', key)
  if idle == 0 then
    if n < 1 then
      error('the fence counter stands at ' .. token .. ', want 1 or more', 0)
    end
    redis.call('PERSIST', key)
    return token
  end
  local time = redis.call('TIME')
  local now = time[1] .. string.format('%06d', time[2])
  if n < exact and n < tonumber(now) then
    redis.call('SET', key, now, 'PXAT', end_of(now, time, ttl, idle))
    return now
  end
  redis.call('PEXPIREAT', key, end_of(token, time, ttl, idle))
  return token
end
