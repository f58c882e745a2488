-- New jobs that are due are claimed for idle workers in the step that adds them, and handed to their sessions.
-- Then nobody else need be woken, and the worker need not ask.
local MOST_IDLE, LARGEST = 32, 1000000
local ready, queues, later, wants, gone, is_untold = {}, {}, {}, {}, {}, false

function F.place(job)
  if F.due_of(job.place) > now then
    F.keep(job)
    later[job.queue] = later[job.queue] or {}
    later[job.queue][job.id] = true
    return
  end
  local jobs_of = ready[job.queue]
  if not jobs_of then
    jobs_of = {}
    ready[job.queue] = jobs_of
    queues[#queues + 1] = job.queue
  end
  jobs_of[#jobs_of + 1] = job
end

-- The want of a worker, if it stands, the worker is live and somebody listens for it.
function F.want_of(worker)
  local want = wants[worker]
  if want ~= nil then return want end
  wants[worker] = false
  local kept, ends = call('HGET', STANDING, worker), F.life_of(worker)
  if not kept or not ends or now >= ends then return false end
  if unpacked('>i8', kept) < 0 then return false end
  local seq, since, left, ear, at = unpacked('>i8i8I4I2c0', kept)
  if call('PUBSUB', 'NUMSUB', NS .. ear)[2] == 0 then return false end
  want = cmsgpack.unpack(sub(kept, at))
  if now >= since + want.stands then return false end
  want.worker, want.seq, want.since, want.left, want.ear, want.jobs = worker, seq, since, left, ear, {}
  want.takes = {}
  for _, task in ipairs(want.tasks) do want.takes[task] = true end
  wants[worker] = want
  return want
end

-- Those who wait for jobs of the queue, and how many they would take. Who could have one that is ready there
-- is about to ask, and then gets the right one.
function F.idle_at(queue)
  local workers = call('ZRANGE', IDLE .. queue, 0, MOST_IDLE - 1)
  if workers[1] and F.is_flowing() then workers = {} end
  local idle, room, lined = {}, 0, workers[1] and call('SMEMBERS', NS .. 't:' .. queue) or {}
  for place = #lined, 1, -1 do
    if call('EXISTS', F.line_of(queue, lined[place])) == 0 then table.remove(lined, place) end
  end
  for _, worker in ipairs(workers) do
    local want = F.want_of(worker)
    local is_idle = want
    for _, task in ipairs(lined) do is_idle = is_idle and not want.takes[task] end
    if is_idle then
      idle[#idle + 1] = want
      room = room + want.left
    elseif not want then
      gone[#gone + 1] = {queue, worker}
    end
  end
  return idle, room
end

function F.lease_to(want, job)
  local lease = job.lease >= 0 and job.lease or want.lease
  job.state, job.token, job.version, job.run = CLAIMED, F.clock(), 2, 1
  job.ends, job.seq, job.worker = now + lease, -want.seq, want.worker
  want.left = want.left - 1
  want.jobs[#want.jobs + 1] = job
  F.count(CLAIMED, job.queue, 1)
end

-- By turns, to whoever takes jobs of its task.
function F.hand(idle, job, turn)
  for step = 0, #idle - 1 do
    local want = idle[(turn + step) % #idle + 1]
    if want.left > 0 and want.takes[job.task] then return F.lease_to(want, job) end
  end
  F.keep(job)
  is_untold = true
end

-- If there are more jobs than idle workers would take, all are called to claim them in the right order.
function F.hand_out()
  for _, queue in ipairs(queues) do
    local its = ready[queue]
    local idle, room = F.idle_at(queue)
    if #its <= room then
      for turn, job in ipairs(its) do F.hand(idle, job, turn - 1) end
    else
      for _, job in ipairs(its) do F.keep(job) end
      is_untold = true
    end
  end
end

-- Tells the workers what they hold. What is too much for a message, they get when they ask.
function F.tell()
  local leases = {}
  for worker, want in pairs(wants) do
    if want and want.jobs[1] then
      local parts, ids, size = {pack('>I2c0i8i8', #worker, worker, want.seq, now - want.since)}, {}, 0
      for place, job in ipairs(want.jobs) do
        local record = F.closed(job)
        leases[#leases + 1] = string.format('%.0f', job.ends)
        leases[#leases + 1] = job.id
        parts[place + 1] = pack('>I4c0I4c0', #record, record, #job.body, job.body)
        ids[place] = pack('>I2c0', #job.id, job.id)
        size = size + #job.body
      end
      call('HSET', STANDING, worker, pack('>i8i8', -want.seq, now) .. table.concat(ids))
      call('PUBLISH', NS .. want.ear, size < LARGEST and table.concat(parts) or parts[1])
    end
  end
  F.each_part('ZADD', LEASES, leases)
  for _, each in ipairs(gone) do call('ZREM', IDLE .. each[1], each[2]) end
end

-- Whether others should look: for what was not handed out, and for what will be the next to be due.
function F.is_untold()
  for queue, its in pairs(later) do
    if its[call('ZRANGE', NS .. 's:' .. queue, 0, 0)[1]] then return true end
  end
  return is_untold
end
