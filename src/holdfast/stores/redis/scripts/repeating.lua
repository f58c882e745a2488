-- What this tick of the worker has claimed before, and still holds.
function F.claimed_before(worker, seq, answer)
  local ids, its_seq = call('ZRANGE', LEASES, 0, -1), pack('>i8', seq)
  for place, record in ipairs(F.read_all(RECORDS, ids)) do
    if record and sub(record, 34, 41) == its_seq and sub(record, F.names_end(record) + 1) == worker then
      local id = ids[place]
      local all = F.told(record, call('HGET', BODIES, id), id)
      answer[1][#answer[1] + 1] = record
      answer[2][#answer[2] + 1] = all[2]
      answer[3][#answer[3] + 1] = {#answer[1] - 1, all[3], all[4], id}
    end
  end
end
