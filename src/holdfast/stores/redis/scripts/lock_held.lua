-- ARGV: instant, name to begin behind, most. The locks that are held, by name.
local PAGE, most, from, answer = 200, tonumber(ARGV[3]), ARGV[2] == '' and '-' or '(' .. ARGV[2], {}
while #answer < most do
  local names = call('ZRANGEBYLEX', LOCKS, from, '+', 'LIMIT', 0, PAGE)
  for _, name in ipairs(names) do
    local lock = F.lock_of(name)
    if now < lock[3] and #answer < most then
      answer[#answer + 1] = {
        name, lock[1], string.format('%.0f', lock[2]), string.format('%.0f', lock[3] - now), #lock[4] / 2,
      }
    end
  end
  if #names < PAGE then break end
  from = '(' .. names[PAGE]
end
return answer
