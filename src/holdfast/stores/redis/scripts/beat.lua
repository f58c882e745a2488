-- ARGV: instant, id, lease.
local known = call('HGET', NS .. 'u', ARGV[2])
if not known then return 0 end
call('DEL', KEYS[2])
call('HSET', NS .. 'u', ARGV[2], pack('>i8i8i8', unpacked('>i8', known), now, now + ARGV[3]))
return 1
