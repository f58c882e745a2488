-- ARGV: instant, how long the dead are remembered.
local answer = F.forget_dead(tonumber(ARGV[2]))
for _, known in ipairs(answer) do
  known[4] = call('HGET', NS .. 'ur', known[1])
  known[1] = call('HGET', NS .. 'p', known[1])
end
return answer
