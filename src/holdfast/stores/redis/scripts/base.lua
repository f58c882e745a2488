-- What every script begins with: names, the clock, and the record of a job.
-- KEYS[1] is the hash of records; all keys of a namespace begin as it does, and so lie in one slot. KEYS[2]
-- never exists.
-- ARGV[1] is the instant, or empty for the server's own. Numbers are doubles: exact below 2^53.
-- Functions are fields of one table: to define one takes longer with every local that it refers to.
local F = {}
local call, pack, unpacked, sub, byte = redis.call, struct.pack, struct.unpack, string.sub, string.byte
local floor = math.floor
local NS = sub(KEYS[1], 1, -2)
local RECORDS, BODIES, RESULTS = KEYS[1], NS .. 'b', NS .. 'r'
local LEASES, ASKED, KEPT = NS .. 'l', NS .. 'a', NS .. 'k'
local COUNTS, PAUSES = NS .. 'c', NS .. 'q'
local FINISHED, IDS, REST = NS .. 'f', NS .. 'i', NS .. 'd'
local SCHEDULED, CLAIMED, RUNNING, SUCCESS, FAILED, RETRY, DLQ, CANCELLED = 0, 1, 2, 3, 4, 5, 6, 7
local SUSPECT, CANCEL_ASKED, HAS_EXTRA, HAS_RESULT, HAS_KEY, IS_TOLD, HAS_HISTORY = 1, 2, 4, 8, 16, 32, 64
local IS_NULL = 128 -- the result of a plain success is null
local HAS_FLOW, IS_PARKED, IS_AWAITED = 8, 16, 32 -- with the state, in one byte
local MOST = 2000 -- arguments of one command: the stack of Lua is bounded
local LARGEST_EXACT = 9000000000000000

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

function F.has(flags, flag) return flags % (2 * flag) >= flag end
function F.with(flags, flag) return F.has(flags, flag) and flags or flags + flag end
function F.without(flags, flag) return F.has(flags, flag) and flags - flag or flags end

-- A number that is kept as text; nothing if somebody has overwritten it with what is none or too large to count on from.
function F.exact(kept)
  local number = tonumber(kept)
  return number and number > -LARGEST_EXACT and number < LARGEST_EXACT and number
end

-- What is kept as a value of its own, likewise; nothing too if the key holds something else altogether.
function F.kept_number(key)
  local kept = redis.pcall('GET', key)
  return type(kept) == 'string' and F.exact(kept) or nil
end

-- What a command reads of a key that one job or lock has to itself; nothing if somebody has put something else there.
function F.own(command, key, ...)
  local found = redis.pcall(command, key, ...)
  return not (type(found) == 'table' and found.err) and found
end

-- A change of such a key. What somebody has put there instead makes room for it.
function F.put_own(command, key, ...)
  local told = redis.pcall(command, key, ...)
  if type(told) ~= 'table' or not told.err then return end
  if string.find(told.err, 'WRONGTYPE', 1, true) then call('DEL', key) end
  call(command, key, ...)
end

-- A command on many values, in parts.
function F.each_part(command, key, values)
  for first = 1, #values, MOST do
    call(command, key, unpack(values, first, math.min(first + MOST - 1, #values)))
  end
end

-- Whether the names of a record end where it says; one that somebody has overwritten counts as none.
function F.is_sound(record)
  local size = #record
  if size < 90 then return false end
  local last, at = byte(record, 83) * 256 + byte(record, 84), 85
  for _ = 1, 3 do
    if at + 1 > size then return false end
    at = at + 2 + byte(record, at) * 256 + byte(record, at + 1)
  end
  return at - 1 <= last and last <= size
end

function F.record_of(id)
  local record = call('HGET', RECORDS, id)
  return record and F.is_sound(record) and record
end

function F.read_records(ids)
  local found = F.read_all(RECORDS, ids)
  for place, record in ipairs(found) do found[place] = record and F.is_sound(record) and record end
  return found
end

-- When the life of a worker ends that is known; what somebody has overwritten is not.
function F.life_of(worker)
  local known = call('HGET', NS .. 'u', worker)
  if not known or #known ~= 24 then return nil end
  return unpacked('>i8', known, 17), unpacked('>i8', known)
end

function F.read_all(key, fields)
  if not fields[1] then return {} end
  if #fields <= MOST then return call('HMGET', key, unpack(fields)) end
  local found = {}
  for first = 1, #fields, MOST do
    for _, value in ipairs(call('HMGET', key, unpack(fields, first, math.min(first + MOST - 1, #fields)))) do
      found[#found + 1] = value
    end
  end
  return found
end

-- Eight bytes that sort as the number does. One that is too large for a double comes as hexadecimal digits.
function F.sortable(number)
  if type(number) == 'string' then
    return (string.gsub(number, '..', function(digits) return string.char(tonumber(digits, 16)) end))
  end
  local high = floor(number / 4294967296)
  return pack('>I4I4', high + 2147483648, number - high * 4294967296)
end

function F.due_of(place)
  local high, low = unpacked('>I4I4', place, 9)
  return (high - 2147483648) * 4294967296 + low
end

-- A record: first what a claim changes (42 bytes), then place (priority and due time), counters, creation,
-- own lease, end of the names, the names with what the job waits for, and who holds the job or, after a plain
-- success, held it. A job that waits has nobody there, and one that is parked the gate that holds it back.
-- `ends` is when the lease does or when the job finished.
local HEAD, WHOLE, NAMES = '>BI8I4I4i8i8i8B', '>BI8I4I4i8i8i8Bc16I4I4i8i8I2', '>I2c0I2c0I2c0'

function F.opened(id, record)
  local job, first, at = {id = id}, nil, nil
  first, job.token, job.version, job.run, job.ends, job.started, job.seq, job.flags, job.place,
    job.failures, job.lost, job.created, job.lease, job.names = unpacked(WHOLE, record)
  job.queue, job.task, job.key, at = unpacked(NAMES, record, 85)
  job.state = first % 8
  job.kind = first - job.state
  job.flow = sub(record, at, job.names)
  job.worker = sub(record, job.names + 1)
  if F.has(job.kind, IS_PARKED) then job.gate, job.worker = job.worker, '' end
  return job
end

function F.closed(job)
  local names = pack(NAMES, #job.queue, job.queue, #job.task, job.task, #job.key, job.key) .. job.flow
  return pack(WHOLE, job.state + job.kind, job.token, job.version, job.run, job.ends, job.started, job.seq, job.flags,
    job.place, job.failures, job.lost, job.created, job.lease, 84 + #names) .. names .. (job.gate or job.worker)
end

-- The same without opening: where the names end, and the name of the queue.
function F.names_end(record) return byte(record, 83) * 256 + byte(record, 84) end
function F.queue_of(record) return sub(record, 87, 86 + byte(record, 85) * 256 + byte(record, 86)) end

-- Whether something may hold jobs back beside their due time: limits, sequences, or where they are parked.
function F.is_flowing()
  return call('EXISTS', NS .. 'z', NS .. 'z:k', NS .. 'z:q', NS .. 'z:p') > 0
end

function F.is_leased(job) return job.state == CLAIMED or job.state == RUNNING end
function F.is_waiting(job) return job.state == SCHEDULED or job.state == RETRY end
function F.is_finished(job) return not F.is_leased(job) and not F.is_waiting(job) end

-- All that is stored of a job, as Python reads it.
function F.told(record, body, id)
  local flags = byte(record, 42) or 0
  return {
    record,
    body,
    F.has(flags, HAS_RESULT) and call('HGET', RESULTS, id),
    F.has(flags, HAS_EXTRA) and F.own('HGETALL', NS .. 'x:' .. id),
    id,
  }
end

function F.told_by_id(id)
  return F.told(call('HGET', RECORDS, id), call('HGET', BODIES, id), id)
end
