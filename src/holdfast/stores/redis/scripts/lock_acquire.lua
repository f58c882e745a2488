-- ARGV: instant, name, owner, ttl, place. Gives the token, or nothing and after which time to ask again.
local name, owner, ttl, place = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local lock = F.lock_of(name)
call('DEL', KEYS[2]) -- granted though memory is at its limit: work under way may need it
F.sweep_locks()
if lock[1] == owner and now < lock[3] then
  lock[3] = math.max(lock[3], now + ttl)
  F.keep_lock(name, lock)
  return {string.format('%.0f', lock[2]), '0'}
end
local line, last, at = lock[4], math.max(lock[3], now), nil
for turn = 1, #line, 2 do
  if line[turn] == owner then
    at = turn
    break
  end
  last = math.max(last, line[turn + 1])
end
if lock[3] <= now and (at == 1 or not line[1]) then
  F.leave(lock, owner)
  local token = math.max((F.kept_number(NS .. 'g') or 0) + 1, now)
  call('SET', NS .. 'g', string.format('%.0f', token))
  lock[1], lock[2], lock[3] = owner, token, now + ttl
  F.keep_lock(name, lock)
  return {string.format('%.0f', token), '0'}
end
if place > 0 then
  at = at or #line + 1
  line[at], line[at + 1] = owner, now + place
  F.keep_lock(name, lock)
end
return {false, string.format('%.0f', last - now)}
