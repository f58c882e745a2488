-- New events, each four values: id, topic, aggregate or false, place of the body among the arguments. They are
-- gathered, and written when the jobs are saved.
local TOLD = 4
local told, has_told = {}, false
local save, is_untold_job = F.save, F.is_untold

function F.append(values)
  for _, value in ipairs(values) do told[#told + 1] = value end
end

-- Which of the ids are stored.
function F.are_stored(ids)
  local found = {}
  for first = 1, #ids, MOST do
    for _, each in ipairs(call('SMISMEMBER', EVENTS, unpack(ids, first, math.min(first + MOST - 1, #ids)))) do
      found[#found + 1] = each == 1
    end
  end
  return found
end

function F.floor_of(topic)
  return math.max(tonumber(call('ZSCORE', FLOORS, topic)) or 0, tonumber(call('HGET', ENDS, 'f')) or 0)
end

function F.save_events()
  local ids, lines = {}, {}
  for at = 1, #told, TOLD do
    ids[#ids + 1] = told[at]
    lines[#lines + 1] = told[at + 2] and F.line_name(told[at + 1], told[at + 2]) or ''
  end
  local stored, versions = F.are_stored(ids), F.read_all(VERSIONS, lines)
  local last = F.last_position()
  local is_seen, new, latest, firsts = {}, {}, {}, {}
  for turn, id in ipairs(ids) do
    if not stored[turn] and not is_seen[id] then
      local at = TOLD * (turn - 1)
      local topic, aggregate, line, version = told[at + 2], told[at + 3], lines[turn], 0
      if aggregate then
        version = (latest[line] or tonumber(versions[turn]) or F.floor_of(topic)) + 1
        latest[line] = version
      end
      last = last + 1
      local place = F.place_of(last)
      local head = pack(EVENT_HEAD, now, version, #id, id, #topic, topic) .. (aggregate or '')
      call('XADD', LOG, place, 'h', head)
      call('XADD', TELLS .. topic, place, 'h', head, 'b', ARGV[told[at + 4]])
      is_seen[id], new[#new + 1], firsts[topic] = true, id, firsts[topic] or last
    end
  end
  told = {}
  if not new[1] then return end
  local changed_lines = {}
  for line, version in pairs(latest) do
    changed_lines[#changed_lines + 1] = line
    changed_lines[#changed_lines + 1] = string.format('%.0f', version)
  end
  F.each_part('SADD', EVENTS, new)
  F.each_part('HSET', VERSIONS, changed_lines)
  for topic, first in pairs(firsts) do call('ZADD', TOPICS, 'NX', string.format('%.0f', first), topic) end
  call('HSET', ENDS, 'p', string.format('%.0f', last))
  has_told = true
end

function F.save()
  save()
  if told[1] then F.save_events() end
end

function F.is_untold() return has_told or is_untold_job() end
