-- ARGV: instant, most, 1 if those that wait are asked for too. The ids of all jobs that are held, and of those
-- that wait; nothing if they are more than the most.
local ids = call('ZRANGEBYSCORE', LEASES, '-inf', '(+inf')
if ARGV[3] ~= '1' then return ids end
local counted, queues, total = call('HGETALL', COUNTS), {}, #ids
for place = 1, #counted, 2 do
  local kind = sub(counted[place], 1, 1)
  if kind == '0' or kind == '5' then
    total = total + counted[place + 1]
    queues[sub(counted[place], 2)] = true
  end
end
if total > tonumber(ARGV[2]) then return false end
for queue in pairs(queues) do
  for _, id in ipairs(call('ZRANGE', NS .. 's:' .. queue, 0, -1)) do ids[#ids + 1] = id end
  for _, task in ipairs(call('SMEMBERS', NS .. 't:' .. queue)) do
    for _, entry in ipairs(call('ZRANGE', F.line_of(queue, task), 0, -1)) do ids[#ids + 1] = sub(entry, 17) end
  end
end
local gates, seen = call('ZRANGE', NS .. 'z:p', 0, -1), {}
gates[#gates + 1] = 'after'
for _, turn in ipairs(call('ZRANGE', NS .. 'z:q', 0, -1)) do
  local gate = 'sequence:' .. unpacked('>I2c0', turn)
  if not seen[gate] then gates[#gates + 1] = gate end
  seen[gate] = true
end
for _, gate in ipairs(gates) do
  for _, place in ipairs(call('SMEMBERS', NS .. 'zp:' .. gate)) do
    local line = NS .. 'zw:' .. #gate .. ':' .. gate .. ':' .. place
    for _, entry in ipairs(call('ZRANGE', line, 0, -1)) do ids[#ids + 1] = sub(entry, 17) end
  end
end
return ids
