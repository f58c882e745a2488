-- A lock: owner, token, end of the lease, and the line: owners and ends of their places, first come first.
-- It is one value, which the server forgets a minute after its last end.
local KEEP = 60000

function F.lock_of(name)
  local stored = call('GET', NS .. 'o:' .. name)
  local lock = stored and cmsgpack.unpack(stored) or {'', 0, 0, {}}
  local line = {}
  for place = 1, #lock[4], 2 do
    if lock[4][place + 1] > now then
      line[#line + 1] = lock[4][place]
      line[#line + 1] = lock[4][place + 1]
    end
  end
  lock[4] = line
  return lock
end

function F.is_held(lock, owner, token) return lock[1] == owner and lock[2] == token and now < lock[3] end

function F.keep_lock(name, lock)
  local last = lock[3]
  for place = 2, #lock[4], 2 do last = math.max(last, lock[4][place]) end
  if last <= now then
    call('DEL', NS .. 'o:' .. name)
  else
    local left = math.ceil((last - now) / 1000) + KEEP
    call('SET', NS .. 'o:' .. name, cmsgpack.pack(lock), 'PX', string.format('%.0f', left))
  end
end

-- Takes the owner out of the line.
function F.leave(lock, owner)
  for place = 1, #lock[4], 2 do
    if lock[4][place] == owner then
      table.remove(lock[4], place)
      table.remove(lock[4], place)
      return
    end
  end
end
