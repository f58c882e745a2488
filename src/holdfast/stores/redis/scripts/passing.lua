-- Claims where something may hold jobs back: the first that may pass are taken, and those before them that may
-- not are parked, so that nobody meets them again until there is room.
local LOOKS = 1000
local looks

-- The gates of the queue and the task that have a limit: up to two names, each with the limit.
function F.gates_of(common)
  local found = {}
  for _, gate in ipairs({common.queue_gate, common.task_gate}) do
    local limit = F.common_limit(gate)
    if limit then found[#found + 1], found[#found + 2] = gate, limit end
  end
  common.gates = found
  return found
end

-- Whether another gate has room for somebody who is parked there, now that a job will not take it. If the job
-- is parked at its queue or its task, that holds back all who stand in the same lines elsewhere: what has room
-- keeps it until that gate opens.
function F.gives_way(common, other, limit, gate)
  if not limit or other == gate or F.room(other, limit) <= 0 or not call('ZSCORE', GATES, other) then return false end
  if gate == common.queue_gate or gate == common.task_gate then
    call('SADD', BEYOND .. gate, other)
    return false
  end
  opened[other] = true
  return true
end

-- Parks a job. Whether that made room for others.
function F.park(entry, id, record, common, key, gate, records)
  local first, queue = byte(record), common.queue
  local line = common.lines[gate]
  if not line then
    line = F.parked_line(gate, F.row_of(queue, common.task))
    common.lines[gate] = line
  end
  F.put_aside(gate, queue, common.task, first % 8, entry, line)
  F.count(first % 8 == RETRY and 'R' or 'S', queue, -1)
  records[#records + 1] = id
  records[#records + 1] = string.char(first + IS_PARKED) .. sub(record, 2) .. gate
  freed[id] = nil
  local gates, has_room = common.gates, false
  for at = 1, #gates, 2 do has_room = F.gives_way(common, gates[at], gates[at + 1], gate) or has_room end
  local own = key and F.gate_of(key).gate
  if own and own ~= gate then
    has_room = F.gives_way(common, own, F.limit_at(own, common.task), gate) or has_room
  end
  return has_room
end

function F.take_from_rate(gate, limit)
  lasts[gate] = F.last_at(gate) + limit.interval
  F.note_opening(gate, limit, lasts[gate])
end

function F.pass(id, common, key, sequence)
  local its = held[common]
  if not its then
    its = {}
    held[common] = its
  end
  its[#its + 1] = id
  local gates = common.gates
  for at = 1, #gates, 2 do
    local gate = gates[at]
    leased[gate] = F.leased_at(gate) + 1
    if gates[at + 1].interval > 0 then F.take_from_rate(gate, gates[at + 1]) end
  end
  if key and is_limited then
    local its_gate = F.gate_of(key)
    local gate, limit = its_gate.gate, F.limit_at(its_gate.gate, common.task)
    leased[gate] = F.leased_at(gate) + 1
    call('SADD', its_gate.holders, id)
    if limit and limit.interval > 0 then F.take_from_rate(gate, limit) end
  end
  if sequence then call('HSET', BUSY, sequence, id) end
  freed[id] = nil
end

-- What does not let a job through.
function F.hindrance(id, common, key, sequence)
  if sequence and (call('HEXISTS', BUSY, sequence) == 1 or F.next_of(sequence) ~= id) then
    return IN_SEQUENCE .. sequence
  end
  local gates = common.gates
  for at = 1, #gates, 2 do
    if F.room(gates[at], gates[at + 1]) <= 0 then return gates[at] end
  end
  if key and is_limited then
    local gate = F.gate_of(key).gate
    local limit = F.limit_at(gate, common.task)
    if limit and F.room(gate, limit) <= 0 then return gate end
  end
end

-- Looks at jobs in their order. Those that pass are added to the others, with their records; how many were looked at, and whether
-- gates have opened behind them.
function F.look_at(entries, passed, records, left)
  local ids, parked = {}, {}
  for place, entry in ipairs(entries) do ids[place] = sub(entry, 17) end
  local done, has_room = #entries, false
  for place, record in ipairs(F.read_records(ids)) do
    if record then
      local id = ids[place]
      local common, key, sequence = F.facts(record)
      if not common.gates then F.gates_of(common) end
      local gate = F.hindrance(id, common, key, sequence)
      if gate then
        has_room = F.park(entries[place], id, record, common, key, gate, parked)
      else
        F.pass(id, common, key, sequence)
        passed[#passed + 1] = entries[place]
        records[#passed] = record
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

-- The first jobs of the queue that may pass, taken out of their lines, and their records.
function F.passing(queue, tasks, left)
  local passed, records, part, fronts = {}, {}, left, nil
  while #passed < left and looks > 0 do
    fronts = F.fronts_of(queue, tasks)
    if not fronts[1] then break end
    local entries, whose = nil, {}
    if fronts[2] then
      entries = F.merged(fronts, math.min(part, looks), whose)
    else
      entries = call('ZRANGE', fronts[1].line, 0, math.min(part, looks) - 1)
    end
    if not entries[1] then break end
    local done, has_room = F.look_at(entries, passed, records, left)
    for _, front in ipairs(fronts) do front.taken = fronts[2] and 0 or done end
    for place = 1, whose[1] and done or 0 do whose[place].taken = whose[place].taken + 1 end
    F.save_waiting()
    F.drop_taken(fronts)
    if has_room then F.free(F.take_opened()) end
    looks = looks - done
    part = math.min(2 * part, 500)
  end
  F.drop_empty(queue, fronts or {})
  return passed, records
end

function F.claim(worker, seq, want, queues, answer)
  -- Jobs are taken out of their lines before they are leased: what that needs must be what it should be.
  call('HLEN', BODIES)
  call('ZCARD', LEASES)
  looks = want.limit + LOOKS
  F.is_limited()
  F.open_gates()
  for _, queue in ipairs(queues) do
    local left = want.limit - #answer[1]
    local entries, records = {}, nil
    if left > 0 then entries, records = F.passing(queue, want.tasks, left) end
    if entries[1] then F.lease_out(worker, seq, F.clock(), want, queue, entries, answer, records) end
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
