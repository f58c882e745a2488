-- ARGV: instant, id.
local record = call('HGET', RECORDS, ARGV[2])
return {record, F.own('LRANGE', NS .. 'h:' .. ARGV[2], 0, -1) or {}}
