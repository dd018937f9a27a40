-- Prolongs the holder's lease, and with it the life of the counter.
-- KEYS: lease, counter, queue
-- ARGV: holder, TTL in ms, 1 if it may be shortened else 0, idle time of the counter in ms (0: never expires)
-- Replies 1, or 0 if the holder has no lease.

local lease = redis.call('GET', KEYS[1])
if not lease or string.sub(lease, 1, 37) ~= ARGV[1] .. ' ' then
  redis.call('ZREM', KEYS[3], ARGV[1]) -- nothing; but a replica, that may be behind, is not to say so
  return 0
end
local ttl, idle = tonumber(ARGV[2]), tonumber(ARGV[4])
if ARGV[3] == '1' or redis.call('PTTL', KEYS[1]) < ttl then
  redis.call('PEXPIRE', KEYS[1], ttl)
end
if idle > 0 then
  local left = redis.call('PTTL', KEYS[2])
  if left >= 0 and left < ttl + idle then
    redis.call('PEXPIRE', KEYS[2], ttl + idle)
  end
end
return 1
