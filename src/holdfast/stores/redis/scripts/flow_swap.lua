-- ARGV: instant, wake-up, the layout that it needs, scope and name, the value that must stand there or nothing, then 1 if
-- the new limit can make a job wait, and its value, or nothing and nothing.
local field, value = ARGV[4], ARGV[7]
local known = call('HGET', F.table_of(field), field) or call('HGET', WEIGHTS, field) or ''
if known == value then return 1 end
if known ~= ARGV[5] then return 0 end
local was_limited, changed = F.is_limited(), {}
call('DEL', KEYS[2])
F.raise_layout(ARGV[3])
F.place_limit(field, value ~= '' and value, ARGV[6] == '1', changed)
F.save_holdings(was_limited, changed)
F.ring(ARGV[2])
return 1
