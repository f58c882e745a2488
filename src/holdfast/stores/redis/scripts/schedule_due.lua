-- ARGV: instant, limit, behind which name to look at those that wait, at how many.
-- Gives when the next one is due, and the name behind which to go on. An entry without its schedule, as
-- somebody's own deletions leave it, is removed.
local limit, most = tonumber(ARGV[2]), tonumber(ARGV[4])
local answer = {string.format('%.0f', now), false, ARGV[3]}
local found, is_found = {}, {}

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
for place, schedule in ipairs(F.read_schedules(due)) do
  if schedule and schedule.look == looks[place] then
    found[#found + 1] = schedule
    is_found[schedule.name] = true
  else
    call('ZREM', LOOKS, looks[place])
  end
end

if #found < limit then
  local waiting = call('ZRANGEBYLEX', WAITS, '(' .. ARGV[3], '+', 'LIMIT', 0, most)
  local schedules, ids = F.read_schedules(waiting), {}
  for place, schedule in ipairs(schedules) do
    ids[place] = schedule and schedule.job or ''
    if not schedule or not schedule.waits then
      call('ZREM', WAITS, waiting[place])
      is_found[waiting[place]] = true
    end
  end
  for place, record in ipairs(F.read_records(ids)) do
    local state = record and byte(record) % 8
    local is_live = state == SCHEDULED or state == CLAIMED or state == RUNNING or state == RETRY
    if #found < limit and not is_live and not is_found[waiting[place]] then
      found[#found + 1] = schedules[place]
    end
  end
  -- With no room left, those that were not told are still in front.
  if #found < limit then answer[3] = #waiting == most and waiting[most] or '' end
end
return F.tell_schedules(answer, found)
