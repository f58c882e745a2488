-- ARGV: instant.
return call('SMEMBERS', HELDS)
