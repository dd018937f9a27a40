-- Ends what the holder of an abandoned acquire has, and what it may yet get.
-- KEYS: lease, tombstone of the holder
-- ARGV: holder, life of the tombstone in ms

-- A server that is out of memory takes no tombstone, but lets go of the lease.
local tombstone = redis.pcall('SET', KEYS[2], '1', 'PX', ARGV[2])
local lease = redis.call('GET', KEYS[1])
if lease and string.sub(lease, 1, 37) == ARGV[1] .. ' ' then
  redis.call('DEL', KEYS[1])
end
return tombstone
