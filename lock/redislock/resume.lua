-- Hands a lease to another holder, with the next token.
-- KEYS: lease, counter, tombstone of the new holder, tombstone of the old
-- ARGV: new holder, TTL in ms (0: its end stays), label, idle time of the counter in ms (0: a plain counter, never
--   expires), the holder and token that the lease must have, life of the old holder's tombstone in ms
-- Replies "granted <token> <ms left>", "lost" or "abandoned".

local lease = redis.call('GET', KEYS[1])
if lease and string.sub(lease, 1, 37) == ARGV[1] .. ' ' then
  return 'granted ' .. string.match(lease, '^%d+', 38) .. ' ' .. integer(redis.call('PTTL', KEYS[1]))
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return 'abandoned'
end
if not lease or string.match(lease, '^%S+ %d+ ') ~= ARGV[5] .. ' ' .. ARGV[6] .. ' ' then
  redis.call('DEL', KEYS[3]) -- nothing; but a replica, that may be behind, is not to say so
  return 'lost'
end
local ttl = tonumber(ARGV[2])
local left = ttl == 0 and redis.call('PTTL', KEYS[1]) or ttl
local token = next_token(KEYS[2], left, tonumber(ARGV[4]))
local value = ARGV[1] .. ' ' .. token .. ' ' .. ARGV[3]
if ttl == 0 then
  redis.call('SET', KEYS[1], value, 'KEEPTTL')
else
  redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
end
redis.call('SET', KEYS[4], '1', 'PX', ARGV[7]) -- a copy of its acquire may still be on its way
return 'granted ' .. token .. ' ' .. integer(left)
