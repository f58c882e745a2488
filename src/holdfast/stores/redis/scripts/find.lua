-- ARGV: instant, key of the index of ids, bound, how many to look at, states or empty, queue, task.
-- An empty name matches all. Gives the last id that was looked at, then what matches.
local states, queue, task = ARGV[5], ARGV[6], ARGV[7]
local ids = call('ZREVRANGEBYLEX', NS .. ARGV[2], ARGV[3], '-', 'LIMIT', 0, ARGV[4])
local answer = {#ids == tonumber(ARGV[4]) and ids[#ids]}
for place, record in ipairs(F.read_all(RECORDS, ids)) do
  local is_sound = record and F.is_sound(record)
  if record and not is_sound and states .. queue .. task == '' then
    answer[#answer + 1] = F.told(record, call('HGET', BODIES, ids[place]), ids[place])
  elseif is_sound and (states == '' or string.find(states, byte(record) % 8, 1, true)) then
    local its_queue, its_task = unpacked('>I2c0I2c0', record, 85)
    if (queue == '' or its_queue == queue) and (task == '' or its_task == task) then
      answer[#answer + 1] = F.told(record, call('HGET', BODIES, ids[place]), ids[place])
    end
  end
end
return answer
