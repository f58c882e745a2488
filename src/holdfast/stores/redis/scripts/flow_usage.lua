-- ARGV: instant, then gates. How many jobs are leased, and how many parked, at each.
local answer, counted = {}, nil
for place = 2, #ARGV do
  local gate = ARGV[place]
  local running, parked = 0, 0
  if sub(gate, 1, #IN_SEQUENCE) == IN_SEQUENCE then
    running = call('HEXISTS', BUSY, sub(gate, #IN_SEQUENCE + 1))
  elseif F.is_counted(gate) then
    running = call('SCARD', HOLDERS .. gate)
  else
    if not counted then
      counted = {}
      F.each_holding(function(each, ids) counted[each] = #ids end)
    end
    running = counted[gate] or 0
  end
  for _, each in ipairs(call('SMEMBERS', PLACES .. gate)) do
    parked = parked + call('ZCARD', F.parked_line(gate, each))
  end
  answer[#answer + 1] = running
  answer[#answer + 1] = parked
end
return answer
