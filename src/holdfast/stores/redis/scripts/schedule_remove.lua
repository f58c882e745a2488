-- ARGV: instant, name.
local name = ARGV[2]
local stored = call('HGET', SCHEDULES, name)
if not stored then return 0 end
local schedule = F.schedule_of(name, stored)
call('HDEL', SCHEDULES, name)
call('ZREM', BY_NAME, name)
call('ZREM', WAITS, name)
if schedule.look then call('ZREM', LOOKS, schedule.look) end
return 1
