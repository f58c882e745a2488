-- What the end of a lease, the end of a job, or its removal means to others.

-- The one job of the sequence that may be claimed.
function F.next_of(sequence)
  local halted = call('HGET', HALTED, sequence)
  if halted then return halted end
  local front = pack('>I2c0', #sequence, sequence)
  local first = call('ZRANGEBYLEX', SEQUENCES, '[' .. front, '+', 'LIMIT', 0, 1)[1]
  return first and sub(first, 1, #front) == front and sub(first, #front + 9)
end

function F.turn_of(job)
  local its = F.flow_of(job)
  return pack('>I2c0I8', #its.sequence, its.sequence, its.turn) .. job.id
end

function F.call_next(sequence)
  local id = F.next_of(sequence)
  local job = id and F.job_of(id)
  if job and job.gate == IN_SEQUENCE .. sequence then F.unpark(job) end
end

-- Plain successes, that are written.
function F.settle(ids, records)
  local sequenced = F.end_holdings(ids, records)
  for place, id in ipairs(ids) do
    if sequenced[id] or byte(records[place]) >= IS_AWAITED then F.finish(F.job_of(id)) end
  end
end

-- Others waited for the job, which is so or, if removed, as if it were so.
function F.tell_waiting(job, code)
  if not F.has(job.kind, IS_AWAITED) then return end
  local behind = BEHIND .. job.id
  for _, id in ipairs(call('SMEMBERS', behind)) do
    local waiter = F.job_of(id)
    local its = waiter and F.flow_of(waiter)
    if not its then
      call('SREM', behind, id)
    elseif code ~= DLQ or F.has(its.bits, ANY_END) then
      call('SREM', behind, id)
      call('ZREM', BEFORE .. id, job.id .. PENDING)
      call('ZADD', BEFORE .. id, 0, job.id .. '\0' .. code)
      its.pending = its.pending - 1
      if code ~= SUCCESS then its.unmet = its.unmet + 1 end
      F.set_flow(waiter, its)
      F.note(waiter)
      if waiter.gate == AFTER and not F.holds(waiter) then F.unpark(waiter) end
    end
  end
  if call('EXISTS', behind) == 0 then
    job.kind = F.without(job.kind, IS_AWAITED)
    F.note(job)
  end
end

-- A job is finished.
function F.finish(job)
  local its, sequence = F.flow_of(job), F.sequence_of(job)
  if sequence then
    call('ZREM', SEQUENCES, F.turn_of(job))
    if F.has(its.bits, HALTS) and (job.state == DLQ or job.state == FAILED) then
      call('HSET', HALTED, sequence, job.id)
    elseif call('HGET', HALTED, sequence) == job.id then
      call('HDEL', HALTED, sequence)
    end
  end
  if its and F.has(its.bits, EXPIRES) and job.run == 0 then call('ZREM', EXPIRY, job.id) end
  F.tell_waiting(job, job.state)
  if sequence then F.call_next(sequence) end
end

-- A finished job waits again.
function F.begin_again(job)
  local its = F.flow_of(job)
  if not its then return end
  if F.has(its.bits, SEQUENCED) then call('ZADD', SEQUENCES, 0, F.turn_of(job)) end
  if F.has(its.bits, EXPIRES) and job.run == 0 then
    call('ZADD', EXPIRY, string.format('%.0f', its.expires), job.id)
  end
end

-- A job is removed.
function F.forget_flow(job)
  local its, sequence = F.flow_of(job), F.sequence_of(job)
  job.is_removed = true
  if its then
    if its.pending > 0 then
      for _, link in ipairs(call('ZRANGE', BEFORE .. job.id, 0, -1)) do
        if sub(link, -2) == PENDING then call('SREM', BEHIND .. sub(link, 1, -3), job.id) end
      end
    end
    if F.has(its.bits, LINKED) then call('UNLINK', BEFORE .. job.id) end
    if F.has(its.bits, EXPIRES) then call('ZREM', EXPIRY, job.id) end
  end
  if sequence then
    call('ZREM', SEQUENCES, F.turn_of(job))
    if call('HGET', HALTED, sequence) == job.id then call('HDEL', HALTED, sequence) end
  end
  F.tell_waiting(job, CANCELLED)
  if sequence then F.call_next(sequence) end
end
