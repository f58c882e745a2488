-- Jobs as this call sees them: read once, changed here, written by `save`.
local jobs, changed, fresh = {}, {}, {}

function F.read_jobs(ids)
  local records = F.read_records(ids)
  for place, id in ipairs(ids) do
    if jobs[id] == nil then jobs[id] = records[place] and F.opened(id, records[place]) end
  end
end

function F.job_of(id)
  local job = jobs[id]
  if job == nil then
    local record = F.record_of(id)
    job = record and F.opened(id, record)
    jobs[id] = job
  end
  return job
end

function F.note(job)
  if not job.is_noted then
    job.is_noted = true
    changed[#changed + 1] = job
  end
end

function F.save()
  local records, bodies, ids = {}, {}, {}
  for _, job in ipairs(changed) do
    job.is_noted = false
    if not job.is_removed then
      records[#records + 1] = job.id
      records[#records + 1] = F.closed(job)
    end
  end
  for _, job in ipairs(fresh) do
    bodies[#bodies + 1] = job.id
    bodies[#bodies + 1] = job.body
    ids[#ids + 1] = '0'
    ids[#ids + 1] = job.id
  end
  F.each_part('HSET', RECORDS, records)
  F.each_part('HSET', BODIES, bodies)
  F.each_part('ZADD', IDS, ids)
  changed, fresh = {}, {}
  F.save_waiting()
  F.save_counts()
end

-- Sets or removes what few jobs have: r(eason), e(rror), p(rogress), n(ote), t(ags).
function F.set_extra(job, field, value)
  if value then
    F.put_own('HSET', NS .. 'x:' .. job.id, field, value)
    job.flags = F.with(job.flags, HAS_EXTRA)
  elseif F.has(job.flags, HAS_EXTRA) then
    F.put_own('HDEL', NS .. 'x:' .. job.id, field)
  end
end

-- The job that holds the key, if any does now.
function F.holder_of(key)
  local held = call('HGET', KEPT, key)
  if not held then return nil end
  local job = F.job_of(sub(held, 9))
  if not job or (F.is_finished(job) and unpacked('>i8', held) <= now) then return nil end
  return job
end

function F.release_key(job)
  if not F.has(job.flags, HAS_KEY) then return end
  local held = call('HGET', KEPT, job.key)
  if held and sub(held, 9) == job.id then call('HDEL', KEPT, job.key) end
end

-- Takes a waiting job out of the order of its queue.
function F.withdraw(job)
  if job.gate then return F.leave_line(job) end
  local common, key = F.facts(F.closed(job))
  F.note_room(common, key)
  if call('ZREM', NS .. 's:' .. job.queue, job.id) == 0 then
    local line = F.line_of(job.queue, job.task)
    call('ZREM', line, F.order_of(job) .. job.id)
    if call('EXISTS', line) == 0 then call('SREM', NS .. 't:' .. job.queue, job.task) end
    F.count(job.state == RETRY and 'R' or 'S', job.queue, -1)
  end
end

function F.note_finish(job)
  job.ends = now
  if job.state ~= DLQ then call('RPUSH', FINISHED, pack('>i8', now) .. job.id) end
  if job.state ~= SUCCESS then call('ZADD', REST, 0, job.id) end
end

-- Removes jobs that are not leased, with all that is kept beside them.
function F.forget(gone)
  local ids = {}
  for _, job in ipairs(gone) do
    local id = job.id
    if F.is_waiting(job) then F.withdraw(job) end
    F.count(job.state, job.queue, -1)
    F.release_key(job)
    if job.kind > 0 then F.forget_flow(job) end
    if F.has(job.flags, HAS_EXTRA) then call('DEL', NS .. 'x:' .. id) end
    if F.has(job.flags, HAS_HISTORY) then call('DEL', NS .. 'h:' .. id) end
    if F.has(job.flags, HAS_RESULT) then call('HDEL', RESULTS, id) end
    if F.is_finished(job) and job.state ~= SUCCESS then call('ZREM', REST, id) end
    jobs[id] = false
    ids[#ids + 1] = id
  end
  F.each_part('HDEL', RECORDS, ids)
  F.each_part('HDEL', BODIES, ids)
  F.each_part('ZREM', IDS, ids)
  F.save()
end
