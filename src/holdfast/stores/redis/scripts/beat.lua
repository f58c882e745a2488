-- ARGV: instant, id, lease, and a report or nothing.
local known = call('HGET', NS .. 'u', ARGV[2])
if not known then return 0 end
call('DEL', KEYS[2])
call('HSET', NS .. 'u', ARGV[2], pack('>i8i8i8', unpacked('>i8', known), now, now + ARGV[3]))
if ARGV[4] then call('HSET', NS .. 'ur', ARGV[2], pack('>i8', now) .. ARGV[4]) end
return 1
