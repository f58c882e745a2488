-- Who holds jobs of each gate, taken from the leases: noted while there are limits.
function F.each_holding(act)
  local ids, all = call('ZRANGEBYSCORE', LEASES, '-inf', '(+inf'), {}
  local function add(gate, id)
    all[gate] = all[gate] or {}
    table.insert(all[gate], id)
  end
  for place, record in ipairs(F.read_all(RECORDS, ids)) do
    if record then
      local queue, task, _, at = unpacked(NAMES, record, 85)
      add('queue:' .. queue, ids[place])
      add('task:' .. task, ids[place])
      if F.has(byte(record), HAS_FLOW) then
        local _, bits, _, _, _, _, limit_key = unpacked(FLOW, record, at)
        if F.has(bits, LIMITED) then add('key:' .. limit_key, ids[place]) end
      end
    end
  end
  for gate, its in pairs(all) do act(gate, its) end
end

-- After a change of limits.
function F.save_holdings(was_limited)
  local has_limits = call('EXISTS', LIMITS, KEY_LIMITS) > 0
  if has_limits and not was_limited then
    F.each_holding(function(gate, ids) F.each_part('SADD', HOLDERS .. gate, ids) end)
  elseif was_limited and not has_limits then
    F.each_holding(function(gate) call('DEL', HOLDERS .. gate) end)
  end
end

-- What is parked at the gates of a limit is looked at again, by ticks, in parts.
function F.reopen(field)
  if sub(field, 1, 9) == 'each_key:' then
    call('SET', CURSOR, 'key9') -- just before the first of them
  elseif call('ZSCORE', GATES, field) then
    call('SADD', OPEN, field)
  end
end

function F.table_of(field) return sub(field, 1, 4) == 'key:' and KEY_LIMITS or LIMITS end
