-- ARGV: instant, id, lease, what the worker says of itself in msgpack, how long the dead are remembered.
call('DEL', KEYS[2])
F.forget_dead(tonumber(ARGV[5]))
local _, started = F.life_of(ARGV[2])
started = started or now
call('HSET', NS .. 'u', ARGV[2], pack('>i8i8i8', started, now, now + ARGV[3]))
call('HSET', NS .. 'p', ARGV[2], ARGV[4])
return 1
