-- ARGV: instant.
return call('HGETALL', HALTED)
