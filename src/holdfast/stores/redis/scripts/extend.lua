-- ARGV: instant, worker, wishes in msgpack: job, token, lease, elapsed, progress, note.
local worker = ARGV[2]
local wishes = cmsgpack.unpack(ARGV[3])
local ids, answers, leases = {}, {}, {}
for place, wish in ipairs(wishes) do ids[place] = wish.job end
F.read_jobs(ids)
call('DEL', KEYS[2])
for place, wish in ipairs(wishes) do
  local job = jobs[wish.job]
  local is_held = job and F.is_leased(job) and job.token == wish.token and job.worker == worker
  if not is_held or job.ends <= now then
    answers[place] = 'l'
  else
    job.ends = math.max(job.ends, now + wish.lease)
    leases[#leases + 1] = string.format('%.0f', job.ends)
    leases[#leases + 1] = job.id
    if wish.elapsed and job.state == CLAIMED then
      F.count(CLAIMED, job.queue, -1)
      F.count(RUNNING, job.queue, 1)
      job.state, job.started = RUNNING, now - wish.elapsed
    end
    if wish.progress or wish.note then
      F.set_extra(job, 'p', wish.progress)
      F.set_extra(job, 'n', wish.note)
    end
    F.note(job)
    answers[place] = F.has(job.flags, CANCEL_ASKED) and 'c' or 'h'
  end
end
F.each_part('ZADD', LEASES, leases)
F.save()
return table.concat(answers)
