-- Leases that end. Where nobody waits for a job, that is all that its end means to others.

-- A command on who holds jobs of queues and tasks, with jobs by what they have in common.
function F.each_common(ids_of, command)
  for common, ids in pairs(ids_of) do
    for _, gate in ipairs({common.queue_gate, common.task_gate}) do
      if F.common_limit(gate) then F.each_part(command, HOLDERS .. gate, ids) end
    end
  end
end

-- Jobs are held no longer: the records as they were before. Gives the ids of those that are in a sequence.
function F.end_holdings(ids, records)
  local gone, sequenced, has_limits = {}, {}, F.is_limited()
  for place, id in ipairs(ids) do
    local common, key, sequence = F.facts(records[place])
    F.note_room(common, key)
    if key and has_limits then call('SREM', F.gate_of(key).holders, id) end
    if sequence then
      sequenced[id] = true
      if call('HGET', BUSY, sequence) == id then call('HDEL', BUSY, sequence) end
    end
    local its = gone[common]
    if not its then
      its = {}
      gone[common] = its
    end
    its[#its + 1] = id
  end
  if has_limits then F.each_common(gone, 'SREM') end
  return sequenced
end

F.settle = F.end_holdings
