-- Tells who has the resource: the lease or false, ms left, how many wait.
-- KEYS: lease, queue
return { redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]) }
