-- ARGV: instant, wake-up, id.
local job = F.job_of(ARGV[3])
if not job then return 0 end
local its = F.flow_of(job)
if its and F.has(its.bits, HELD) then
  call('DEL', KEYS[2])
  its.bits = F.without(its.bits, HELD)
  F.set_flow(job, its)
  call('SREM', HELDS, job.id)
  F.note(job)
  if job.gate == AFTER and not F.holds(job) then F.unpark(job) end
  F.save()
  F.ring(ARGV[2])
end
return 1
