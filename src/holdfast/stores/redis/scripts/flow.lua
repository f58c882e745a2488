-- What holds jobs back beside their due time. Only scripts that may have to do with it have this.
-- A gate is a queue, a task or a key that has a limit, a sequence, or `after`: other jobs. What it holds back is
-- parked: it stands in a line of the gate, its queue and its task, as it would stand among those that are ready.
local LIMITS, KEY_LIMITS, WEIGHTS = NS .. 'z', NS .. 'z:k', NS .. 'z:w'
local GATES, OPEN, OPENINGS, RATES, CURSOR = NS .. 'z:p', NS .. 'z:o', NS .. 'z:t', NS .. 'z:r', NS .. 'z:c'
local SEQUENCES, HALTED, BUSY, TURNS = NS .. 'z:q', NS .. 'z:h', NS .. 'z:b', NS .. 'z:n'
local EXPIRY, HOLDERS, PLACES, PARKED = NS .. 'z:e', NS .. 'zh:', NS .. 'zp:', NS .. 'zw:'
local BEFORE, BEHIND, BEYOND = NS .. 'zb:', NS .. 'za:', NS .. 'zd:'
local AFTER, IN_SEQUENCE = 'after', 'sequence:'
local HALTS, ANY_END, HELD, RANKED, LIMITED, FAIR, SEQUENCED, EXPIRES, LINKED = 1, 2, 4, 8, 16, 32, 64, 128, 256
local PENDING = '\0-' -- after the id of a job that is waited for; then the code of the state in which it ended

-- Behind the names: rank, bits, when it expires, turn in the sequence, how many jobs it waits for and how many
-- of those before it have not succeeded, limit key, fair key, sequence; then the size of all this.
local FLOW = '>c8I2i8i8I4I4I2c0I2c0I2c0'

-- Gates that may have room by now, and jobs that are ready again and not claimed yet.
local opened, freed = {}, {}
local is_limited, has_gates
local commons, key_gates, rows, limits = {}, {}, {}, {}

-- From now on who does not know this layout may not come any more; a newer one stays.
function F.raise_layout(least)
  if (tonumber(call('GET', NS .. 'v') or '') or 0) < tonumber(least) then call('SET', NS .. 'v', least) end
end

-- Whether there are limits.
function F.is_limited()
  if is_limited == nil then is_limited = call('EXISTS', LIMITS, KEY_LIMITS) > 0 end
  return is_limited
end

-- Names are made once: to make one takes as long as several commands.
function F.row_of(queue, task)
  local its = rows[queue]
  if not its then
    its = {}
    rows[queue] = its
  end
  local row = its[task]
  if not row then
    row = #queue .. ':' .. queue .. ':' .. task
    its[task] = row
  end
  return row
end

-- What all jobs of a queue and a task have in common.
function F.common(queue, task)
  local row = F.row_of(queue, task)
  local found = commons[row]
  if not found then
    found = {queue = queue, task = task, queue_gate = 'queue:' .. queue, task_gate = 'task:' .. task, lines = {}}
    commons[row] = found
  end
  return found
end

-- What a record says of gates: that, then the limit key and the sequence, if it has them.
function F.facts(record)
  local last = byte(record, 83) * 256 + byte(record, 84)
  local at = last + 1
  if byte(record) % 16 >= HAS_FLOW then at = at - byte(record, last - 1) * 256 - byte(record, last) end
  local names = sub(record, 85, at - 1)
  local common = commons[names]
  if not common then
    local queue, task = unpacked(NAMES, record, 85)
    common = F.common(queue, task)
    commons[names] = common
  end
  if at > last then return common end
  local bits, key, sequence = byte(record, at + 8) * 256 + byte(record, at + 9), nil, nil
  local size = byte(record, at + 34) * 256 + byte(record, at + 35)
  if bits % 32 >= LIMITED then key = sub(record, at + 36, at + 35 + size) end
  if bits % 128 >= SEQUENCED then
    local _, found = unpacked('>I2c0I2c0', record, at + 36 + size)
    sequence = found
  end
  return common, key, sequence
end

-- The names of a key's gate, and of those who hold its jobs.
function F.gate_of(key)
  local found = key_gates[key]
  if not found then
    local gate = 'key:' .. key
    found = {gate = gate, holders = HOLDERS .. gate}
    key_gates[key] = found
  end
  return found
end

function F.limit_of(stored)
  if not stored or #stored < 33 then return false end
  local concurrency, interval, burst, bits = unpacked('>i8i8i8B', stored)
  return {concurrency = concurrency, interval = interval, burst = burst, is_paused = F.has(bits, 1)}
end

function F.common_limit(field)
  local limit = limits[field]
  if limit == nil then
    limit = F.limit_of(call('HGET', LIMITS, field))
    limits[field] = limit
  end
  return limit
end

function F.is_limit(gate) return gate ~= AFTER and sub(gate, 1, #IN_SEQUENCE) ~= IN_SEQUENCE end
function F.parked_line(gate, place) return PARKED .. #gate .. ':' .. gate .. ':' .. place end

function F.put_aside(gate, queue, task, state, entry, line)
  line = line or F.parked_line(gate, F.row_of(queue, task))
  local its = waiting[line]
  if not its then
    its = {}
    waiting[line] = its
    lines[#lines + 1] = {PLACES .. gate, F.row_of(queue, task)}
    if F.is_limit(gate) then call('ZADD', GATES, 0, gate) end
  end
  its[#its + 1] = '0'
  its[#its + 1] = entry
  F.count(state == RETRY and 'Q' or 'P', queue, 1)
end

-- Forgets a line in which nobody is left, and then perhaps its gate.
function F.tidy(gate, place)
  if call('EXISTS', F.parked_line(gate, place)) == 1 then return end
  call('SREM', PLACES .. gate, place)
  if call('EXISTS', PLACES .. gate) == 0 then
    call('ZREM', GATES, gate)
    call('ZREM', OPENINGS, gate)
    call('SREM', OPEN, gate)
    for _, other in ipairs(call('SMEMBERS', BEYOND .. gate)) do
      if call('ZSCORE', GATES, other) then call('SADD', OPEN, other) end
    end
    call('DEL', BEYOND .. gate)
  end
end

-- A job takes no room there any more, or will not take what it was let go for.
function F.note_room(common, key)
  if has_gates == nil then has_gates = call('EXISTS', GATES) == 1 end
  if not has_gates then return end
  opened[common.queue_gate], opened[common.task_gate] = true, true
  if key then opened[F.gate_of(key).gate] = true end
end

-- Those of the gates that may have room where somebody is parked.
function F.take_opened()
  local all, found = {}, {}
  for gate in pairs(opened) do all[#all + 1] = gate end
  opened = {}
  for first = 1, #all, MOST do
    local last = math.min(first + MOST - 1, #all)
    for place, score in ipairs(call('ZMSCORE', GATES, unpack(all, first, last))) do
      if score then found[#found + 1] = all[first + place - 1] end
    end
  end
  return found
end

-- Leaves the gates to the next claim. Whether there is work for others.
function F.save_open()
  local gates = F.take_opened()
  F.each_part('SADD', OPEN, gates)
  return gates[1] ~= nil or next(freed) ~= nil
end
