-- Takes the resource for a holder, whoever has it.
-- KEYS: lease, counter, tombstone of the holder
-- ARGV: holder, TTL in ms, label, idle time of the counter in ms (0: a plain counter, never expires),
--   and if it is to be taken from one lease only: its value, or its holder and a space
-- Replies "granted <token> <ms left>", "lost" or "abandoned".

local lease = redis.call('GET', KEYS[1])
if lease and string.sub(lease, 1, 37) == ARGV[1] .. ' ' then
  return 'granted ' .. string.match(lease, '^%d+', 38) .. ' ' .. integer(redis.call('PTTL', KEYS[1]))
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return 'abandoned'
end
if ARGV[5] and (not lease or lease ~= ARGV[5] and string.sub(lease, 1, 37) ~= ARGV[5]) then
  redis.call('DEL', KEYS[3]) -- nothing; but a replica, that may be behind, is not to say so
  return 'lost'
end
local token = next_token(KEYS[2], tonumber(ARGV[2]), tonumber(ARGV[4]))
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. token .. ' ' .. ARGV[3], 'PX', ARGV[2])
return 'granted ' .. token .. ' ' .. ARGV[2]
