-- ARGV: instant, id. How many jobs it waits or has waited for, how many of them are pending, how many are
-- unmet, and whether it is held.
local record = call('HGET', RECORDS, ARGV[2])
if not record then return false end
local its = F.flow_of(F.opened(ARGV[2], record))
if not its then return {0, 0, 0, 0} end
return {call('ZCARD', BEFORE .. ARGV[2]), its.pending, its.unmet, F.has(its.bits, HELD) and 1 or 0}
