-- Tells listeners that there may be work: the channel is the namespace's, the text who tells it.
function F.ring(teller)
  if teller ~= '' then call('PUBLISH', NS .. 'wake', teller) end
end
