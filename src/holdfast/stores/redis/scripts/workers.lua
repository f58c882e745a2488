-- ARGV: instant, how long the dead are remembered.
local answer = F.forget_dead(tonumber(ARGV[2]))
for _, known in ipairs(answer) do known[1] = call('HGET', NS .. 'p', known[1]) end
return answer
