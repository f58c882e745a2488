-- ARGV: instant, then for each lock: name, owner, token, ttl.
call('DEL', KEYS[2])
local answers = {}
for at = 2, #ARGV, 4 do
  local lock = F.lock_of(ARGV[at])
  if F.is_held(lock, ARGV[at + 1], tonumber(ARGV[at + 2])) then
    lock[3] = math.max(lock[3], now + ARGV[at + 3])
    F.keep_lock(ARGV[at], lock)
    answers[#answers + 1] = 1
  else
    answers[#answers + 1] = 0
  end
end
return answers
