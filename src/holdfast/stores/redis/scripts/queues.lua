-- ARGV: instant.
return {call('HKEYS', COUNTS), call('HGETALL', PAUSES)}
