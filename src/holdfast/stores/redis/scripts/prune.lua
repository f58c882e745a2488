-- ARGV: instant, age, limit. An entry of a job that was deleted or replayed since then counts for nothing.
local before, limit = now - ARGV[2], tonumber(ARGV[3])
local removed = 0
while removed < limit do
  local entries = call('LRANGE', FINISHED, 0, limit - removed - 1)
  local ids, gone, passed = {}, {}, 0
  for place, entry in ipairs(entries) do
    if unpacked('>i8', entry) >= before then break end
    passed = place
    ids[place] = sub(entry, 9)
  end
  if passed == 0 then break end
  F.read_jobs(ids)
  for place, id in ipairs(ids) do
    local job = jobs[id]
    if job and F.is_finished(job) and job.state ~= DLQ and job.ends == unpacked('>i8', entries[place])
      and not job.is_gone then
      job.is_gone = true
      gone[#gone + 1] = job
    end
  end
  call('LTRIM', FINISHED, passed, -1)
  F.forget(gone)
  removed = removed + #gone
end
return removed
