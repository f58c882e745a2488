-- ARGV: instant, the version of the layout that is known here. Gives the one that is stored.
call('SETNX', NS .. 'v', ARGV[2])
return call('GET', NS .. 'v')
