-- ARGV: instant. The last position.
return string.format('%.0f', F.last_position())
