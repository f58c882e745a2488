-- ARGV: instant, id, behind which id or empty, limit.
local from = ARGV[3] == '' and '-' or '(' .. ARGV[3] .. '\0\255'
return call('ZRANGEBYLEX', BEFORE .. ARGV[2], from, '+', 'LIMIT', 0, ARGV[4])
