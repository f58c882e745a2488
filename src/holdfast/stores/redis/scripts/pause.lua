-- ARGV: instant, wake-up, queue, 1 to pause and 0 to resume. A queue that was never paused stays unknown.
if ARGV[4] == '1' or call('HEXISTS', PAUSES, ARGV[3]) == 1 then
  call('DEL', KEYS[2])
  call('HSET', PAUSES, ARGV[3], ARGV[4])
end
if ARGV[4] == '1' then
  call('HSETNX', NS .. 'qs', ARGV[3], string.format('%.0f', now))
  call('DEL', NS .. 'y:' .. ARGV[3])
else
  call('HDEL', NS .. 'qs', ARGV[3])
end
F.ring(ARGV[2])
return 1
