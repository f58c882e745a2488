-- ARGV: instant, limit. A lease without a job, as somebody's own deletions leave it, keeps no other from being
-- found.
local answer = {}
local ids = call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, ARGV[2])
for place, record in ipairs(F.read_records(ids)) do
  if record then answer[#answer + 1] = F.told(record, call('HGET', BODIES, ids[place]), ids[place]) end
end
return answer
