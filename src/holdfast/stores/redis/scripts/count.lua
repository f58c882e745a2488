-- ARGV: instant. First what is due is made ready, for that is how it is counted.
local has_more = 0
local seen = {}
for _, field in ipairs(call('HKEYS', COUNTS)) do
  local queue = sub(field, 2)
  if not seen[queue] then
    seen[queue] = true
    if F.promote(queue) == 0 then has_more = 1 end
  end
end
F.save_counts()
return {has_more, call('HGETALL', COUNTS)}
