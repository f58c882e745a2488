-- ARGV: instant, id, lease, and a report or nothing.
local _, started = F.life_of(ARGV[2])
if not started then return 0 end
call('DEL', KEYS[2])
call('HSET', NS .. 'u', ARGV[2], pack('>i8i8i8', started, now, now + ARGV[3]))
if ARGV[4] then call('HSET', NS .. 'ur', ARGV[2], pack('>i8', now) .. ARGV[4]) end
return 1
