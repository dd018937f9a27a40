-- Gives up what a holder has - the lease, the turn, its place in line - and what it may yet get.
-- KEYS: lease, queue, seen, tombstone of the holder
-- ARGV: holder, life of the tombstone in ms, and of a waiter: its listener

local holder, waiter = ARGV[1], ARGV[3] and ARGV[1] .. ' ' .. ARGV[3]
-- A server that is out of memory takes no tombstone, but lets go of the rest.
local tombstone = redis.pcall('SET', KEYS[4], '1', 'PX', ARGV[2])
if waiter then
  redis.call('ZREM', KEYS[2], waiter)
  redis.call('ZREM', KEYS[3], waiter)
end
local lease = redis.call('GET', KEYS[1])
if lease and (string.sub(lease, 1, 37) == holder .. ' ' or lease == 'turn ' .. holder) then
  free(KEYS[1], KEYS[2])
end
return tombstone
