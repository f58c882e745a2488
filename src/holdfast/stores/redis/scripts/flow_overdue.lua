-- ARGV: instant, limit.
return call('ZRANGEBYSCORE', EXPIRY, '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[2])
