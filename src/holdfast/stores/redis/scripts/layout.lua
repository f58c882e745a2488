-- ARGV: instant, the version of the layout that is known here. Gives the one that is stored.
-- A long entry that never ends makes the server keep leases by a list that is fast to change.
-- Whoever comes when memory is at its limit must be let in: only work makes room.
call('DEL', KEYS[2])
call('ZADD', LEASES, '+inf', string.rep('-', 65))
call('SETNX', NS .. 'v', ARGV[2])
return call('GET', NS .. 'v')
