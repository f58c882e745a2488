-- ARGV: instant, wake-up, the layout that it needs, then for each limit its scope and name, 1 if it can make a job
-- wait, and its value.
local was_limited, changed, IS_DECLARED = F.is_limited(), {}, 2
call('DEL', KEYS[2])
F.raise_layout(ARGV[3])
for at = 4, #ARGV, 3 do
  local field, value = ARGV[at], ARGV[at + 2]
  local known = call('HGET', F.table_of(field), field) or call('HGET', WEIGHTS, field)
  if not known or F.has(byte(known, 25), IS_DECLARED) or not F.has(byte(value, 25), IS_DECLARED) then
    F.place_limit(field, value, ARGV[at + 1] == '1', changed)
  end
end
F.save_holdings(was_limited, changed)
F.ring(ARGV[2])
return 1
