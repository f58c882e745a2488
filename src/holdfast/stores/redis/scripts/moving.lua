-- Moves by the holder of a lease, or by whoever finds it expired.

function F.is_in(state, states) return string.find(states, state, 1, true) ~= nil end

function F.end_lease(job)
  call('ZREM', LEASES, job.id)
  if F.has(job.flags, CANCEL_ASKED) then call('HDEL', ASKED, job.id) end
  job.worker, job.ends = '', 0
end

function F.set_result(job, result)
  if result then
    call('HSET', RESULTS, job.id, result)
    job.flags = F.with(job.flags, HAS_RESULT)
  elseif F.has(job.flags, HAS_RESULT) then
    call('HDEL', RESULTS, job.id)
    job.flags = F.without(job.flags, HAS_RESULT)
  end
end

function F.end_attempt(job, worker, move)
  F.put_own('RPUSH', NS .. 'h:' .. job.id, cmsgpack.pack({
    job.run, job.token, job.worker, job.started ~= 0 and job.started, now, move.outcome,
    move.reason or false, move.error or false, job.worker ~= worker and worker,
  }))
  F.end_lease(job)
  job.flags = F.with(F.without(job.flags, SUSPECT), HAS_HISTORY)
  if move.suspect then job.flags = F.with(job.flags, SUSPECT) end
  job.failures, job.lost = move.failures, move.lost
  F.set_extra(job, 'r', move.reason)
  F.set_extra(job, 'e', move.error)
  F.set_result(job, move.result and ARGV[move.result])
end

function F.follow(job, worker, move)
  F.count(job.state, job.queue, -1)
  F.count(move.to, job.queue, 1)
  job.state, job.version = move.to, job.version + 1
  if job.started == 0 and move.elapsed then job.started = now - move.elapsed end
  if move.outcome then
    if F.settle then F.end_holdings({job.id}, {F.closed(job)}) end
    F.end_attempt(job, worker, move)
    if F.is_waiting(job) then
      if move.delay then job.place = sub(job.place, 1, 8) .. F.sortable(now + move.delay) end
      F.wait(job)
    else
      F.note_finish(job)
    end
  elseif job.started == 0 then
    job.started = now
  end
  F.note(job)
  if F.settle and move.children[1] then F.begin_adding() end
  for at = 1, #move.children, NEW do F.add(move.children, at) end
  if F.settle and move.outcome then
    local sequence = F.sequence_of(job)
    if F.is_finished(job) then
      F.finish(job)
    elseif sequence then
      F.call_next(sequence)
    end
  end
  if move.events then F.append(move.events) end
end

function F.is_moved(worker, move)
  local job = F.job_of(move.job)
  if not job then return false end
  if job.token == move.token and F.is_in(job.state, move.from) then
    local is_expired = job.ends <= now
    local is_due
    if move.if_expired then is_due = is_expired else is_due = job.worker == worker end
    if is_due and (move.outcome or not is_expired) then
      F.follow(job, worker, move)
      return true
    end
  end
  return F.is_repeated(job, worker, move)
end
