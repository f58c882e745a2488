-- ARGV: instant, age, limit, how many to look at, wake-up. Gives how many were removed, 1 if there may be more,
-- and 1 if there is work for others. An entry of a job that was deleted or replayed since then counts for nothing.
local before, most = now - ARGV[2], math.min(tonumber(ARGV[3]), tonumber(ARGV[4]))
local entries = call('LRANGE', FINISHED, 0, most - 1)
local ids, gone = {}, {}
for place, entry in ipairs(entries) do
  if #entry >= 8 and unpacked('>i8', entry) >= before then break end
  ids[place] = sub(entry, 9) -- of what somebody has put there nothing is left, and no job is called so
end
F.read_jobs(ids)
for place, id in ipairs(ids) do
  local job = jobs[id]
  if job and F.is_finished(job) and job.state ~= DLQ and job.ends == unpacked('>i8', entries[place])
    and not job.is_gone then
    job.is_gone = true
    gone[#gone + 1] = job
  end
end
if ids[1] then call('LTRIM', FINISHED, #ids, -1) end
F.forget(gone)
local is_untold = F.save_open()
if is_untold then F.ring(ARGV[5]) end
return {#gone, #ids == most and 1 or 0, is_untold and 1 or 0}
