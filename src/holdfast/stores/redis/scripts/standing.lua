-- Wants that stand: those of idle workers, kept until the worker ticks again. One entry for each worker, which
-- stands no longer as soon as something was claimed for it: seq, then negative; since when, how many more, the
-- channel on which its session is told, and the want itself. Beside it each queue has a line of workers, the
-- longest idle first. A line may have workers whose want is gone; those who find one take it out.
local STANDING, IDLE = NS .. 'y', NS .. 'y:'
local STALE = 3600000000 -- nobody who is idle is silent for so long

function F.stand(worker, seq, left, ear, want, queues)
  call('HSET', STANDING, worker, pack('>i8i8I4I2c0', seq, now, left, #ear, ear) .. want)
  for _, queue in ipairs(queues) do
    call('ZREMRANGEBYSCORE', IDLE .. queue, '-inf', string.format('%.0f', now - STALE))
    call('ZADD', IDLE .. queue, string.format('%.0f', now), worker)
  end
end

-- Ends the want of this seq. Whether something was claimed for it before.
function F.was_fulfilled(worker, seq)
  local kept = call('HGET', STANDING, worker)
  local its_seq = kept and unpacked('>i8', kept)
  if its_seq == seq then call('HDEL', STANDING, worker) end
  return its_seq == -seq
end
