-- ARGV: instant, wake-up, jobs in msgpack, for `append` with events, then what they refer to.
local values = cmsgpack.unpack(ARGV[3])
F.read_jobs(values.ids)
local stood = {}
for turn = 1, #values.ids do
  local found = F.add(values.jobs, (turn - 1) * NEW + 1)
  if found then
    stood[#stood + 1] = {turn, found.id}
  elseif values.jobs[turn * NEW] then -- made, and not just as it was given
    stood[#stood + 1] = {-turn, values.ids[turn]}
  end
end
if values.events then F.append(values.events) end
if F.hand_out then F.hand_out() end
F.save()
if F.tell then F.tell() end
local answer = {string.format('%.0f', now), F.is_untold() and 1 or 0}
for _, found in ipairs(stood) do
  answer[#answer + 1] = {found[1], F.told_by_id(found[2])}
end
if answer[2] == 1 then F.ring(ARGV[2]) end
return answer
