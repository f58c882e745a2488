-- Forgets workers that have been dead for long; all others with the times known of them.
function F.forget_dead(after)
  local left = {}
  local all = call('HGETALL', NS .. 'u')
  for place = 1, #all, 2 do
    local ends = F.life_of(all[place])
    if ends and now - ends < after then
      left[#left + 1] = {all[place], all[place + 1], now < ends and 1 or 0}
    else
      call('HDEL', NS .. 'u', all[place])
      call('HDEL', NS .. 'p', all[place])
      call('HDEL', NS .. 'y', all[place])
      call('HDEL', NS .. 'ur', all[place])
    end
  end
  return left
end
