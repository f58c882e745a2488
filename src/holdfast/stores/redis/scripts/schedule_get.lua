-- ARGV: instant, then names.
local names = {}
for place = 2, #ARGV do names[place - 1] = ARGV[place] end
return F.tell_schedules({string.format('%.0f', now)}, F.read_schedules(names))
