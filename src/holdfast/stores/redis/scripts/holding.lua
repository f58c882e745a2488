-- Who holds jobs of each gate, by the leases.
function F.each_holding(act)
  local ids, all = call('ZRANGEBYSCORE', LEASES, '-inf', '(+inf'), {}
  local function add(gate, id)
    all[gate] = all[gate] or {}
    table.insert(all[gate], id)
  end
  for place, record in ipairs(F.read_records(ids)) do
    if record then
      local common, key = F.facts(record)
      add(common.queue_gate, ids[place])
      add(common.task_gate, ids[place])
      if key then add('key:' .. key, ids[place]) end
    end
  end
  for gate, its in pairs(all) do act(gate, its) end
end

-- Whether it is known who holds jobs of the gate: of keys while there are limits, else if it has one.
function F.is_counted(gate)
  if sub(gate, 1, 4) == 'key:' then return F.is_limited() end
  return F.common_limit(gate) ~= false
end

-- After a change of limits: who is counted now, and was not before, is taken from the leases.
function F.save_holdings(was_limited, changed)
  local counts_keys = call('EXISTS', LIMITS, KEY_LIMITS) > 0
  local is_changed = counts_keys ~= was_limited
  for gate, was_counted in pairs(changed) do
    local is_counted = call('HEXISTS', LIMITS, gate) == 1
    if was_counted and not is_counted then call('DEL', HOLDERS .. gate) end
    changed[gate] = is_counted and not was_counted
    is_changed = is_changed or changed[gate]
  end
  if not is_changed then return end
  F.each_holding(function(gate, ids)
    if sub(gate, 1, 4) ~= 'key:' then
      if changed[gate] then F.each_part('SADD', HOLDERS .. gate, ids) end
    elseif counts_keys and not was_limited then
      F.each_part('SADD', HOLDERS .. gate, ids)
    elseif was_limited and not counts_keys then
      call('DEL', HOLDERS .. gate)
    end
  end)
end

-- What is parked at the gates of a limit is looked at again, by ticks, in parts.
function F.reopen(field)
  if sub(field, 1, 9) == 'each_key:' then
    call('SET', CURSOR, 'key9') -- just before the first of them
  elseif call('ZSCORE', GATES, field) then
    call('SADD', OPEN, field)
  end
end

-- Puts the value of a limit where it belongs, or takes it away if it is false; whether anything is there now, or was.
-- `changed` is told whether its gate was counted before.
function F.place_limit(field, value, holds, changed)
  local IS_PAUSED = 1
  local its = F.table_of(field)
  if its == LIMITS and changed[field] == nil then changed[field] = call('HEXISTS', LIMITS, field) == 1 end
  local known = call('HDEL', its, field) + call('HDEL', WEIGHTS, field) > 0
  if value then call('HSET', holds and its or WEIGHTS, field, value) end
  if value and F.has(byte(value, 25), IS_PAUSED) then
    call('HSETNX', NS .. 'zs', field, string.format('%.0f', now))
  else
    call('HDEL', NS .. 'zs', field)
  end
  if known or value then F.reopen(field) end
  return known or value
end

function F.table_of(field) return sub(field, 1, 4) == 'key:' and KEY_LIMITS or LIMITS end
