-- New jobs, each eleven values from `at` on: id, task, queue, place of the body among the arguments, priority,
-- due time, delay, lease, key, TTL of the key,
-- what it waits for. Gives nothing if the job was made, else the one that stands.
local NEW = 11

function F.add(values, at)
  local id = values[at]
  local stood = F.job_of(id)
  if stood then return stood end
  local key = values[at + 8]
  if key then
    local holder = F.holder_of(key)
    if holder then return holder end
    call('HSET', KEPT, key, pack('>i8', now + values[at + 9]) .. id)
  end
  local job = {
    id = id, task = values[at + 1], queue = values[at + 2], body = ARGV[values[at + 3]],
    state = SCHEDULED, token = 0, version = 1, run = 0, ends = 0, started = 0, seq = 0,
    flags = key and HAS_KEY or 0, failures = 0, lost = 0, created = now, lease = values[at + 7] or -1,
    key = key or '', worker = '', kind = 0, flow = '',
    place = F.sortable(values[at + 4]) .. F.sortable(values[at + 5] or now + values[at + 6]),
  }
  jobs[id] = job
  if values[at + 10] then F.add_flow(job, values[at + 10]) end
  fresh[#fresh + 1] = job
  F.note(job)
  F.place(job)
end

function F.keep(job)
  F.count(SCHEDULED, job.queue, 1)
  F.wait(job)
end

F.place = F.keep
