-- ARGV: instant, id.
call('HDEL', NS .. 'u', ARGV[2])
call('HDEL', NS .. 'p', ARGV[2])
call('HDEL', NS .. 'y', ARGV[2])
call('HDEL', NS .. 'ur', ARGV[2])
return 1
