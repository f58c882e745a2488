-- ARGV: instant, limit, behind which name to look at those that wait, at how many.
-- Gives when the next one is due, and the name behind which to go on. An entry without its schedule, as
-- somebody's own deletions leave it, is removed.
local limit = tonumber(ARGV[2])
local answer = {string.format('%.0f', now), false, ARGV[3]}
local names, stored, is_found = {}, {}, {}

local function take(name, value)
  names[#names + 1] = name
  stored[#stored + 1] = value
  is_found[name] = true
end

local looks = call('ZRANGE', LOOKS, 0, limit)
local due = {}
for place, look in ipairs(looks) do
  local high, low = unpacked('>I4I4', look)
  if place > limit or (high - 2147483648) * 4294967296 + low > now then
    answer[2] = sub(look, 1, 8)
    break
  end
  due[place] = sub(look, 9)
end
for place, value in ipairs(F.read_all(SCHEDULES, due)) do
  if value and F.schedule_of(due[place], value).look == looks[place] then
    take(due[place], value)
  else
    call('ZREM', LOOKS, looks[place])
  end
end

local room = limit - #names
if room > 0 then
  local waiting = call('ZRANGEBYLEX', WAITS, '(' .. ARGV[3], '+', 'LIMIT', 0, ARGV[4])
  local values, ids = F.read_all(SCHEDULES, waiting), {}
  for place, value in ipairs(values) do
    local schedule = value and F.schedule_of(waiting[place], value)
    ids[place] = schedule and schedule.job or ''
    if not schedule or not schedule.waits then
      call('ZREM', WAITS, waiting[place])
      is_found[waiting[place]] = true
    end
  end
  for place, record in ipairs(F.read_all(RECORDS, ids)) do
    local state = record and byte(record, 1)
    local is_live = state == SCHEDULED or state == CLAIMED or state == RUNNING or state == RETRY
    if room > 0 and not is_live and not is_found[waiting[place]] then
      take(waiting[place], values[place])
      room = room - 1
    end
  end
  -- With no room left, those that were not told are still in front.
  if room > 0 then answer[3] = #waiting == tonumber(ARGV[4]) and waiting[#waiting] or '' end
end
return F.tell_schedules(answer, names, stored)
