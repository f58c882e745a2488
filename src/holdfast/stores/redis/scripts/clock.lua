-- What the tokens of this call are at least. They keep growing even if the server that took over has a clock
-- that is behind.
local clock

function F.clock()
  if not clock then
    clock = math.max(now, F.kept_number(NS .. 'n') or 0)
    call('SET', NS .. 'n', string.format('%.0f', clock))
  end
  return clock
end
