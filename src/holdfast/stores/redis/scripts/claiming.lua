-- Gives ready jobs to a worker.

-- The first entries of several lines, in one order; if that is asked, of which line each is. Each line is read
-- in parts.
function F.merged(fronts, limit, whose)
  -- Whether an entry comes before another. Strings are not compared: that would go by the server's locale.
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

  local taken, part = {}, math.ceil(limit / #fronts) + 1
  local function refill(front)
    front.entries, front.at = call('ZRANGE', front.line, front.taken, front.taken + part - 1), 1
  end

  for _, front in ipairs(fronts) do refill(front) end
  while #taken < limit do
    local best
    for _, front in ipairs(fronts) do
      local entry = front.entries[front.at]
      if entry and (not best or is_before(entry, best.entries[best.at])) then best = front end
    end
    if not best then break end
    taken[#taken + 1] = best.entries[best.at]
    if whose then whose[#taken] = best end
    best.taken, best.at = best.taken + 1, best.at + 1
    if best.at > part then refill(best) end
  end
  return taken
end

-- Takes out of their lines what was taken of them: last of all, so that none is lost if something before it fails.
function F.drop_taken(fronts)
  for _, front in ipairs(fronts) do
    if front.taken > 0 then call('ZREMRANGEBYRANK', front.line, 0, front.taken - 1) end
  end
end

-- The queue's lines of the wanted tasks.
function F.fronts_of(queue, tasks)
  local fronts = {}
  for _, task in ipairs(call('SMEMBERS', NS .. 't:' .. queue)) do
    if tasks[task] then fronts[#fronts + 1] = {line = F.line_of(queue, task), task = task, taken = 0} end
  end
  return fronts
end

-- The first entries of the queue's lines of the wanted tasks, and the lines.
function F.first_ready(queue, tasks, limit)
  local fronts = F.fronts_of(queue, tasks)
  if not fronts[1] then return fronts, fronts end
  if fronts[2] then return F.merged(fronts, limit), fronts end
  local entries = call('ZRANGE', fronts[1].line, 0, limit - 1)
  fronts[1].taken = #entries
  return entries, fronts
end

-- A task whose line is empty is known no longer.
function F.drop_empty(queue, fronts)
  for _, front in ipairs(fronts) do
    if call('EXISTS', front.line) == 0 then call('SREM', NS .. 't:' .. queue, front.task) end
  end
end

-- How the head of a record changes when its job is claimed. New jobs have the same, so it is found once.
function F.claimed_head(head, clock, ends, seq)
  local first, token, version, run, _, _, _, flags = unpacked(HEAD, head)
  local kind = first - first % 8
  return {
    head = pack(HEAD, CLAIMED + kind, math.max(token + 1, clock), version + 1, run + 1, ends, 0, seq, flags),
    is_retry = first - kind == RETRY,
    kind = kind,
    flags = flags,
  }
end

local NO_LEASE = '\255\255\255\255\255\255\255\255'

-- Jobs of one queue, by their entries; the answer gets their records as they then stand, their bodies, and
-- what few have beside them.
function F.lease_out(worker, seq, clock, want, queue, entries, answer, found)
  local claimed, bodies, extras = answer[1], answer[2], answer[3]
  local ids, leases, records, heads = {}, {}, {}, {}
  for place, entry in ipairs(entries) do ids[place] = sub(entry, 17) end
  local its_bodies = F.read_all(BODIES, ids)
  found = found or F.read_records(ids)
  for place = #ids, 1, -1 do
    if not found[place] then -- deleted by somebody's own hand: the others are not lost with it
      table.remove(ids, place)
      table.remove(found, place)
      table.remove(its_bodies, place)
    end
  end
  local before, retries, flowing = #claimed, 0, {}
  local usual = now + want.lease
  local usual_text = string.format('%.0f', usual)
  for place, id in ipairs(ids) do
    local record = found[place]
    local ends, ends_text = usual, usual_text
    local head = sub(record, 1, 42)
    local known
    if sub(record, 75, 82) == NO_LEASE then
      known = heads[head]
      if not known then
        known = F.claimed_head(head, clock, ends, seq)
        heads[head] = known
      end
    else
      ends = now + unpacked('>i8', record, 75)
      ends_text = string.format('%.0f', ends)
      known = F.claimed_head(head, clock, ends, seq)
    end
    if known.kind > 0 then flowing[#flowing + 1] = id end
    if known.is_retry then retries = retries + 1 end
    record = known.head .. sub(record, 43) .. worker
    local body = its_bodies[place]
    -- A body begins with the id; who gets another is told which job it is, so as to give it up.
    local is_beside = not body or sub(body, 4, 39) ~= id
    if known.flags ~= 0 then
      if F.has(known.flags, CANCEL_ASKED) then call('HSET', ASKED, id, worker) end
      if F.has(known.flags, HAS_EXTRA) then F.put_own('HDEL', NS .. 'x:' .. id, 'r', 'p', 'n') end
      is_beside = is_beside or F.has(known.flags, HAS_EXTRA) or F.has(known.flags, HAS_RESULT)
    end
    if is_beside then
      local all = F.told(record, body, id)
      extras[#extras + 1] = {before + place - 1, all[3], all[4], id}
    end
    claimed[before + place] = record
    bodies[before + place] = body
    leases[2 * place - 1], leases[2 * place] = ends_text, id
    records[2 * place - 1], records[2 * place] = id, record
  end
  F.each_part('ZADD', LEASES, leases)
  F.each_part('HSET', RECORDS, records)
  if flowing[1] and call('EXISTS', NS .. 'z:e') == 1 then F.each_part('ZREM', NS .. 'z:e', flowing) end
  F.count(SCHEDULED, queue, retries - #ids)
  F.count(RETRY, queue, -retries)
  F.count('S', queue, retries - #ids)
  F.count('R', queue, -retries)
  F.count(CLAIMED, queue, #ids)
end

function F.claim(worker, seq, want, queues, answer)
  for _, queue in ipairs(queues) do
    local left = want.limit - #answer[1]
    if left > 0 then
      local entries, fronts = F.first_ready(queue, want.tasks, left)
      if entries[1] then F.lease_out(worker, seq, F.clock(), want, queue, entries, answer) end
      F.drop_taken(fronts)
      if #entries < left then F.drop_empty(queue, fronts) end
    end
  end
end
