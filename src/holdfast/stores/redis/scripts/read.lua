-- ARGV: instant, then ids. What is stored of each, or nothing.
local ids = {}
for place = 2, #ARGV do ids[place - 1] = ARGV[place] end
local records, bodies = F.read_all(RECORDS, ids), F.read_all(BODIES, ids)
local answer = {}
for place, id in ipairs(ids) do
  answer[place] = records[place] and F.told(records[place], bodies[place], id)
end
return answer
