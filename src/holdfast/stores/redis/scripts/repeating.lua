-- What was claimed for the worker with one of these seqs, and is still held. Those that were handed over have a
-- negative one.
function F.still_held(worker, seqs, ids, answer)
  local its = {}
  for _, seq in ipairs(seqs) do its[pack('>i8', seq)] = true end
  for place, record in ipairs(F.read_records(ids)) do
    local is_its = record and its[sub(record, 34, 41)] and sub(record, F.names_end(record) + 1) == worker
    local code = is_its and byte(record) % 8
    if code == CLAIMED or code == RUNNING then
      local id = ids[place]
      local all = F.told(record, call('HGET', BODIES, id), id)
      answer[1][#answer[1] + 1] = record
      answer[2][#answer[2] + 1] = all[2]
      answer[3][#answer[3] + 1] = {#answer[1] - 1, all[3], all[4], id}
    end
  end
end

function F.claimed_before(worker, seqs, answer)
  F.still_held(worker, seqs, call('ZRANGE', LEASES, 0, -1), answer)
end
