-- A waiter has its place in line by its ticket: when it came, in microseconds of the server's clock, which a double
-- holds exactly for another two centuries. It asks again about once a second, and "seen" has when it last did, in
-- seconds. Who doesn't ask is dead.

local dead_after, forget_after = 4, 60 -- seconds
local around = 32 -- places before and behind, in which a waiter looks for the dead

-- Returns how many are ahead of a waiter that has asked again, without those of them who are dead.
local function ahead_of(waiter, queue, seen, now)
  local function is_silent(at) return math.abs(now - at) > dead_after end -- or its clock stood elsewhere

  redis.call('ZADD', seen, now, waiter)
  redis.call('ZREMRANGEBYSCORE', seen, '-inf', now - 2 * dead_after)
  redis.call('EXPIRE', seen, forget_after)
  local ahead = redis.call('ZRANK', queue, waiter)
  local near = redis.call('ZRANGE', queue, math.max(0, ahead - around), ahead + around, 'WITHSCORES')
  local old, dead = {}, {}
  for n = 1, #near, 2 do
    if is_silent(near[n + 1] / 1000000) then
      table.insert(old, near[n])
    end
  end
  if #old > 0 then
    local heard = redis.call('ZMSCORE', seen, unpack(old))
    for n, other in ipairs(old) do
      if not heard[n] or is_silent(tonumber(heard[n])) then
        table.insert(dead, other)
      end
    end
  end
  if #dead == 0 then
    return ahead
  end
  redis.call('ZREM', queue, unpack(dead))
  return redis.call('ZRANK', queue, waiter)
end

-- Puts the waiter in line, or leaves it there. Returns its ticket and how many are ahead.
local function take_place(queue, seen, waiter, ticket)
  local time = redis.call('TIME')
  if ticket == '0' then
    ticket = time[1] .. string.format('%06d', time[2])
    local is_new = redis.call('ZADD', queue, 'NX', ticket, waiter) == 1
    if not is_new then
      ticket = integer(tonumber(redis.call('ZSCORE', queue, waiter))) -- a replay
    end
    local ahead = redis.call('ZRANK', queue, waiter)
    local last = is_new and ahead == 0 and redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    if not last or last[1] == waiter then
      if ahead == 0 or time[2] % 16 == 0 then -- one of many will do
        redis.call('EXPIRE', queue, forget_after)
      end
      return ticket, ahead
    end
    ticket = integer(last[2] + 1) -- the clock was set back: the others were there before
  end
  redis.call('ZADD', queue, ticket, waiter)
  redis.call('EXPIRE', queue, forget_after)
  return ticket, ahead_of(waiter, queue, seen, tonumber(time[1]))
end
