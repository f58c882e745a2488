-- ARGV: instant. The limits, and since when those are paused that are.
return {{call('HVALS', LIMITS), call('HVALS', KEY_LIMITS), call('HVALS', WEIGHTS)}, call('HGETALL', NS .. 'zs')}
