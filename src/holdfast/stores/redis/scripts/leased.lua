-- ARGV: instant. The ids of all jobs that are held.
return call('ZRANGEBYSCORE', LEASES, '-inf', '(+inf')
