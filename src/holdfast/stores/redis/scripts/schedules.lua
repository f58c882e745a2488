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
    version = version,
    mark = sub(stored, FIXED + 1, rest),
    job = sub(stored, rest + 1, rest + job),
    look = F.has(flags, HAS_LOOK) and look .. name,
    waits = F.has(flags, IS_WAITING),
  }
end

-- What is told of schedules, given their names and values: each with the head of its job's record.
function F.tell_schedules(answer, names, stored)
  local ids = {}
  for place, name in ipairs(names) do ids[place] = F.schedule_of(name, stored[place]).job end
  local records = F.read_all(RECORDS, ids)
  for place, name in ipairs(names) do
    answer[#answer + 1] = name
    answer[#answer + 1] = stored[place]
    answer[#answer + 1] = records[place] and sub(records[place], 1, 42)
  end
  return answer
end

-- The same, given names of which some may not be stored.
function F.tell_stored(answer, names)
  local found, stored = {}, {}
  for place, value in ipairs(F.read_all(SCHEDULES, names)) do
    if value then
      found[#found + 1] = names[place]
      stored[#stored + 1] = value
    end
  end
  return F.tell_schedules(answer, found, stored)
end
