-- ARGV: instant, worker, wishes in msgpack: job, token, lease, elapsed, progress, note.
local worker = ARGV[2]
local wishes = cmsgpack.unpack(ARGV[3])
local ids, answers, leases = {}, {}, {}
for place, wish in ipairs(wishes) do ids[place] = wish.job end
read_jobs(ids)
call('DEL', KEYS[2])
for place, wish in ipairs(wishes) do
  local job = jobs[wish.job]
  if not job or not is_leased(job) or job.token ~= wish.token or job.worker ~= worker or job.ends <= now then
    answers[place] = 'l'
  else
    job.ends = math.max(job.ends, now + wish.lease)
    leases[#leases + 1] = string.format('%.0f', job.ends)
    leases[#leases + 1] = job.id
    if wish.elapsed and job.state == CLAIMED then
      count(CLAIMED, job.queue, -1)
      count(RUNNING, job.queue, 1)
      job.state, job.started = RUNNING, now - wish.elapsed
    end
    if wish.progress or wish.note then
      set_extra(job, 'p', wish.progress)
      set_extra(job, 'n', wish.note)
    end
    note(job)
    answers[place] = has(job.flags, CANCEL_ASKED) and 'c' or 'h'
  end
end
each_part('ZADD', LEASES, leases)
save()
return table.concat(answers)
