-- ARGV: instant.
return {call('HVALS', LIMITS), call('HVALS', KEY_LIMITS), call('HVALS', WEIGHTS)}
