-- ARGV: instant, who tells or empty, name, owner, token or empty. Gives whose turn it is thereby.
local name, owner, token = ARGV[3], ARGV[4], tonumber(ARGV[5])
local lock = F.lock_of(name)
if token and (lock[1] ~= owner or lock[2] ~= token) then return false end
call('DEL', KEYS[2])
if not token then F.leave(lock, owner) end
if lock[1] == owner then lock[3] = 0 end
F.keep_lock(name, lock)
local turn = lock[3] <= now and lock[4][1]
if turn and ARGV[2] ~= '' then call('PUBLISH', NS .. 'turn', ARGV[2] .. ' ' .. turn) end
return turn
