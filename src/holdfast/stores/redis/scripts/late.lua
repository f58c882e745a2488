-- Moves that no longer apply.

-- The attempts of a job whose token is this; the last of a plain success is told by its record alone.
function F.attempt_of(job, token)
  if F.has(job.flags, IS_TOLD) and job.token == token then return {[3] = job.worker, [6] = 'success'} end
  if not F.has(job.flags, HAS_HISTORY) then return nil end
  for place, packed in ipairs(F.own('LRANGE', NS .. 'h:' .. job.id, 0, -1) or {}) do
    local attempt = cmsgpack.unpack(packed)
    if attempt[2] == token then return attempt, place - 1 end
  end
end

-- The verdict on a move that no longer applies: a repeat is accepted, a late one is remembered.
function F.is_repeated(job, worker, move)
  if not move.outcome then
    return job.token == move.token and job.worker == worker and job.state == RUNNING and move.from ~= ''
  end
  local attempt, place = F.attempt_of(job, move.token)
  if not attempt then return false end
  local outcome = attempt[6] == 'superseded' and 'lost' or attempt[6]
  if outcome == move.outcome and (attempt[9] or attempt[3]) == worker then return true end
  if outcome == 'lost' and attempt[3] == worker and not move.if_expired then
    attempt[6] = 'superseded'
    call('LSET', NS .. 'h:' .. job.id, place, cmsgpack.pack(attempt))
  end
  return false
end
