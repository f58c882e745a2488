-- A schedule is one value, made and read by Python: version, flags, when to look at it, sizes, mark, job, and
-- what scripts do not read. Beside it are its name, the time of the look and, if it waits, its name again, each
-- in an order by bytes.
local SCHEDULES, BY_NAME, LOOKS, WAITS = NS .. 'j', NS .. 'j:n', NS .. 'j:l', NS .. 'j:w'
local HAS_LOOK, IS_WAITING = 1, 2
local STORED, FIXED = '>I8Bc8I2I2', 25

function F.schedule_of(name, stored)
  local version, flags, look, mark, job = unpacked(STORED, stored)
  local rest = FIXED + mark
  return {
    name = name,
    stored = stored,
    version = version,
    mark = sub(stored, FIXED + 1, rest),
    job = sub(stored, rest + 1, rest + job),
    look = F.has(flags, HAS_LOOK) and look .. name,
    waits = F.has(flags, IS_WAITING),
  }
end

-- Each as it is stored, or false; what somebody has overwritten is not one.
function F.read_schedules(names)
  local found = F.read_all(SCHEDULES, names)
  for place, stored in ipairs(found) do
    found[place] = stored and #stored >= FIXED and F.schedule_of(names[place], stored)
  end
  return found
end

-- What Python reads of those that are stored: each with the head of its job's record.
function F.tell_schedules(answer, schedules)
  local ids = {}
  for place, schedule in ipairs(schedules) do ids[place] = schedule and schedule.job or '' end
  local records = F.read_records(ids)
  for place, schedule in ipairs(schedules) do
    if schedule then
      answer[#answer + 1] = schedule.name
      answer[#answer + 1] = schedule.stored
      answer[#answer + 1] = records[place] and sub(records[place], 1, 42)
    end
  end
  return answer
end
