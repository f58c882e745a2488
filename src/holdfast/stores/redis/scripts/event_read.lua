-- ARGV: instant, position, how many at most, how many to look at, 1 if of one topic, the topic, 1 if of one
-- aggregate, the aggregate.
-- Gives the position up to which it has looked, or nothing if to the end, the last position, and of each event
-- behind the first: place, head, body. It ends early if these are large.
local PART, LARGEST = 32, 1000000
local most, left = tonumber(ARGV[3]), tonumber(ARGV[4])
local topic, aggregate = ARGV[5] == '1' and ARGV[6], ARGV[7] == '1' and ARGV[8]
local answer = {false, string.format('%.0f', F.last_position())}
local after, found, size = ARGV[2] .. '-0', 0, 0

while true do
  local part = math.min(PART, left, aggregate and left or most - found)
  local entries = call('XRANGE', topic and TELLS .. topic or LOG, '(' .. after, '+', 'COUNT', part)
  for _, entry in ipairs(entries) do
    local head = entry[2][2]
    local _, version, _, its_topic, at = unpacked(EVENT_HEAD, head)
    after = entry[1]
    if not aggregate or (version > 0 and sub(head, at) == aggregate) then
      local body = entry[2][4]
      if not topic then
        local its = call('XRANGE', TELLS .. its_topic, after, after)[1]
        body = its and its[2][4]
      end
      if body then
        answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = after, head, body
        found, size = found + 1, size + #body
      end
    end
    if found == most then break end
  end
  left = left - #entries
  if found < most and #entries < part then return answer end
  if found == most or left == 0 or size > LARGEST then
    answer[1] = sub(after, 1, -3)
    return answer
  end
end
