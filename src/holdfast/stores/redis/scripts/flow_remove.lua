-- ARGV: instant, wake-up, scope and name.
local was_limited, changed = F.is_limited(), {}
if F.place_limit(ARGV[3], false, false, changed) then F.save_holdings(was_limited, changed) end
F.ring(ARGV[2])
return 1
