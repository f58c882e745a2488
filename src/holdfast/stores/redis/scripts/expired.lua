-- ARGV: instant, limit.
local answer = {}
for _, id in ipairs(call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, ARGV[2])) do
  answer[#answer + 1] = F.told_by_id(id)
end
return answer
