-- Counts by state and queue, and the order in which waiting jobs are served.
local counts, waiting, lines = {}, {}, {}

function F.count(kind, queue, by)
  local its = counts[kind]
  if not its then
    its = {}
    counts[kind] = its
  end
  its[queue] = (its[queue] or 0) + by
end

function F.line_of(queue, task) return NS .. 'w:' .. #queue .. ':' .. queue .. ':' .. task end

-- Priority, and due time or rank.
function F.order_of(job)
  if job.flow == '' or not F.has(byte(job.flow, 10), 8) then return job.place end
  return sub(job.place, 1, 8) .. sub(job.flow, 1, 8)
end

-- Puts a waiting job where claims find it: ready, by priority, due time or rank, and id; or to be ready later.
function F.wait(job)
  local queue, due = job.queue, F.due_of(job.place)
  if due <= now then
    local line = F.line_of(queue, job.task)
    local ready = waiting[line]
    if not ready then
      ready = {}
      waiting[line] = ready
      lines[#lines + 1] = {NS .. 't:' .. queue, job.task}
    end
    ready[#ready + 1] = '0'
    ready[#ready + 1] = F.order_of(job) .. job.id
    F.count(job.state == RETRY and 'R' or 'S', queue, 1)
  else
    local key = NS .. 's:' .. queue
    local later = waiting[key]
    if not later then
      later = {}
      waiting[key] = later
    end
    later[#later + 1] = string.format('%.17g', due)
    later[#later + 1] = job.id
  end
end

function F.save_waiting()
  for key, entries in pairs(waiting) do F.each_part('ZADD', key, entries) end
  for _, line in ipairs(lines) do call('SADD', line[1], line[2]) end
  waiting, lines = {}, {}
end

-- A count that somebody has overwritten begins anew.
local function counted(field, by)
  local answer = redis.pcall('HINCRBY', COUNTS, field, by)
  if type(answer) == 'table' then
    call('HSET', COUNTS, field, by)
    return by
  end
  return answer
end

function F.save_counts()
  for kind, its in pairs(counts) do
    for queue, by in pairs(its) do
      if by ~= 0 and counted(kind .. queue, by) == 0 then call('HDEL', COUNTS, kind .. queue) end
    end
  end
  counts = {}
end
