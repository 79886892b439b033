-- SPDX-License-Identifier: MIT
-- Decides events (CONTRACT section 2) one after the other, each all or nothing. One call takes
-- many, since most of a call's price is in getting there. Nothing is written before everything is
-- read and checked; no clock, no randomness.
--
-- KEYS  six an event
--       1 family:F:info:M            hash: gen warmed totalQuota name thresholds cuts expire, and plain:
--         the members that no rule applies to (" 10 11 "; not all of a large family), whose key 5 isn't read
--       2 family:F:remaining:M       bytes left, may be negative after a cut total
--       3 family:F:members           set
--       4 family:F:customer:C:usage:monthly:M
--       5 family:F:customer:C:constraints   hash: WARM (the gen), BLOCK:ACCESS, BLOCK:TIME, BLOCK:APP:a,
--         LIMIT:DATA:MONTHLY, UNREADABLE
--       6 event:dedup:usage:E
--       The alert marks aren't declared: few events need one, and declaring the nine that any event
--       might need cost more than all the rest. Their names follow from key 4: its "usage:monthly"
--       is an "alert:KIND" there.
-- ARGV  1 oldest warming still good (unix seconds)  2 dedup ttl (seconds)
--       3 thresholds, ascending, comma-separated
--       then six an event: family, customer, bytes, app (percent-encoded, '' for none), HHmm,
--       and '1' when the id was looked up in MySQL and isn't there
--
-- Returns a list with one text an event, in order:
--   'COLD' (something needed is missing, old or unusable: warm the family's month),
--   'KNOWN' (a dedup entry that doesn't count here: likely a repeat or a conflict, look the id up),
--   'NOT_MEMBER', 'UNREADABLE', or
--   'status totalUsed remaining monthlyUsed monthlyLimit userRatio shouldNotify duplicate totalQuota allowed'.
-- Amounts are decimal text. They stay below 2^53, so comparing them as numbers is exact as long
-- as no sum passes it: a + b > c is written a > c - b. %d prints a 64-bit Redis' numbers exactly
-- (and faster than %.0f does).

local call, format, find, match, sub, number = redis.call, string.format, string.find, string.match, string.sub,
  tonumber
local oldest, ttl, thresholds = number(ARGV[1]), ARGV[2], ARGV[3]

-- A read of a key that may be of another type: then a table with that as err. Whatever else fails, a
-- missing right say, fails as it would have.
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and not find(reply.err, 'WRONGTYPE', 1, true) then return call(...) end
  return reply
end

-- What the string keys hold, with what this call has changed: false is a missing one or of another type.
local value = {}
do
  local keys, n = {}, 0
  for k = 1, #KEYS, 6 do
    keys[n + 1], keys[n + 2], keys[n + 3] = KEYS[k + 1], KEYS[k + 3], KEYS[k + 5]
    n = n + 3
  end
  local found = call('MGET', unpack(keys))
  for i = 1, n do value[keys[i]] = found[i] end
end

-- What is to be written: what each amount falls or rises by, the marks, and the results.
local spent, spent_keys, used, used_keys, marks, mark_gens, mark_expires, results = {}, {}, {}, {}, {}, {}, {}, {}

-- The number that an amount's text holds, or nil. Only canonical decimals: what INCRBY wouldn't
-- take must not get as far as the writes.
local function amount(text, digits)
  if text and #text <= digits and (find(text, '^[1-9]%d*$') or text == '0') then return number(text) end
end

-- used / total cut to four decimals, where used * 10000 would pass 2^53: digit by digit.
local function long_ratio(part, total)
  local r = math.fmod(part, total)
  local digits = format('%d.', (part - r) / total)
  local tenth, last = math.floor(total / 10), total % 10
  for _ = 1, 4 do
    local d = 0
    while d < 9 and r >= (d + 1) * tenth + math.ceil((d + 1) * last / 10) do d = d + 1 end
    r = (r - d * tenth) * 10 - d * last
    digits = digits .. d
  end
  return digits
end

local function ratio(part, total)
  if total == 0 then return '0.0000' end
  if part >= 900000000000 then return long_ratio(part, total) end
  local q = part * 10000
  q = (q - q % total) / total
  return format('%d.%04d', (q - q % 10000) / 10000, q % 10000)
end

-- A family's month by its info key: whether it's whole and good, and what it says.
local infos = {}
local function info_of(key)
  local info = infos[key]
  if info then return info end
  local f = try('HMGET', key, 'gen', 'warmed', 'totalQuota', 'thresholds', 'cuts', 'expire', 'plain')
  local warmed, total = number(f[2] or ''), amount(f[3], 16)
  info = {
    gen = f[1], total = total, cuts = f[5], expire = f[6], plain = f[7] or '',
    good = f[1] and warmed and warmed >= oldest and f[4] == thresholds and f[5] and f[6] and find(f[6], '^[1-9]%d*$'),
    highest = f[5] and number(match(f[5], ':(%d+)$') or ''),
  }
  infos[key] = info
  return info
end

-- Whether HHmm lies in a rule like 2200-0700; nil when it can't be read.
local function in_time(rule, now)
  local from, to = match(rule, '^(%d%d%d%d)%-(%d%d%d%d)$')
  if not from then return nil end
  if from < to then return now >= from and now < to end
  return from == to or now >= from or now < to
end

-- The lowest threshold that is reached, as text.
local function reached(cuts, remaining)
  for n, cut in string.gmatch(cuts, '(%d+):(%d+)') do
    if remaining <= number(cut) then return n end
  end
end

local function mark_key(usage, kind) return sub(usage, 1, -21) .. 'alert:' .. kind .. sub(usage, -7) end

-- Whether a mark is missing, and then to be set.
local function set_mark(usage, kind, info)
  local key = mark_key(usage, kind)
  -- MGET gives false for a key of another type, where GET would fail for ever
  if value[key] == nil then value[key] = call('MGET', key)[1] end
  if value[key] == info.gen then return false end
  value[key] = info.gen
  marks[#marks + 1], mark_gens[#mark_gens + 1], mark_expires[#mark_expires + 1] = key, info.gen, info.expire
  return true
end

-- A threshold that is told marks the higher ones as well.
local function set_higher_marks(usage, reached_one, info)
  for n in string.gmatch(thresholds, '%d+') do
    if number(n) > number(reached_one) then set_mark(usage, 'THRESHOLD:' .. n, info) end
  end
end

local function add(to, keys, key, bytes)
  if to[key] then
    to[key] = format('%d', number(to[key]) + number(bytes))
  else
    to[key], keys[#keys + 1] = bytes, key
  end
end

local function decide(k, a)
  local info = info_of(KEYS[k])
  if not info.good then return 'COLD' end
  local family, customer, bytes_text, dedup = ARGV[a], ARGV[a + 1], ARGV[a + 2], KEYS[k + 5]
  local entry = info.gen .. ' ' .. family .. ' ' .. customer .. ' ' .. bytes_text .. ' '
  local known = value[dedup]
  if known and sub(known, 1, #entry) == entry then
    -- the cached result, told to be a repeat: its last but two fields say shouldNotify and duplicate
    return (string.gsub(sub(known, #entry + 1), '^(%S+ %S+ %S+ %S+ %S+ %S+ %S+) 0', '%1 1', 1))
  end
  if known and ARGV[a + 5] ~= '1' then return 'KNOWN' end

  -- Whose rules are of this warming is a member; another month's may have warmed them since.
  local rules
  if not find(info.plain, ' ' .. customer .. ' ', 1, true) then
    rules = try('HMGET', KEYS[k + 4], 'WARM', 'UNREADABLE', 'BLOCK:ACCESS', 'BLOCK:TIME', 'LIMIT:DATA:MONTHLY',
      'BLOCK:APP:' .. ARGV[a + 3])
    if rules.err then return 'COLD' end
    if rules[1] ~= info.gen then
      local member = try('SISMEMBER', KEYS[k + 2], customer)
      if member == 0 then return call('EXISTS', KEYS[k + 2]) == 0 and 'COLD' or 'NOT_MEMBER' end
      if member ~= 1 or not rules[1] then return 'COLD' end
    end
  end
  local remaining_key, usage_key = KEYS[k + 1], KEYS[k + 3]
  local remaining, monthly, total = value[remaining_key], value[usage_key], info.total
  if type(remaining) == 'string' then
    local owed = sub(remaining, 1, 1) == '-' and amount(sub(remaining, 2), 16)
    remaining = owed and owed > 0 and -owed or amount(remaining, 16)
  end
  if type(monthly) == 'string' then monthly = amount(monthly, 16) end
  if not total or not remaining or not monthly or remaining > total then return 'COLD' end

  local bytes, limit, status, kind = number(bytes_text), -1, nil, nil
  if rules then
    local app, by_time = ARGV[a + 3], false
    if rules[2] then return 'UNREADABLE' end
    if rules[4] then by_time = in_time(rules[4], ARGV[a + 4]) end
    if rules[5] then limit = amount(rules[5], 16) end
    if by_time == nil or not limit then return 'COLD' end
    if rules[3] then
      status = 'MANUAL'
    elseif app ~= '' and rules[6] then
      status, kind = 'APP_BLOCK', 'APP_BLOCK:' .. app
    elseif by_time then
      status = 'TIME_BLOCK'
    elseif limit >= 0 and monthly > limit - bytes then
      status = 'MONTHLY_LIMIT_EXCEEDED'
    end
  end
  if not status and remaining < bytes then status = 'FAMILY_QUOTA_EXCEEDED' end

  local allowed, notify = status == nil, false
  if allowed then
    remaining, monthly, status = remaining - bytes, monthly + bytes, 'NORMAL'
    if info.highest and remaining <= info.highest then
      local n = reached(info.cuts, remaining)
      if not n then return 'COLD' end
      status = 'WARNING_' .. n
      notify = set_mark(usage_key, 'THRESHOLD:' .. n, info)
      if notify then set_higher_marks(usage_key, n, info) end
    end
    value[remaining_key], value[usage_key] = remaining, monthly
    add(spent, spent_keys, remaining_key, bytes_text)
    add(used, used_keys, usage_key, bytes_text)
  else
    notify = set_mark(usage_key, kind or status, info)
  end
  local result = format('%s %d %d %d %d %s %d 0 %d %d', status, total - remaining, remaining, monthly, limit,
    ratio(monthly, total), notify and 1 or 0, total, allowed and 1 or 0)
  value[dedup] = entry .. result
  results[#results + 1] = dedup
  return result
end

local answers = {}
local a = 4
for k = 1, #KEYS, 6 do
  answers[#answers + 1] = decide(k, a)
  a = a + 6
end

for i = 1, #spent_keys do call('DECRBY', spent_keys[i], spent[spent_keys[i]]) end
for i = 1, #used_keys do call('INCRBY', used_keys[i], used[used_keys[i]]) end
for i = 1, #marks do call('SET', marks[i], mark_gens[i], 'EXAT', mark_expires[i]) end
for i = 1, #results do call('SET', results[i], value[results[i]], 'EX', ttl) end
return answers
