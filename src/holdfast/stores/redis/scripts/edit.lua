-- ARGV: instant, wake-up, the edit in msgpack, with the job's id, its version, and the states that fit.
local edit = cmsgpack.unpack(ARGV[3])
local job = F.job_of(edit.job)
if not job or job.version ~= edit.version then return false end

if edit.ask_cancel then
  if not F.is_leased(job) then return false end
  job.flags, job.version = F.with(job.flags, CANCEL_ASKED), job.version + 1
  call('HSET', ASKED, job.id, job.worker)
  F.note(job)
  F.save()
  F.ring(ARGV[2])
  return F.told_by_id(job.id)
end

if not string.find(edit.from, job.state, 1, true) then return false end
local target = edit.to or job.state
local was_finished, was_waiting = F.is_finished(job), F.is_waiting(job)
local is_replayed = was_finished and (target == SCHEDULED or target == RETRY)
local key = edit.key or (is_replayed and F.has(job.flags, HAS_KEY) and job.key)
local holder = key and F.holder_of(key)
if holder and holder ~= job then return holder.id end

if edit.key then
  F.release_key(job)
  call('HSET', KEPT, key, pack('>i8', now + edit.key_ttl) .. job.id)
  job.key, job.flags = key, F.with(job.flags, HAS_KEY)
elseif key and not holder then
  call('HSET', KEPT, key, pack('>i8', 0) .. job.id)
end
if was_waiting then F.withdraw(job) end
F.count(job.state, job.queue, -1)
if edit.queue then job.queue = edit.queue end
if edit.priority then job.place = F.sortable(edit.priority) .. sub(job.place, 9) end
if edit.due then
  job.place = sub(job.place, 1, 8) .. F.sortable(edit.due)
elseif edit.delay then
  job.place = sub(job.place, 1, 8) .. F.sortable(now + edit.delay)
end
if edit.tags then F.set_extra(job, 't', edit.tags) end
if edit.failures then job.failures = edit.failures end
if edit.lost then job.lost = edit.lost end
if edit.suspect ~= nil then
  job.flags = edit.suspect and F.with(job.flags, SUSPECT) or F.without(job.flags, SUSPECT)
end
if edit.reason then F.set_extra(job, 'r', edit.reason) end
job.state, job.version = target, job.version + 1
F.count(target, job.queue, 1)
if is_replayed then
  call('ZREM', REST, job.id)
  job.ends, job.flags = 0, F.without(job.flags, CANCEL_ASKED)
  F.begin_again(job)
  if F.has(job.flags, HAS_RESULT) then
    call('HDEL', RESULTS, job.id)
    job.flags = F.without(job.flags, HAS_RESULT)
  end
elseif F.is_finished(job) and not was_finished then
  F.note_finish(job)
  F.finish(job)
end
if F.is_waiting(job) then F.wait(job) end
F.note(job)
F.save()
F.save_open()
F.ring(ARGV[2])
return F.told_by_id(job.id)
