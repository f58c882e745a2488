-- ARGV: instant, wake-up, lock, its owner, its token or empty, names, jobs and perhaps events in msgpack, then the
-- schedules as they shall be and what jobs and events refer to.
-- Gives nothing without the lock, else whether others should look, and a 1 for each write that stands.
local values, FIRST = cmsgpack.unpack(ARGV[6]), 6
local has_term = ARGV[5] ~= ''
if has_term and not F.is_held(F.lock_of(ARGV[3]), ARGV[4], tonumber(ARGV[5])) then return false end

local names, was, is = values.names, {}, {}
for place, schedule in ipairs(F.read_schedules(values.names)) do was[names[place]] = schedule end
F.read_jobs(values.ids)

local order, verdicts, has_new, has_events = {}, {}, false, false
for turn, name in ipairs(names) do
  local wish = F.schedule_of(name, ARGV[FIRST + turn])
  local before = is[name] or was[name]
  local version = before and before.version or 0
  local after = values.after[turn]
  if version == wish.version - 1 and (not after or (before and before.mark == after)) then
    if not is[name] then order[#order + 1] = name end
    is[name] = wish
    has_new = has_new or version == 0
    for at = 1, #values.jobs[turn], NEW do F.add(values.jobs[turn], at) end
    if values.events and values.events[turn][1] then
      F.append(values.events[turn])
      has_events = true
    end
    verdicts[turn] = '1'
  else
    verdicts[turn] = before and version == wish.version and before.mark == wish.mark and '1' or '0'
  end
end

-- What grows comes first, so that memory at its limit refuses all; but one that is there can always be changed,
-- for example paused.
if not has_new and not has_events and not fresh[1] then call('DEL', KEYS[2]) end
if F.hand_out then F.hand_out() end
F.save()
local stored, added, looks, past, waits, ended = {}, {}, {}, {}, {}, {}
for place, name in ipairs(order) do
  local old, new = was[name] or {}, is[name]
  stored[2 * place - 1], stored[2 * place] = name, new.stored
  if not old.name then
    added[#added + 1] = '0'
    added[#added + 1] = name
  end
  if old.look ~= new.look then
    if old.look then past[#past + 1] = old.look end
    if new.look then
      looks[#looks + 1] = '0'
      looks[#looks + 1] = new.look
    end
  end
  if new.waits and not old.waits then
    waits[#waits + 1] = '0'
    waits[#waits + 1] = name
  elseif old.waits and not new.waits then
    ended[#ended + 1] = name
  end
end
F.each_part('HSET', SCHEDULES, stored)
F.each_part('ZADD', BY_NAME, added)
F.each_part('ZADD', LOOKS, looks)
F.each_part('ZADD', WAITS, waits)
F.each_part('ZREM', LOOKS, past)
F.each_part('ZREM', WAITS, ended)
if F.tell then F.tell() end
-- Whoever writes under a lock looks at schedules itself; else the one who does is to look again.
local is_untold = F.is_untold() or (order[1] ~= nil and not has_term)
if is_untold then F.ring(ARGV[2]) end
return {is_untold and 1 or 0, table.concat(verdicts)}
