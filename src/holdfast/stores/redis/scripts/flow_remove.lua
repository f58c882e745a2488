-- ARGV: instant, wake-up, scope and name.
local was_limited, field, changed = F.is_limited(), ARGV[3], {}
if F.table_of(field) == LIMITS then changed[field] = call('HEXISTS', LIMITS, field) == 1 end
if call('HDEL', F.table_of(field), field) + call('HDEL', WEIGHTS, field) > 0 then
  call('HDEL', NS .. 'zs', field)
  F.reopen(field)
  F.save_holdings(was_limited, changed)
end
F.ring(ARGV[2])
return 1
