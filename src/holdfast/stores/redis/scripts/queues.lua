-- ARGV: instant. What is counted by state and queue, which queues are paused, since when, and how long the first jobs of
-- each queue have waited at most: those of each task and priority, or of a hundred priorities, and the one due first of
-- those that nobody has made ready yet.
local PRIORITIES, LAST = 100, string.rep('\255', 9)

local function since(id)
  local record = F.record_of(id)
  if not record then return now end
  local job = F.opened(id, record)
  return math.max(F.due_of(job.place), job.created)
end

local function first_since(queue)
  local first
  local function look(id)
    local began = since(id)
    if not first or began < first then first = began end
  end
  for _, task in ipairs(call('SMEMBERS', NS .. 't:' .. queue)) do
    local line, entry = F.line_of(queue, task), nil
    for turn = 1, PRIORITIES do
      local from = turn == 1 and '-' or '(' .. sub(entry, 1, 8) .. LAST
      entry = call('ZRANGEBYLEX', line, from, '+', 'LIMIT', 0, 1)[1]
      if not entry then break end
      look(sub(entry, 17))
    end
  end
  local later = call('ZRANGE', NS .. 's:' .. queue, 0, 0, 'WITHSCORES')
  if later[1] and tonumber(later[2]) <= now then look(later[1]) end
  return first
end

local fields, waits, seen = call('HKEYS', COUNTS), {}, {}
for _, field in ipairs(fields) do
  local queue = sub(field, 2)
  local began = not seen[queue] and first_since(queue)
  seen[queue] = true
  if began then
    waits[#waits + 1] = queue
    waits[#waits + 1] = string.format('%.0f', now - began)
  end
end
return {fields, call('HGETALL', PAUSES), call('HGETALL', NS .. 'qs'), waits}
