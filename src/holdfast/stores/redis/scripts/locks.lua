-- A lock: owner, token, end of the lease, and the line: owners and ends of their places, first come first.
-- It is one value, which the server forgets a minute after its last end. Beside it stand the names in their order, and
-- by their last ends, so that those can be found and swept away whose values are forgotten.
local KEEP = 60000
local LOCKS, ENDS_OF_LOCKS = NS .. 'on', NS .. 'oe'

-- What somebody has overwritten is held by nobody: whoever held it cannot show that.
function F.unpacked_lock(stored)
  if not stored then return nil end
  local is_whole, lock = pcall(cmsgpack.unpack, stored)
  if not is_whole or type(lock) ~= 'table' or type(lock[4]) ~= 'table' then return nil end
  return type(lock[1]) == 'string' and type(lock[2]) == 'number' and type(lock[3]) == 'number' and lock
end

function F.lock_of(name)
  local stored = F.own('GET', NS .. 'o:' .. name)
  local lock = F.unpacked_lock(stored) or {'', 0, 0, {}}
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

function F.unlist_lock(name)
  call('ZREM', LOCKS, name)
  call('ZREM', ENDS_OF_LOCKS, name)
end

-- Takes out of the list what has ended, a little at a time.
function F.sweep_locks()
  for _, name in ipairs(call('ZRANGEBYSCORE', ENDS_OF_LOCKS, '-inf', now, 'LIMIT', 0, 2)) do F.unlist_lock(name) end
end

function F.keep_lock(name, lock)
  local last = lock[3]
  for place = 2, #lock[4], 2 do last = math.max(last, lock[4][place]) end
  if last <= now then
    call('DEL', NS .. 'o:' .. name)
    F.unlist_lock(name)
  else
    call('ZADD', LOCKS, 0, name)
    call('ZADD', ENDS_OF_LOCKS, string.format('%.0f', last), name)
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
