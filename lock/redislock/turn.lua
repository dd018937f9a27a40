-- The queue is a sorted set: a waiter is "<holder> <listener>", its score the ticket.

local turn_ms, least_turn_ms = 250, 40

-- Tells the first that it has the turn, for that many ms, and the others when theirs would be, in one message to each
-- listener: "<holder> <ms>" for each of its waiters. If that is not permitted, they find out by themselves.
local function tell(line, length)
  local messages = {}
  for n, waiter in ipairs(line) do
    local listener, turn = string.sub(waiter, 38), string.sub(waiter, 1, 37) .. (n == 1 and 0 or length + (n - 2) * turn_ms)
    messages[listener] = messages[listener] and messages[listener] .. ' ' .. turn or turn
  end
  for listener, turns in pairs(messages) do
    redis.pcall('PUBLISH', 'ringfence:' .. listener, turns)
  end
end

-- Gives the resource to the first in line for its turn, and lets two more stand by. Returns whether there is one. The
-- lease key is free ('NX') or the caller's ('XX'). The turn is over in length ms.
local function give_turn(lease, queue, condition, length)
  local line = redis.call('ZRANGE', queue, 0, 2)
  if #line == 0 then
    return false
  end
  redis.call('ZREM', queue, line[1]) -- comes first: a server that is out of memory goes on after it
  if not redis.call('SET', lease, 'turn ' .. string.sub(line[1], 1, 36), 'PX', length, condition) then
    redis.call('GET', lease) -- complains of its type
  end
  tell(line, length)
  return true
end

-- Ends the caller's lease, or turn: the resource is the first's in line, or anybody's.
local function free(lease, queue)
  if not give_turn(lease, queue, 'XX', turn_ms) then
    redis.call('DEL', lease)
  end
end
