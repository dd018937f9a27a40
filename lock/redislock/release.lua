-- Ends the holder's lease, or leaves the resource taken by nobody for a while.
-- KEYS: lease, queue
-- ARGV: holder, ms to keep the resource taken (0: none)
-- Replies 1, or 0 if the holder has no lease.

local lease = redis.call('GET', KEYS[1])
if not lease or string.sub(lease, 1, 37) ~= ARGV[1] .. ' ' then
  redis.call('ZREM', KEYS[2], ARGV[1]) -- nothing; but a replica, that may be behind, is not to say so
  return 0
end
if ARGV[2] == '0' then
  free(KEYS[1], KEYS[2])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2]) -- comes first: a server that is out of memory goes on after it
  redis.call('SET', KEYS[1], 'released' .. string.sub(lease, 37), 'PX', ARGV[2])
end
return 1
