-- Moves by the holder of a lease, or by whoever finds it expired.

local function is_in(state, states) return string.find(states, state, 1, true) ~= nil end

local function end_lease(job)
  call('ZREM', LEASES, job.id)
  if has(job.flags, CANCEL_ASKED) then call('HDEL', ASKED, job.id) end
  job.worker, job.ends = '', 0
end

local function set_result(job, result)
  if result then
    call('HSET', RESULTS, job.id, result)
    job.flags = with(job.flags, HAS_RESULT)
  elseif has(job.flags, HAS_RESULT) then
    call('HDEL', RESULTS, job.id)
    job.flags = without(job.flags, HAS_RESULT)
  end
end

local function end_attempt(job, worker, move)
  call('RPUSH', NS .. 'h:' .. job.id, cmsgpack.pack({
    job.run, job.token, job.worker, job.started ~= 0 and job.started, now, move.outcome,
    move.reason or false, move.error or false, job.worker ~= worker and worker,
  }))
  end_lease(job)
  job.flags = with(without(job.flags, SUSPECT), HAS_HISTORY)
  if move.suspect then job.flags = with(job.flags, SUSPECT) end
  job.failures, job.lost = move.failures, move.lost
  set_extra(job, 'r', move.reason)
  set_extra(job, 'e', move.error)
  set_result(job, move.result and ARGV[move.result])
end

local function follow(job, worker, move)
  count(job.state, job.queue, -1)
  count(move.to, job.queue, 1)
  job.state, job.version = move.to, job.version + 1
  if job.started == 0 and move.elapsed then job.started = now - move.elapsed end
  if move.outcome then
    end_attempt(job, worker, move)
    if is_waiting(job) then
      if move.delay then job.place = sub(job.place, 1, 8) .. sortable(now + move.delay) end
      wait(job.queue, job.task, job.state, job.place, job.id)
    else
      note_finish(job)
    end
  elseif job.started == 0 then
    job.started = now
  end
  note(job)
  for at = 1, #move.children, NEW do add(move.children, at) end
end

local function is_moved(worker, move)
  local job = job_of(move.job)
  if not job then return false end
  if job.token == move.token and is_in(job.state, move.from) then
    local is_expired = job.ends <= now
    local is_due
    if move.if_expired then is_due = is_expired else is_due = job.worker == worker end
    if is_due and (move.outcome or not is_expired) then
      follow(job, worker, move)
      return true
    end
  end
  return is_repeated(job, worker, move)
end
