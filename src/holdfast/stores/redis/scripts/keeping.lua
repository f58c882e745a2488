-- Jobs that wait for others, one by one.
local HELDS = NS .. 'z:a' -- those that are parked there because they are held, whether or not they wait for others

function F.flow_of(job)
  if job.its == nil then
    job.its = false
    if job.flow ~= '' then
      local its = {}
      its.rank, its.bits, its.expires, its.turn, its.pending, its.unmet, its.limit_key, its.fair_key,
        its.sequence = unpacked(FLOW, job.flow)
      job.its = its
    end
  end
  return job.its
end

function F.set_flow(job, its)
  job.its = its
  local flow = pack(FLOW, its.rank, its.bits, its.expires, its.turn, its.pending, its.unmet, #its.limit_key,
    its.limit_key, #its.fair_key, its.fair_key, #its.sequence, its.sequence)
  job.flow = flow .. pack('>I2', #flow + 2)
  job.kind = F.with(job.kind, HAS_FLOW)
end

-- The sequence of the job, if it has one.
function F.sequence_of(job)
  local its = F.flow_of(job)
  return its and F.has(its.bits, SEQUENCED) and its.sequence
end

function F.holds(job)
  local its = F.flow_of(job)
  return its and (its.pending > 0 or F.has(its.bits, HELD))
end

-- Takes a parked job out of its line.
function F.leave_line(job)
  F.save_waiting()
  local gate, place = job.gate, F.row_of(job.queue, job.task)
  if gate == AFTER then call('SREM', HELDS, job.id) end
  call('ZREM', F.parked_line(gate, place), F.order_of(job) .. job.id)
  F.tidy(gate, place)
  F.count(job.state == RETRY and 'Q' or 'P', job.queue, -1)
  job.gate, job.kind = nil, F.without(job.kind, IS_PARKED)
end

F.make_ready = F.wait

-- Puts a waiting job where claims find it, or aside if it waits for others.
function F.wait(job)
  if not F.holds(job) then return F.make_ready(job) end
  job.gate, job.kind = AFTER, F.with(job.kind, IS_PARKED)
  if F.has(job.its.bits, HELD) then call('SADD', HELDS, job.id) end
  F.put_aside(AFTER, job.queue, job.task, job.state, F.order_of(job) .. job.id)
end

-- A parked job waits for nothing any more.
function F.unpark(job)
  F.leave_line(job)
  F.wait(job)
  F.note(job)
  if F.due_of(job.place) <= now then freed[job.id] = true end
end

-- Nobody who is idle is handed a job here: all are called.
function F.is_untold() return true end
