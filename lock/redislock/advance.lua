-- Gives the holder's lease a new token, above another and above all before.
-- KEYS: lease, counter, queue
-- ARGV: holder, token of the lease, token to get past, idle time of the counter in ms (0: a plain counter, never expires)
-- Replies the token, or "lost".

local lease = redis.call('GET', KEYS[1])
if not lease or string.sub(lease, 1, 37) ~= ARGV[1] .. ' ' then
  redis.call('ZREM', KEYS[3], ARGV[1]) -- nothing; but a replica, that may be behind, is not to say so
  return 'lost'
end
local token, label = string.match(lease, '^(%d+) (.*)$', 38)
if token ~= ARGV[2] and is_below(ARGV[3], token) then
  return token -- a replay
end
local left, idle = redis.call('PTTL', KEYS[1]), tonumber(ARGV[4])
lift(KEYS[2], ARGV[3], left, idle)
token = next_token(KEYS[2], left, idle)
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. token .. ' ' .. label, 'KEEPTTL')
return token
