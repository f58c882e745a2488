-- What the worker has claimed, or was claimed for it, with one of these seqs and is still held. Those that
-- were handed have a negative one.
function F.claimed_before(worker, seqs, answer)
  local its = {}
  for _, seq in ipairs(seqs) do its[pack('>i8', seq)] = true end
  local ids = call('ZRANGE', LEASES, 0, -1)
  for place, record in ipairs(F.read_all(RECORDS, ids)) do
    if record and its[sub(record, 34, 41)] and sub(record, F.names_end(record) + 1) == worker then
      local id = ids[place]
      local all = F.told(record, call('HGET', BODIES, id), id)
      answer[1][#answer[1] + 1] = record
      answer[2][#answer[2] + 1] = all[2]
      answer[3][#answer[3] + 1] = {#answer[1] - 1, all[3], all[4], id}
    end
  end
end
