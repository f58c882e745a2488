-- ARGV: instant, wake-up, worker, seq, 1 for a repeat and 2 if moves make work for others, plain successes in msgpack or empty, other moves in msgpack or
-- empty, the want in msgpack or empty, where the worker hears of it if the want shall stand, the seq of the
-- want that stood, then what they refer to.
-- `tick_plain` has only what plain successes and first claims need. All is read before anything is written.
-- Gives 'f', and has done nothing, if that is for a script that knows more: `tick_pass` of limits, `tick_flow` of
-- all that holds jobs back.
local worker, seq = ARGV[3], tonumber(ARGV[4])
local plain = ARGV[6] ~= '' and cmsgpack.unpack(ARGV[6])
local moves = ARGV[7] ~= '' and cmsgpack.unpack(ARGV[7])
local want = ARGV[8] ~= '' and cmsgpack.unpack(ARGV[8])
local ear, stood = ARGV[9], tonumber(ARGV[10])
local is_repeat, rings = F.has(ARGV[5], 1), F.has(ARGV[5], 2)

if not F.finish then
  if F.settle then
    if call('EXISTS', NS .. 'z:q') == 1 then return 'f' end
  elseif F.is_flowing() then
    return 'f'
  end
  for _, move in ipairs(moves or {}) do
    local job = F.job_of(move.job)
    if job and F.has(job.kind, IS_AWAITED) then return 'f' end
  end
end
-- A write that frees: after it those that grow are let through though memory is at its limit. Work that is
-- under way must be able to end.
call('DEL', KEYS[2])
local refused = {}
if plain then refused = F.succeed(worker, plain) end
if not refused then return 'f' end
local verdicts = {}
if moves then
  for place, move in ipairs(moves) do verdicts[place] = F.is_moved(worker, move) and 'a' or 'r' end
end
if F.save then F.save() end

local ends = F.life_of(worker)
local is_registered = ends and now < ends
local claimed, paused, next_due = {{}, {}, {}}, {}, nil
local is_late, is_kept, ids, since
if stood or (want and want.stands > 0) then is_late, is_kept, ids, since = F.end_want(worker, seq, stood) end
if ids then F.still_held(worker, {-stood}, ids, claimed) end
local handed, stands, paused_tasks = #claimed[1], false, false
if want then
  if F.settle then paused_tasks = F.paused_tasks(want.tasks) end
  local queues = {}
  local pauses = F.read_all(PAUSES, want.queues)
  for place, queue in ipairs(want.queues) do
    if pauses[place] == '1' then
      paused[#paused + 1] = queue
    else
      queues[#queues + 1] = queue
      local due = F.promote(queue)
      if due and (not next_due or due < next_due) then next_due = due end
    end
  end
  if is_repeat then F.claimed_before(worker, {seq, -seq}, claimed) end
  if is_registered and want.limit > 0 and not claimed[1][1] then
    local tasks = {}
    for _, task in ipairs(want.tasks) do tasks[task] = true end
    want.tasks = tasks
    F.claim(worker, seq, want, queues, claimed)
    stands = ear ~= '' and not is_late and not F.settle and #claimed[1] < want.limit
    if stands then F.stand(worker, seq, want.limit - #claimed[1], ear, ARGV[8], queues) end
  elseif is_kept then
    stands = ear ~= '' and not F.settle
  end
  if is_kept and not stands then call('HDEL', STANDING, worker) end
end
local is_untold
if F.settle then
  is_untold = F.save_open() or rings
  local opening = want and F.next_opening()
  if opening and (not next_due or opening < next_due) then next_due = opening end
end
F.save_counts()
local flows = 0
if F.settle and F.is_flowing() then flows = call('EXISTS', NS .. 'z:q') + 1 end

local asked = {}
local all = call('HGETALL', ASKED)
for place = 1, #all, 2 do
  local record = all[place + 1] == worker and call('HGET', RECORDS, all[place])
  if record then
    asked[#asked + 1] = all[place]
    asked[#asked + 1] = string.format('%.0f', unpacked('>I8', record, 2))
  end
end
if not F.settle or is_untold then F.ring(ARGV[2]) end
return {
  is_registered and 1 or 0, next_due and string.format('%.0f', next_due) or false, refused,
  table.concat(verdicts), asked, paused, claimed[1], claimed[2], claimed[3],
  handed, since and now - since or false, stands and 1 or 0,
  paused_tasks, is_untold and 1 or 0, flows,
}
