-- ARGV: instant, behind which name, how many. Gives the last name that was looked at if there may be more.
local names = call('ZRANGEBYLEX', BY_NAME, '(' .. ARGV[2], '+', 'LIMIT', 0, ARGV[3])
local last = #names == tonumber(ARGV[3]) and names[#names] or false
return F.tell_schedules({string.format('%.0f', now), last}, F.read_schedules(names))
