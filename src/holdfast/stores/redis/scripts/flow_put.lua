-- ARGV: instant, wake-up, the layout from now on, then for each limit its scope and name, 1 if it can make a job
-- wait, and its value.
local was_limited, changed, IS_PAUSED, IS_DECLARED = F.is_limited(), {}, 1, 2
call('DEL', KEYS[2])
call('SET', NS .. 'v', ARGV[3])
for at = 4, #ARGV, 3 do
  local field, value = ARGV[at], ARGV[at + 2]
  local known = call('HGET', F.table_of(field), field) or call('HGET', WEIGHTS, field)
  if not known or F.has(byte(known, 25), IS_DECLARED) or not F.has(byte(value, 25), IS_DECLARED) then
    local here, gone = F.table_of(field), WEIGHTS
    if ARGV[at + 1] ~= '1' then here, gone = gone, here end
    if F.table_of(field) == LIMITS and changed[field] == nil then
      changed[field] = call('HEXISTS', LIMITS, field) == 1
    end
    call('HDEL', gone, field)
    call('HSET', here, field, value)
    if F.has(byte(value, 25), IS_PAUSED) then
      call('HSETNX', NS .. 'zs', field, string.format('%.0f', now))
    else
      call('HDEL', NS .. 'zs', field)
    end
    F.reopen(field)
  end
end
F.save_holdings(was_limited, changed)
F.ring(ARGV[2])
return 1
