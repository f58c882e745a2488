-- ARGV: instant, wake-up, sequence.
call('HDEL', HALTED, ARGV[3])
F.call_next(ARGV[3])
F.save()
F.ring(ARGV[2])
return 1
