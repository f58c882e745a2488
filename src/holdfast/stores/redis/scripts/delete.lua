-- ARGV: instant, id, wake-up.
local job = F.job_of(ARGV[2])
if not job then return 1 end
if F.is_leased(job) then return 0 end
F.forget({job})
if F.save_open() then F.ring(ARGV[3]) end
return 1
