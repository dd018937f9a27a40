-- One try to acquire, in one step. Who waits gets or keeps a place in line, if it is not its turn.
-- KEYS: lease, counter, queue, seen, tombstone of the holder
-- ARGV: holder, TTL in ms, label, idle time of the counter in ms (0: a plain counter, never expires),
--   and for who waits: listener, ticket (0: new), ms for which it knows the resource to be free
-- Replies "granted <token> <ms left>", "held <ms left>", "queued <ms left> <ticket> <ahead>" (ms left negative:
-- unknown) or "abandoned".

local holder = ARGV[1]
local waiter = ARGV[5] and holder .. ' ' .. ARGV[5]
local strings = redis.call('MGET', KEYS[1], KEYS[5])
local lease, tombstone = strings[1], strings[2]
if lease and string.sub(lease, 1, 37) == holder .. ' ' then
  return 'granted ' .. string.match(lease, '^%d+', 38) .. ' ' .. integer(redis.call('PTTL', KEYS[1]))
end
if tombstone then
  return 'abandoned'
end

local is_turn = lease and #lease == 41 and string.sub(lease, 1, 5) == 'turn '
local my_turn, ahead, turn = lease == 'turn ' .. holder, nil, turn_ms
-- Another's turn that is dated in the future, by a clock that was set back since, is over. Who just comes doesn't look.
local is_free = not lease or
  is_turn and not my_turn and ARGV[6] ~= '0' and redis.call('PTTL', KEYS[1]) > turn_ms
if not my_turn and (not is_free or redis.call('ZCARD', KEYS[3]) > 0) then
  local ticket
  if waiter then
    ticket, ahead = take_place(KEYS[3], KEYS[4], waiter, ARGV[6])
    if is_free then -- each whole turn that has passed was missed by somebody ahead, and the next has begun
      local overdue = tonumber(ARGV[7])
      local missed = math.min(ahead, math.floor(overdue / turn_ms))
      turn = math.max(turn_ms - overdue % turn_ms, least_turn_ms)
      my_turn = missed == ahead
      if missed > 0 and not my_turn then
        redis.call('ZREMRANGEBYRANK', KEYS[3], 0, missed - 1)
        ahead = ahead - missed
      end
    end
  elseif is_free then
    my_turn = not is_anybody_first(KEYS[3], KEYS[4])
  else
    redis.call('ZREM', KEYS[3], holder) -- nothing; but a replica, that may be behind, is not to say who holds
  end
  if not my_turn then
    local left = turn -- at most
    if is_free then
      give_turn(KEYS[1], KEYS[3], lease and 'XX' or 'NX', turn)
      ahead = ahead and ahead - 1
    elseif not is_turn then
      left = integer(redis.call('PTTL', KEYS[1]))
    end
    return waiter and 'queued ' .. left .. ' ' .. ticket .. ' ' .. ahead or 'held ' .. left
  end
end

local token = next_token(KEYS[2], tonumber(ARGV[2]), tonumber(ARGV[4]))
local value = holder .. ' ' .. token .. ' ' .. ARGV[3]
if lease then
  redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
elseif not redis.call('SET', KEYS[1], value, 'PX', ARGV[2], 'NX') then
  redis.call('GET', KEYS[1]) -- complains of its type
end
if ahead then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, ahead)
end
return 'granted ' .. token .. ' ' .. ARGV[2]
