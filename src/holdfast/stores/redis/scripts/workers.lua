-- ARGV: instant, how long the dead are remembered.
local answer = {}
local all = call('HGETALL', NS .. 'u')
for place = 1, #all, 2 do
  local _, _, ends = unpacked('>i8i8i8', all[place + 1])
  if now - ends < tonumber(ARGV[2]) then
    answer[#answer + 1] = {call('HGET', NS .. 'p', all[place]), all[place + 1], now < ends and 1 or 0}
  else
    call('HDEL', NS .. 'u', all[place])
    call('HDEL', NS .. 'p', all[place])
  end
end
return answer
