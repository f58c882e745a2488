-- New jobs that wait for more than their due time.
local STRIDE, MOST_RANKS = 1000000, 1000
local floors, highest, last_turn, is_told = {}, {}, nil, false

-- The lowest rank or due time of the ready jobs of the queue and priority, before the call.
function F.lowest_ready(queue, priority)
  local field = priority .. queue
  local found = floors[field]
  if found then return found end
  F.promote(queue)
  for _, task in ipairs(call('SMEMBERS', NS .. 't:' .. queue)) do
    local line = F.line_of(queue, task)
    local first = call('ZRANGEBYLEX', line, '[' .. priority, '+', 'LIMIT', 0, 1)[1]
    if first and sub(first, 1, 8) == priority then
      local rank = F.due_of(first)
      if not found or rank < found then found = rank end
    end
  end
  if not found then
    found = math.max(now, highest[queue])
  end
  floors[field] = found
  return found
end

-- What was drawn last is kept for each key, and forgotten once it is below the floor and they are many.
function F.draw_rank(job, key)
  local field = 'key:' .. key
  local stored = call('HGET', KEY_LIMITS, field) or call('HGET', WEIGHTS, field)
  local weight = stored and unpacked('>d', stored, 26) or 1
  local ranks = NS .. 'zf:' .. job.queue
  highest[job.queue] = highest[job.queue] or call('ZREVRANGE', ranks, 0, 0, 'WITHSCORES')[2] or now
  local least = F.lowest_ready(job.queue, sub(job.place, 1, 8))
  local last = tonumber(call('ZSCORE', ranks, key)) or least
  local rank = math.max(least, last) + floor(STRIDE / weight)
  if call('ZCARD', ranks) > MOST_RANKS then
    call('ZREMRANGEBYSCORE', ranks, '-inf', string.format('(%.0f', math.min(least, now)))
  end
  call('ZADD', ranks, string.format('%.0f', rank), key)
  return F.sortable(rank)
end

-- A job waits for another, unless it does or did so already.
function F.link(waiter, its, other, id, any_end)
  local known = call('ZRANGEBYLEX', BEFORE .. waiter.id, '[' .. id .. '\0', '[' .. id .. '\0\255', 'LIMIT', 0, 1)
  if known[1] then return end
  local code = other and other.state or CANCELLED
  local is_pending = other and (not F.is_finished(other) or (code == DLQ and not any_end))
  call('ZADD', BEFORE .. waiter.id, 0, id .. (is_pending and PENDING or '\0' .. code))
  its.bits = F.with(its.bits, LINKED)
  if is_pending then
    call('SADD', BEHIND .. id, waiter.id)
    other.kind = F.with(other.kind, IS_AWAITED)
    F.note(other)
    its.pending = its.pending + 1
  elseif code ~= SUCCESS then
    its.unmet = its.unmet + 1
  end
end

-- Should somebody have overwritten it, all who come later share the last turn there is, and stand by their ids.
function F.last_turn()
  local kept = call('GET', TURNS)
  return kept and (F.exact(kept) or LARGEST_EXACT) or 0
end

function F.add_flow(job, new)
  if not is_told then F.raise_layout('2') end
  is_told = true
  local bits = 0
  local function bit_if(value, bit) if value then bits = bits + bit end end
  bit_if(new.halts, HALTS)
  bit_if(new.after_any, ANY_END)
  bit_if(new.held, HELD)
  bit_if(new.fair_key, RANKED + FAIR)
  bit_if(new.limit_key, LIMITED)
  bit_if(new.sequence, SEQUENCED)
  bit_if(new.expires, EXPIRES)
  local its = {
    rank = new.fair_key and F.draw_rank(job, new.fair_key) or '\0\0\0\0\0\0\0\0',
    bits = bits, turn = 0, pending = 0, unmet = 0, expires = new.expires and now + new.expires or 0,
    limit_key = new.limit_key or '', fair_key = new.fair_key or '', sequence = new.sequence or '',
  }
  for _, id in ipairs(new.after or {}) do
    if id ~= job.id then F.link(job, its, F.job_of(id), id, new.after_any) end
  end
  if new.sequence then
    last_turn = math.min((last_turn or F.last_turn()) + 1, LARGEST_EXACT)
    its.turn = last_turn
    call('SET', TURNS, string.format('%.0f', last_turn))
  end
  F.set_flow(job, its)
  if new.sequence then call('ZADD', SEQUENCES, 0, F.turn_of(job)) end
  if new.expires then call('ZADD', EXPIRY, string.format('%.0f', its.expires), job.id) end
  local closing = new.before and new.before ~= job.id and F.job_of(new.before)
  if closing and F.is_waiting(closing) and F.holds(closing) then
    local flow = F.flow_of(closing)
    F.link(closing, flow, job, job.id, true)
    F.set_flow(closing, flow)
    F.note(closing)
  end
end

-- Each move has children of its own, who see what came before them.
function F.begin_adding()
  F.save_waiting()
  floors, highest = {}, {}
end
