-- ARGV: instant, wake-up, lock or empty, its owner, its token, names and jobs in msgpack, then the schedules as
-- they shall be and what the jobs refer to.
-- Gives nothing without the lock, else whether others should look, and a 1 for each write that stands.
local values, FIRST = cmsgpack.unpack(ARGV[6]), 6
local has_term = ARGV[3] ~= ''
if has_term and not F.is_held(F.lock_of(ARGV[3]), ARGV[4], tonumber(ARGV[5])) then return false end

local names, stored, last = values.names, {}, {}
for place, value in ipairs(F.read_all(SCHEDULES, names)) do stored[names[place]] = value end
F.read_jobs(values.ids)

local order, verdicts, has_new = {}, {}, false
for turn, name in ipairs(names) do
  local wish = F.schedule_of(name, ARGV[FIRST + turn])
  local before = last[name] or stored[name]
  before = before and F.schedule_of(name, before) or {version = 0}
  if before.version == wish.version - 1 then
    if not last[name] then order[#order + 1] = name end
    last[name] = ARGV[FIRST + turn]
    has_new = has_new or before.version == 0
    local jobs_of = values.jobs[turn]
    for at = 1, #jobs_of, NEW do F.add(jobs_of, at) end
    verdicts[turn] = '1'
  else
    verdicts[turn] = before.version == wish.version and before.mark == wish.mark and '1' or '0'
  end
end

-- What grows comes first, so that memory at its limit refuses all; but one can always be changed, for example
-- paused.
if not has_new and not fresh[1] then call('DEL', KEYS[2]) end
local parts = {put = {}, named = {}, looks = {}, past = {}, waits = {}, done = {}}

local function note(part, ...)
  for _, value in ipairs({...}) do part[#part + 1] = value end
end

for _, name in ipairs(order) do
  local was = stored[name] and F.schedule_of(name, stored[name]) or {}
  local is = F.schedule_of(name, last[name])
  note(parts.put, name, last[name])
  if not was.version then note(parts.named, '0', name) end
  if was.look and was.look ~= is.look then note(parts.past, was.look) end
  if is.look and was.look ~= is.look then note(parts.looks, '0', is.look) end
  if is.waits and not was.waits then note(parts.waits, '0', name) end
  if was.waits and not is.waits then note(parts.done, name) end
end
F.hand_out()
F.save()
F.each_part('HSET', SCHEDULES, parts.put)
F.each_part('ZADD', BY_NAME, parts.named)
F.each_part('ZADD', LOOKS, parts.looks)
F.each_part('ZADD', WAITS, parts.waits)
F.each_part('ZREM', LOOKS, parts.past)
F.each_part('ZREM', WAITS, parts.done)
F.tell()
-- Whoever writes under a lock is the one who looks.
local rings = F.is_untold() or (order[1] ~= nil and not has_term)
if rings then F.ring(ARGV[2]) end
return {rings and 1 or 0, table.concat(verdicts)}
