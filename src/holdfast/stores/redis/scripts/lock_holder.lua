-- ARGV: instant, name.
local lock = F.lock_of(ARGV[2])
if lock[3] <= now then return false end
return {lock[1], string.format('%.0f', lock[2]), string.format('%.0f', lock[3] - now)}
