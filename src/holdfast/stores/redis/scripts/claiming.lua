-- Gives ready jobs to a worker.

-- Whether an entry comes before another. Strings are not compared, for that would go by the server's locale.
local function is_before(one, other)
  local a, b, c, d = unpacked('>I4I4I4I4', one)
  local e, f, g, h = unpacked('>I4I4I4I4', other)
  if a ~= e then return a < e end
  if b ~= f then return b < f end
  if c ~= g then return c < g end
  if d ~= h then return d < h end
  for place = 17, math.min(#one, #other) do
    local left, right = byte(one, place), byte(other, place)
    if left ~= right then return left < right end
  end
  return #one < #other
end

-- The first entries of the queue's lines of the wanted tasks, taken out of them.
local function take(queue, tasks, limit)
  local known = NS .. 't:' .. queue
  local fronts = {}
  for _, task in ipairs(call('SMEMBERS', known)) do
    if tasks[task] then
      local line = line_of(queue, task)
      local entries = call('ZRANGE', line, 0, limit - 1)
      if entries[1] then
        fronts[#fronts + 1] = {line = line, entries = entries, at = 1, task = task}
      end
      if #entries < limit then call('SREM', known, task) end
    end
  end
  if #fronts == 1 then
    call('ZREMRANGEBYRANK', fronts[1].line, 0, #fronts[1].entries - 1)
    return fronts[1].entries
  end
  local taken = {}
  while #taken < limit do
    local best
    for _, front in ipairs(fronts) do
      local entry = front.entries[front.at]
      if entry and (not best or is_before(entry, best.entries[best.at])) then best = front end
    end
    if not best then break end
    taken[#taken + 1] = best.entries[best.at]
    best.at = best.at + 1
  end
  for _, front in ipairs(fronts) do
    if front.at > 1 then call('ZREMRANGEBYRANK', front.line, 0, front.at - 2) end
    if #front.entries < limit and front.at <= #front.entries then call('SADD', known, front.task) end
  end
  return taken
end

-- The records as they then stand, the bodies, and what few have beside them.
local function claim(worker, seq, want, queues, answer)
  local floor_key = NS .. 'n'
  local clock = now
  local claimed, bodies, extras = answer[1], answer[2], answer[3]
  local leases, records = {}, {}
  for _, queue in ipairs(queues) do
    if #claimed >= want.limit then break end
    local entries = take(queue, want.tasks, want.limit - #claimed)
    if entries[1] then
      if #records == 0 then
        -- Tokens keep growing even if the server that took over has a clock that is behind.
        clock = math.max(now, tonumber(call('GET', floor_key)) or 0)
        call('SET', floor_key, string.format('%.0f', clock))
      end
      local ids = {}
      for place, entry in ipairs(entries) do ids[place] = sub(entry, 17) end
      local found, its_bodies = read_all(RECORDS, ids), read_all(BODIES, ids)
      local retries = 0
      for place, id in ipairs(ids) do
        local record = found[place]
        local state, token, version, run, _, _, _, flags = unpacked(HEAD, record)
        local lease, names = unpacked('>i8I2', record, 75)
        if state == RETRY then retries = retries + 1 end
        local ends = now + (lease < 0 and want.lease or lease)
        if flags ~= 0 then
          if has(flags, CANCEL_ASKED) then call('HSET', ASKED, id, worker) end
          if has(flags, HAS_EXTRA) then call('HDEL', NS .. 'x:' .. id, 'r', 'p', 'n') end
        end
        record = pack(HEAD, CLAIMED, math.max(token + 1, clock), version + 1, run + 1, ends, 0, seq, flags)
          .. sub(record, 43, names) .. worker
        if has(flags, HAS_EXTRA) or has(flags, HAS_RESULT) then
          local all = told(record, '', id)
          extras[#extras + 1] = {#claimed, all[3], all[4]}
        end
        claimed[#claimed + 1] = record
        bodies[#bodies + 1] = its_bodies[place]
        leases[#leases + 1] = ends
        leases[#leases + 1] = id
        records[#records + 1] = id
        records[#records + 1] = record
      end
      count(SCHEDULED, queue, retries - #ids)
      count(RETRY, queue, -retries)
      count('S', queue, retries - #ids)
      count('R', queue, -retries)
      count(CLAIMED, queue, #ids)
    end
  end
  each_part('ZADD', LEASES, leases)
  each_part('HSET', RECORDS, records)
end

-- What this tick of the worker has claimed before, and still holds.
local function claimed_before(worker, seq, answer)
  local ids = call('ZRANGE', LEASES, 0, -1)
  for place, record in ipairs(read_all(RECORDS, ids)) do
    local job = opened(ids[place], record)
    if job.worker == worker and job.seq == seq then
      local all = told(record, call('HGET', BODIES, job.id), job.id)
      answer[1][#answer[1] + 1] = record
      answer[2][#answer[2] + 1] = all[2]
      if all[3] or all[4] then answer[3][#answer[3] + 1] = {#answer[1] - 1, all[3], all[4]} end
    end
  end
end
