-- Claims where something may hold jobs back: the first that may pass are taken, and those before them that may
-- not are parked, so that nobody meets them again until there is room.
local LOOKS = 1000
local looks

-- The gates of a job that have a limit: up to three names, each with the limit.
function F.gates_of(facts)
  local found, task = {}, facts.task
  local limit = F.common_limit(facts.queue_gate)
  if limit then found[1], found[2] = facts.queue_gate, limit end
  limit = F.common_limit(facts.task_gate)
  if limit then found[#found + 1], found[#found + 2] = facts.task_gate, limit end
  limit = facts.key_gate and F.limit_at(facts.key_gate, task)
  if limit then found[#found + 1], found[#found + 2] = facts.key_gate, limit end
  facts.gates = found
  return found
end

-- Parks a job. Whether another of its gates has room for somebody who is parked there, now that this one will
-- not take it. If the gate is the queue or the task, it holds back all who stand in the same lines elsewhere:
-- what has room keeps it until that gate opens.
function F.park(entry, id, record, facts, gate, records)
  local first, queue = byte(record), facts.queue
  local line = facts.lines[gate]
  if not line then
    line = F.parked_line(gate, F.row_of(queue, facts.task))
    facts.lines[gate] = line
  end
  F.put_aside(gate, queue, facts.task, first % 8, entry, line)
  F.count(first % 8 == RETRY and 'R' or 'S', queue, -1)
  records[#records + 1] = id
  records[#records + 1] = string.char(first + IS_PARKED) .. sub(record, 2) .. gate
  freed[id] = nil
  local gates, has_room = facts.gates, false
  for at = 1, #gates, 2 do
    if gates[at] ~= gate and F.room(gates[at], gates[at + 1]) > 0 and call('ZSCORE', GATES, gates[at]) then
      if gate == facts.queue_gate or gate == facts.task_gate then
        call('SADD', BEYOND .. gate, gates[at])
      else
        opened[gates[at]] = true
        has_room = true
      end
    end
  end
  return has_room
end

function F.pass(id, facts)
  local its = held[facts]
  if not its then
    its = {}
    held[facts] = its
  end
  its[#its + 1] = id
  local gates = facts.gates
  for at = 1, #gates, 2 do
    local gate, limit = gates[at], gates[at + 1]
    passed_at[gate] = (passed_at[gate] or 0) + 1
    if limit.interval > 0 then
      lasts[gate] = F.last_at(gate) + limit.interval
      F.note_opening(gate, limit, lasts[gate])
    end
  end
  local key_gate = facts.key_gate
  if key_gate and gates[#gates - 1] ~= key_gate then passed_at[key_gate] = (passed_at[key_gate] or 0) + 1 end
  if facts.sequence then call('HSET', BUSY, facts.sequence, id) end
  freed[id] = nil
end

-- What does not let a job through.
function F.hindrance(id, facts)
  local sequence = facts.sequence
  if sequence and (call('HEXISTS', BUSY, sequence) == 1 or F.next_of(sequence) ~= id) then
    return IN_SEQUENCE .. sequence
  end
  local gates = facts.gates
  for at = 1, #gates, 2 do
    if F.room(gates[at], gates[at + 1]) <= 0 then return gates[at] end
  end
end

-- Looks at jobs in their order. Those that pass are added to the others; how many were looked at, and whether
-- gates have opened behind them.
function F.look_at(entries, passed, left)
  local ids, parked = {}, {}
  for place, entry in ipairs(entries) do ids[place] = sub(entry, 17) end
  local done, has_room = #entries, false
  for place, record in ipairs(F.read_all(RECORDS, ids)) do
    if record then
      local id, facts = ids[place], F.facts(record)
      if not facts.gates then F.gates_of(facts) end
      local gate = F.hindrance(id, facts)
      if gate then
        has_room = F.park(entries[place], id, record, facts, gate, parked)
      else
        F.pass(id, facts)
        passed[#passed + 1] = entries[place]
      end
    end
    if has_room or #passed == left then
      done = place
      break
    end
  end
  F.each_part('HSET', RECORDS, parked)
  return done, has_room
end

-- The first jobs of the queue that may pass, taken out of their lines.
function F.passing(queue, tasks, left)
  local passed, part, fronts = {}, left, nil
  while #passed < left and looks > 0 do
    fronts = F.fronts_of(queue, tasks)
    if not fronts[1] then break end
    local whose = {}
    local entries = F.merged(fronts, math.min(part, looks), whose)
    if not entries[1] then break end
    local done, has_room = F.look_at(entries, passed, left)
    for _, front in ipairs(fronts) do front.taken = 0 end
    for place = 1, done do whose[place].taken = whose[place].taken + 1 end
    F.drop_taken(fronts)
    F.save_waiting()
    if has_room then F.free(F.take_opened()) end
    looks = looks - done
    part = math.min(2 * part, 500)
  end
  for _, front in ipairs(fronts or {}) do
    if call('EXISTS', front.line) == 0 then call('SREM', NS .. 't:' .. queue, front.task) end
  end
  return passed
end

function F.claim(worker, seq, want, queues, answer)
  looks = want.limit + LOOKS
  F.open_gates()
  for _, queue in ipairs(queues) do
    local left = want.limit - #answer[1]
    local entries = left > 0 and F.passing(queue, want.tasks, left) or {}
    if entries[1] then F.lease_out(worker, seq, F.clock(), want, queue, entries, answer) end
  end
  if looks <= 0 then has_more = true end
  F.save_gates()
end

-- Those of the wanted tasks that are paused.
function F.paused_tasks(tasks)
  local fields, found = {}, {}
  for place, task in ipairs(tasks) do fields[place] = 'task:' .. task end
  for place, stored in ipairs(F.read_all(LIMITS, fields)) do
    local limit = F.limit_of(stored)
    limits[fields[place]] = limit
    if limit and limit.is_paused then found[#found + 1] = tasks[place] end
  end
  return found
end
