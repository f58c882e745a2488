-- Wants that stand: those of idle workers, kept until the worker ticks again. One entry for each worker: seq,
-- since when, how many more, the channel on which its session is told, and the want itself. Once something was
-- claimed for it, it stands no longer: the seq negative, since when, and the ids.
-- Beside it each queue has a line of workers, the longest idle first. A line may have workers whose want is
-- gone; those who find one take it out.
local STANDING, IDLE = NS .. 'y', NS .. 'y:'
local STALE = 3600000000 -- nobody who is idle is silent for so long

function F.stand(worker, seq, left, ear, want, queues)
  call('HSET', STANDING, worker, pack('>i8i8I4I2c0', seq, now, left, #ear, ear) .. want)
  for _, queue in ipairs(queues) do
    call('ZREMRANGEBYSCORE', IDLE .. queue, '-inf', string.format('%.0f', now - STALE))
    call('ZADD', IDLE .. queue, string.format('%.0f', now), worker)
    call('PEXPIRE', IDLE .. queue, STALE / 1000)
  end
end

-- Ends what stands of the worker, before a tick of this seq. Whether a later tick has come before, and whether
-- its own want stands, since it is a repeat; if the want that stood is fulfilled, also the ids of its jobs, and
-- since when they are held.
function F.end_want(worker, seq, stood)
  local kept = call('HGET', STANDING, worker)
  if not kept then return false, false end
  local its_seq, since, at = unpacked('>i8i8', kept)
  if math.abs(its_seq) > seq then return true, false end
  if its_seq == seq then return false, true end
  if its_seq > 0 then call('HDEL', STANDING, worker) end
  if not stood or its_seq ~= -stood then return false, false end
  local ids = {}
  while at <= #kept do
    ids[#ids + 1], at = unpacked('>I2c0', kept, at)
  end
  return false, false, ids, since
end
