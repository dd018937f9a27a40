-- One try to acquire, in one step.
-- KEYS: lease, counter, tombstone of the holder
-- ARGV: holder, TTL in ms, label, idle time of the counter in ms (0: a plain counter, never expires)
-- Replies "granted <token> <ms left>", "held <ms left>" (negative: unknown) or "abandoned".

local function integer(n) return string.format('%.0f', n) end

local lease = redis.call('GET', KEYS[1])
if lease then
  local left = integer(redis.call('PTTL', KEYS[1]))
  if string.sub(lease, 1, 37) == ARGV[1] .. ' ' then
    return 'granted ' .. string.match(lease, '%d+', 38) .. ' ' .. left
  end
  return 'held ' .. left
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return 'abandoned'
end

-- A Lua number holds integers up to 2^53 exactly. A counter beyond is read as the string it is.
local exact = 9007199254740992
local n = redis.call('INCR', KEYS[2])
local token = n < exact and integer(n) or redis.call('GET', KEYS[2])

local idle = tonumber(ARGV[4])
if idle == 0 then
  if n < 1 then
    return redis.error_reply('ERR the fence counter stands at ' .. token .. ', want 1 or more')
  end
  redis.call('PERSIST', KEYS[2])
else
  local time = redis.call('TIME')
  local now = time[1] .. string.format('%06d', time[2])
  if n < exact and n < tonumber(now) then
    token = now
    redis.call('SET', KEYS[2], token)
  end
  local now_ms, token_ms = tonumber(string.sub(now, 1, -4)), tonumber(string.sub(token, 1, -4))
  redis.call('PEXPIREAT', KEYS[2], integer(math.max(now_ms + tonumber(ARGV[2]), token_ms) + idle))
end

redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. token .. ' ' .. ARGV[3], 'PX', ARGV[2])
return 'granted ' .. token .. ' ' .. ARGV[2]
