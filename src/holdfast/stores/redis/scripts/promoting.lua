-- Makes ready what is due, up to a number for each queue and another for all, so that nobody is kept waiting
-- for long. Gives in how long the next job will be due; 0 if some that are due have yet to be made ready.
local BATCH, left = 1000, 3000

function F.promote(queue)
  local key = NS .. 's:' .. queue
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first[1] then return nil end
  if tonumber(first[2]) > now then return first[2] - now end
  if left == 0 then return 0 end
  local ids = call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, math.min(BATCH, left))
  left = left - #ids
  for place, record in ipairs(F.read_records(ids)) do
    if record then
      local job = F.opened(ids[place], record)
      F.wait(job)
    end
  end
  F.save_waiting() -- first, so that none is lost should that fail
  F.each_part('ZREM', key, ids)
  first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[1] and math.max(0, first[2] - now)
end
