-- A waiter has its place in line by its ticket: when it came, in microseconds of the server's clock, which a double
-- holds exactly for another two centuries. It asks again about once a second, and "seen" has when it last did, in
-- seconds. Who doesn't ask is dead.

local dead_after, forget_after = 4, 60 -- seconds
local around = 32 -- places before and behind, in which a waiter looks for the dead

local function is_silent(at, now) return math.abs(now - at) > dead_after end -- or its clock stood elsewhere

-- Removes the dead from the queue that are between two places, and returns whether there were any.
local function bury(queue, seen, first, last, now)
  local line = redis.call('ZRANGE', queue, first, last, 'WITHSCORES')
  local old, dead = {}, {}
  for n = 1, #line, 2 do
    if is_silent(line[n + 1] / 1000000, now) then
      table.insert(old, line[n])
    end
  end
  if #old > 0 then
    local heard = redis.call('ZMSCORE', seen, unpack(old))
    for n, waiter in ipairs(old) do
      if not heard[n] or is_silent(tonumber(heard[n]), now) then
        table.insert(dead, waiter)
      end
    end
  end
  if #dead > 0 then
    redis.call('ZREM', queue, unpack(dead))
  end
  return #dead > 0
end

-- Removes the dead from the head of the queue, and returns whether anybody is left.
local function is_anybody_first(queue, seen)
  local now = tonumber(redis.call('TIME')[1])
  while bury(queue, seen, 0, 2 * around, now) do
  end
  return redis.call('ZCARD', queue) > 0
end

-- Returns how many are ahead of a waiter that has asked again, without those of them who are dead.
local function ahead_of(waiter, queue, seen, time)
  local now = tonumber(time[1])
  redis.call('ZADD', seen, now, waiter)
  redis.call('ZREMRANGEBYSCORE', seen, '-inf', now - 2 * dead_after)
  redis.call('EXPIRE', seen, forget_after)
  local ahead = redis.call('ZRANK', queue, waiter)
  -- In a long line not everybody looks each time.
  if (ahead < 2 * around or time[2] % 8 == 0) and
    bury(queue, seen, math.max(0, ahead - around), ahead + around, now) then
    return redis.call('ZRANK', queue, waiter)
  end
  return ahead
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
  return ticket, ahead_of(waiter, queue, seen, time)
end
