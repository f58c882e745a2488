-- ARGV: instant, then gates. How many jobs are leased, and how many parked, at each.
local answer, counted = {}, {}
if not F.is_limited() then F.each_holding(function(gate, ids) counted[gate] = #ids end) end
for place = 2, #ARGV do
  local gate = ARGV[place]
  local running, parked = counted[gate] or call('SCARD', HOLDERS .. gate), 0
  if sub(gate, 1, #IN_SEQUENCE) == IN_SEQUENCE then
    running = call('HEXISTS', BUSY, sub(gate, #IN_SEQUENCE + 1))
  end
  for _, each in ipairs(call('SMEMBERS', PLACES .. gate)) do
    parked = parked + call('ZCARD', F.parked_line(gate, each))
  end
  answer[#answer + 1] = running
  answer[#answer + 1] = parked
end
return answer
