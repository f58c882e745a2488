-- Limits: how much room there is, and who goes on when there is some. What is read of a gate is kept for the
-- call, and goes on by what the call itself claims.
local FREED, GATES_AT_ONCE = 1000, 200
local own_limits, common_each, leased, lasts, openings = {}, {}, {}, {}, {}
local held = {} -- jobs that pass, by what they have in common
local budget, has_more = 3000, false
local has_own, has_weights

-- The limit of a gate for jobs of a task. One of the key's own goes before that for each, even if it holds
-- nothing back.
function F.limit_at(gate, task)
  if sub(gate, 1, 4) ~= 'key:' then return F.common_limit(gate) end
  if has_own == nil then
    has_own, has_weights = call('EXISTS', KEY_LIMITS) == 1, call('EXISTS', WEIGHTS) == 1
  end
  if not has_own and not has_weights then
    if common_each[task] == nil then common_each[task] = F.common_limit('each_key:' .. task) end
    return common_each[task]
  end
  local own = own_limits[gate]
  if own == nil then
    own = 'none'
    if has_own then own = F.limit_of(call('HGET', KEY_LIMITS, gate)) or own end
    if own == 'none' and has_weights and call('HEXISTS', WEIGHTS, gate) == 1 then own = false end
    own_limits[gate] = own
  end
  if own ~= 'none' then return own end
  return F.common_limit('each_key:' .. task)
end

function F.leased_at(gate)
  local found = leased[gate]
  if not found then
    found = call('SCARD', HOLDERS .. gate)
    leased[gate] = found
  end
  return found
end

function F.last_at(gate)
  local last = lasts[gate]
  if not last then
    last = tonumber(call('ZSCORE', RATES, gate)) or 0
    lasts[gate] = last
  end
  return math.max(last, now)
end

function F.note_opening(gate, limit, last)
  local opens = last - (limit.burst - 1) * limit.interval
  if opens > now and (not openings[gate] or opens < openings[gate]) then openings[gate] = opens end
end

-- How many more jobs the gate would let through.
function F.room(gate, limit)
  if limit.is_paused then return 0 end
  local room = limit.concurrency < 0 and FREED or limit.concurrency - F.leased_at(gate)
  if limit.interval > 0 then
    local last = F.last_at(gate)
    local by_rate = floor((now + limit.burst * limit.interval - last) / limit.interval)
    if by_rate <= 0 then F.note_opening(gate, limit, last) end
    room = math.min(room, by_rate)
  end
  return room
end

-- Lets the first of a line go.
function F.release(gate, place, queue, task, count)
  local line = F.parked_line(gate, place)
  local entries = call('ZRANGE', line, 0, count - 1)
  local ids, records, ready = {}, {}, {}
  for at, entry in ipairs(entries) do ids[at] = sub(entry, 17) end
  for at, record in ipairs(F.read_records(ids)) do
    if record then
      local first = byte(record) - IS_PARKED
      records[#records + 1] = ids[at]
      records[#records + 1] = string.char(first) .. sub(record, 2, F.names_end(record))
      ready[#ready + 1] = '0'
      ready[#ready + 1] = entries[at]
      freed[ids[at]] = true
      F.count(first % 8 == RETRY and 'R' or 'S', queue, 1)
      F.count(first % 8 == RETRY and 'Q' or 'P', queue, -1)
    end
  end
  F.each_part('ZADD', F.line_of(queue, task), ready)
  if ready[1] then call('SADD', NS .. 't:' .. queue, task) end
  F.each_part('HSET', RECORDS, records)
  if entries[1] then call('ZREMRANGEBYRANK', line, 0, #entries - 1) end
  budget = budget - #entries
  F.tidy(gate, place)
end

-- Lets the first of all lines of these gates go, as many as there is room for: a line that nobody serves keeps
-- the room from no other. Then also those of the gates whose room nobody could take until now.
function F.free(gates)
  local place = 0
  while place < #gates do
    place = place + 1
    local gate = gates[place]
    local beyond = call('SPOP', BEYOND .. gate, GATES_AT_ONCE)
    local is_left = #beyond == GATES_AT_ONCE
    for _, other in ipairs(beyond) do gates[#gates + 1] = other end
    for _, row in ipairs(call('SMEMBERS', PLACES .. gate)) do
      local size, rest = string.match(row, '^(%d+):(.*)$')
      if rest then
        local queue, task = sub(rest, 1, size), sub(rest, size + 2)
        local limit = F.limit_at(gate, task)
        local room = limit and F.room(gate, limit) or FREED + 1
        local count = math.min(room, FREED, budget)
        if count > 0 then F.release(gate, row, queue, task, count) end
        if room > math.max(count, 0) and call('EXISTS', F.parked_line(gate, row)) == 1 then is_left = true end
      else
        call('SREM', PLACES .. gate, row) -- somebody else's
      end
    end
    if is_left then
      call('SADD', OPEN, gate)
      has_more = true
    end
  end
end

-- The gates that may have room, up to a number.
function F.open_gates()
  local gates, seen = {}, {}
  local function add(all)
    for _, gate in ipairs(all) do
      if not seen[gate] then
        seen[gate] = true
        gates[#gates + 1] = gate
      end
    end
    return #all == GATES_AT_ONCE
  end
  add(F.take_opened())
  if add(call('SPOP', OPEN, GATES_AT_ONCE)) then has_more = true end
  local due = call('ZRANGEBYSCORE', OPENINGS, '-inf', string.format('%.0f', now), 'LIMIT', 0, GATES_AT_ONCE)
  if due[1] then call('ZREM', OPENINGS, unpack(due)) end
  if add(due) then has_more = true end
  local cursor = call('GET', CURSOR)
  if cursor then
    local some = call('ZRANGEBYLEX', GATES, '(' .. cursor, '(key;', 'LIMIT', 0, GATES_AT_ONCE)
    if add(some) then
      call('SET', CURSOR, some[#some])
      has_more = true
    else
      call('DEL', CURSOR)
    end
  end
  F.free(gates)
end

-- Notes what the call has claimed, and when gates will open whose rate was used up.
function F.save_gates()
  if F.is_limited() then F.each_common(held, 'SADD') end
  local rates = {}
  for gate, last in pairs(lasts) do
    if last > now then
      rates[#rates + 1] = string.format('%.0f', last)
      rates[#rates + 1] = gate
    end
  end
  if next(lasts) then call('ZREMRANGEBYSCORE', RATES, '-inf', string.format('%.0f', now)) end
  F.each_part('ZADD', RATES, rates)
  for gate, opens in pairs(openings) do
    if call('ZSCORE', GATES, gate) then call('ZADD', OPENINGS, 'LT', string.format('%.0f', opens), gate) end
  end
end

-- In how long a gate opens by time alone; at once if there is more to be looked at.
function F.next_opening()
  if has_more or call('EXISTS', OPEN) == 1 then return 0 end
  local first = call('ZRANGE', OPENINGS, 0, 0, 'WITHSCORES')
  return first[1] and math.max(0, first[2] - now)
end
