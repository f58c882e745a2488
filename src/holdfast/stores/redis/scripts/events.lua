-- Events. The log of all is a stream whose ids are the positions; each topic has a stream of its own, with the
-- same ids and what was told. The head is the same in both: instant, version or 0, id, topic, aggregate.
-- Beside them are the ids that are stored, the last version of each line (a topic's aggregate), the first position
-- of each topic, the highest version of a topic that was forgotten, and the ends: `p`, the last position, and `f`,
-- the highest version of a topic that is itself forgotten.
local LOG, TELLS, EVENTS, VERSIONS = NS .. 'e', NS .. 'e:s:', NS .. 'e:i', NS .. 'e:v'
local TOPICS, FLOORS, ENDS = NS .. 'e:t', NS .. 'e:f', NS .. 'e:n'
local EVENT_HEAD = '>i8I8I4c0I4c0'

function F.place_of(position) return string.format('%.0f-0', position) end
function F.position_of(place) return tonumber(sub(place, 1, -3)) end
-- The log counts too: should the end be lost, a position is still not given twice.
function F.last_position()
  local entry = call('XREVRANGE', LOG, '+', '-', 'COUNT', 1)[1]
  local kept, known = call('HGET', ENDS, 'p'), entry and F.position_of(entry[1]) or 0
  if not kept then return known end
  -- Nobody has read beyond the instant: positions are counted from 1.
  return math.max(F.exact(kept) or (entry and 0 or now), known)
end

function F.line_name(topic, aggregate) return pack('>I4c0', #topic, topic) .. aggregate end
