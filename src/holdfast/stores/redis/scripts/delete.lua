-- ARGV: instant, id.
local job = job_of(ARGV[2])
if not job then return 1 end
if is_leased(job) then return 0 end
forget({job})
return 1
