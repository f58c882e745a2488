-- ARGV: instant, age, limit, how many to look at, in msgpack up to which position the events of a topic may go,
-- how many topics to remember of which no event is kept. Gives how many were removed, and 1 if there may be more.
-- It ends at the first event that is not old enough; those behind it are not older, unless the clock was set back.
local before, limit, step = now - ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local passed, kept_floors = cmsgpack.unpack(ARGV[5]), tonumber(ARGV[6])

function F.may_go(topic, position) return not passed[topic] or position <= passed[topic] end

-- Of a topic whose first position somebody has overwritten, it is looked up.
function F.first_of(topic, told)
  local position = F.exact(told)
  if position and position > 0 then return position end
  local first = call('XRANGE', TELLS .. topic, '-', '+', 'COUNT', 1)[1]
  if not first then return nil end
  call('ZADD', TOPICS, sub(first[1], 1, -3), topic)
  return F.position_of(first[1])
end

-- The first position that may go. Topics whose first one must stay are passed over, with all their events.
function F.first_to_go()
  local rank, part = 0, 100
  while true do
    local firsts = call('ZRANGE', TOPICS, rank, rank + part - 1, 'WITHSCORES')
    for at = 1, #firsts, 2 do
      local position = F.first_of(firsts[at], firsts[at + 1])
      if position and F.may_go(firsts[at], position) then return position end
    end
    if #firsts < 2 * part then return nil end
    rank = rank + part
  end
end

-- Forgets lines whose last version is among those that go: the topic begins new ones above it.
function F.forget_lines(versions, topic_of)
  local lines, gone = {}, {}
  for line in pairs(versions) do lines[#lines + 1] = line end
  for place, last in ipairs(F.read_all(VERSIONS, lines)) do
    local line = lines[place]
    if tonumber(last) == versions[line] then
      gone[#gone + 1] = line
      call('ZADD', FLOORS, 'GT', string.format('%.0f', versions[line]), topic_of[line])
    end
  end
  F.each_part('HDEL', VERSIONS, gone)
  local excess = call('ZCARD', FLOORS) - kept_floors
  if excess > 0 then
    local lowest = call('ZPOPMIN', FLOORS, excess)
    local floor_of_all = math.max(tonumber(call('HGET', ENDS, 'f')) or 0, tonumber(lowest[#lowest]))
    call('HSET', ENDS, 'f', string.format('%.0f', floor_of_all))
  end
end

local first = F.first_to_go()
if not first then return {0, 0} end
local entries = call('XRANGE', LOG, F.place_of(first), '+', 'COUNT', step)
local places, ids, lasts, versions, topic_of, is_over = {}, {}, {}, {}, {}, #entries < step
for _, entry in ipairs(entries) do
  local at, version, id, topic, rest = unpacked(EVENT_HEAD, entry[2][2])
  local position = F.position_of(entry[1])
  is_over = is_over or at >= before
  if at >= before or #ids == limit then break end
  if F.may_go(topic, position) then
    places[#places + 1], ids[#ids + 1], lasts[topic] = entry[1], id, position
    if version > 0 then
      local line = F.line_name(topic, sub(entry[2][2], rest))
      versions[line], topic_of[line] = version, topic
    end
  end
end
if not ids[1] then return {0, 0} end

F.each_part('XDEL', LOG, places)
F.each_part('SREM', EVENTS, ids)
for topic, last in pairs(lasts) do
  local key = TELLS .. topic
  call('XTRIM', key, 'MINID', '=', F.place_of(last + 1))
  local left = call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
  if left then
    call('ZADD', TOPICS, string.format('%.0f', F.position_of(left[1])), topic)
  else
    call('DEL', key)
    call('ZREM', TOPICS, topic)
  end
end
if call('XLEN', LOG) == 0 then call('DEL', LOG) end
F.forget_lines(versions, topic_of)
return {#ids, is_over and 0 or 1}
