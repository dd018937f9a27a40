-- Lifts the counter to a token at least.
-- KEYS: counter
-- ARGV: token, idle time of the counter in ms (0: a plain counter, never expires)

lift(KEYS[1], ARGV[1], 0, tonumber(ARGV[2]))
return 1
