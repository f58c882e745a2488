-- What this tick of the worker has claimed before, and still holds.
function F.claimed_before(worker, seq, answer)
  local ids = call('ZRANGE', LEASES, 0, -1)
  for place, record in ipairs(F.read_all(RECORDS, ids)) do
    local job = record and F.opened(ids[place], record)
    if job and job.worker == worker and job.seq == seq then
      local all = F.told(record, call('HGET', BODIES, job.id), job.id)
      answer[1][#answer[1] + 1] = record
      answer[2][#answer[2] + 1] = all[2]
      if all[3] or all[4] then answer[3][#answer[3] + 1] = {#answer[1] - 1, all[3], all[4]} end
    end
  end
end
