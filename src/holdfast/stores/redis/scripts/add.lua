-- ARGV: instant, wake-up, jobs in msgpack, for `append` with events, then what they refer to.
local values = cmsgpack.unpack(ARGV[3])
F.read_jobs(values.ids)
local stood = {}
for turn = 1, #values.ids do
  local found = F.add(values.jobs, (turn - 1) * NEW + 1)
  if found then stood[#stood + 1] = {turn, found.id} end
end
if values.events then F.append(values.events) end
F.hand_out()
F.save()
F.tell()
local answer = {string.format('%.0f', now), F.is_untold() and 1 or 0}
for _, found in ipairs(stood) do
  answer[#answer + 1] = {found[1], F.told_by_id(found[2])}
end
if answer[2] == 1 then F.ring(ARGV[2]) end
return answer
