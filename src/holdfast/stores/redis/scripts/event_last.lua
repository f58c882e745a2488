-- ARGV: instant. The last position.
return call('HGET', ENDS, 'p') or '0'
