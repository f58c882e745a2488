-- Plain successes, the way of most jobs: records are changed as strings, and each command serves them all.
-- Four values each: id, token, how long ago it started, place of the result among the arguments, 0 for none
-- or -1 for null.
-- Gives the places of those refused; nothing, and nothing is done, if others wait for one of them and this
-- script knows nothing of that.
local NO_FAILURES = '\0\0\0\0\0\0\0\0'

-- What of a job's head its success depends on, and how it begins and ends afterwards. Jobs that were claimed
-- together have the same, so it is found once.
function F.succeeded(head)
  local first, token, version, run, _, started, seq, flags = unpacked(HEAD, head)
  local state = first % 8
  local known = {state = state, token = token, flags = flags, kind = first - state, is_started = started ~= 0}
  known.is_leased = state == CLAIMED or state == RUNNING
  known.first = pack('>BI8I4I4i8', SUCCESS + known.kind, token, version + 1, run, now)
  known.started = sub(head, 26, 33)
  known.seq = sub(head, 34, 41)
  return known
end

-- Removes what goes with the old flags.
function F.clear(id, flags, has_result)
  if F.has(flags, CANCEL_ASKED) then call('HDEL', ASKED, id) end
  if F.has(flags, HAS_EXTRA) then F.put_own('HDEL', NS .. 'x:' .. id, 'r', 'e') end
  if F.has(flags, HAS_RESULT) and not has_result then call('HDEL', RESULTS, id) end
end

function F.succeed(worker, values)
  local ids, leases, records, finished, stored = {}, {}, {}, {}, {}
  local late, flagged, before = {}, {}, {}
  local total, done, kept = 0, 0, 0
  for at = 1, #values, 4 do
    total = total + 1
    ids[total] = values[at]
  end
  local found, heads, refused = F.read_records(ids), {}, {}
  local stamp = pack('>i8', now)
  for place = 1, total do
    local id, record, token = ids[place], found[place], values[4 * place - 2]
    local known
    if record then
      local head = sub(record, 1, 42)
      known = heads[head]
      if not known then
        known = F.succeeded(head)
        heads[head] = known
      end
    end
    local is_current = known and known.is_leased and known.token == token
    if is_current and sub(record, F.names_end(record) + 1) == worker then
      local elapsed, result = values[4 * place - 1], ARGV[values[4 * place]]
      local started, flags = known.started, known.flags
      if not known.is_started and elapsed >= 0 then started = pack('>i8', now - elapsed) end
      if known.kind >= IS_AWAITED and not F.finish then return nil end
      if flags ~= 0 then
        flagged[#flagged + 1] = {id, flags, result}
        flags = F.without(F.without(flags, SUSPECT), HAS_RESULT)
      end
      if result then
        flags = flags + HAS_RESULT
        stored[kept + 1], stored[kept + 2] = id, result
        kept = kept + 2
      elseif values[4 * place] < 0 then
        flags = flags + IS_NULL
      end
      local rest = sub(record, 43)
      if sub(record, 59, 66) ~= NO_FAILURES then
        rest = sub(record, 43, 58) .. NO_FAILURES .. sub(record, 67)
      end
      done = done + 1
      leases[done] = id
      before[done] = record
      records[2 * done - 1] = id
      records[2 * done] = known.first .. started .. known.seq .. string.char(flags + IS_TOLD) .. rest
      finished[done] = stamp .. id
      local queue = F.queue_of(record)
      F.count(known.state, queue, -1)
      F.count(SUCCESS, queue, 1)
    else
      late[#late + 1] = place
    end
  end
  for _, each in ipairs(flagged) do F.clear(unpack(each, 1, 3)) end
  for _, place in ipairs(late) do
    local id, record = ids[place], found[place]
    local move = {outcome = 'success', token = values[4 * place - 2]}
    if not record or not F.is_repeated(F.opened(id, record), worker, move) then refused[#refused + 1] = place end
  end
  F.each_part('ZREM', LEASES, leases)
  F.each_part('HSET', RECORDS, records)
  F.each_part('HSET', RESULTS, stored)
  F.each_part('RPUSH', FINISHED, finished)
  if F.settle then F.settle(leases, before) end
  return refused
end
