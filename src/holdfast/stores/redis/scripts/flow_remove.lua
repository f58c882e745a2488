-- ARGV: instant, wake-up, scope and name.
local was_limited, field = F.is_limited(), ARGV[3]
if call('HDEL', F.table_of(field), field) + call('HDEL', WEIGHTS, field) > 0 then
  F.reopen(field)
  F.save_holdings(was_limited)
end
F.ring(ARGV[2])
return 1
