-- Plain successes, the way of most jobs: records are changed as strings, and each command serves them all.
-- Four values each: id, token, how long ago it started, place of the result among the arguments or 0.
-- Gives the places of those refused.

local function succeed(worker, values)
  local ids, leases, records, finished, stored = {}, {}, {}, {}, {}
  for at = 1, #values, 4 do ids[#ids + 1] = values[at] end
  local found = read_all(RECORDS, ids)
  local refused = {}
  local stamp = pack('>i8', now)
  for place, id in ipairs(ids) do
    local record = found[place]
    local state, token, version, run, ends, started, seq, flags
    local names
    if record then
      state, token, version, run, ends, started, seq, flags = unpacked(HEAD, record)
      names = unpacked('>I2', record, 83)
    end
    if record and token == values[4 * place - 2] and (state == CLAIMED or state == RUNNING)
      and sub(record, names + 1) == worker then
      local elapsed = values[4 * place - 1]
      if started == 0 and elapsed >= 0 then started = now - elapsed end
      local result = ARGV[values[4 * place]]
      if flags ~= 0 then
        if has(flags, CANCEL_ASKED) then call('HDEL', ASKED, id) end
        if has(flags, HAS_EXTRA) then call('HDEL', NS .. 'x:' .. id, 'r', 'e') end
        if has(flags, HAS_RESULT) and not result then call('HDEL', RESULTS, id) end
        flags = without(without(flags, SUSPECT), HAS_RESULT)
      end
      flags = flags + IS_TOLD
      if result then
        flags = flags + HAS_RESULT
        stored[#stored + 1] = id
        stored[#stored + 1] = result
      end
      leases[#leases + 1] = id
      records[#records + 1] = id
      records[#records + 1] = pack(HEAD, SUCCESS, token, version + 1, run, now, started, seq, flags)
        .. sub(record, 43, 58) .. '\0\0\0\0\0\0\0\0' .. sub(record, 67)
      finished[#finished + 1] = stamp .. id
      local queue = unpacked('>I2c0', record, 85)
      count(state, queue, -1)
      count(SUCCESS, queue, 1)
    elseif not record
      or not is_repeated(opened(id, record), worker, {outcome = 'success', token = values[4 * place - 2]}) then
      refused[#refused + 1] = place
    end
  end
  each_part('ZREM', LEASES, leases)
  each_part('HSET', RECORDS, records)
  each_part('HSET', RESULTS, stored)
  each_part('RPUSH', FINISHED, finished)
  return refused
end
