-- SPDX-License-Identifier: MIT
-- Decides one event (CONTRACT section 2), all or nothing. Nothing is written
-- before everything is read and checked; no clock, no randomness.
--
-- KEYS  1 family:F:info:M            hash: gen warmed totalQuota name thresholds cuts expire
--       2 family:F:remaining:M       bytes left, may be negative after a cut total
--       3 family:F:members           set
--       4 family:F:customer:C:usage:monthly:M
--       5 family:F:customer:C:constraints   hash: WARM, BLOCK:ACCESS, BLOCK:TIME, BLOCK:APP:a, LIMIT:DATA:MONTHLY, UNREADABLE
--       6 event:dedup:usage:E
--       7.. alert marks: one a threshold in ascending order, then MANUAL, TIME_BLOCK,
--         MONTHLY_LIMIT_EXCEEDED, FAMILY_QUOTA_EXCEEDED, and APP_BLOCK:a when the event has an app
-- ARGV  1 family  2 customer  3 bytes  4 app, percent-encoded, '' for none  5 HHmm
--       6 oldest warming still good (unix seconds)  7 dedup ttl (seconds)
--       8 thresholds, ascending, comma-separated  9 how many they are
--       10 '1': the id was looked up in MySQL and isn't there
--
-- Returns 'COLD' (something needed is missing, old or unusable: warm the family's month),
--   'KNOWN' (a dedup entry that doesn't count here: likely a repeat or a conflict, look the id up),
--   'NOT_MEMBER', 'UNREADABLE', or
--   'status totalUsed remaining monthlyUsed monthlyLimit userRatio shouldNotify duplicate totalQuota allowed'.
-- Amounts are decimal text. They stay below 2^53, so comparing them as numbers is exact as long
-- as no sum passes it: a + b > c is written a > c - b. %d prints a 64-bit Redis' numbers exactly
-- (and faster than %.0f does).

local call, format, find = redis.call, string.format, string.find

-- used / total cut to four decimals, where used * 10000 would pass 2^53: digit by digit.
local function long_ratio(used, total)
  local r = math.fmod(used, total)
  local digits = format('%d.', (used - r) / total)
  local tenth, last = math.floor(total / 10), total % 10
  for _ = 1, 4 do
    local d = 0
    while d < 9 and r >= (d + 1) * tenth + math.ceil((d + 1) * last / 10) do d = d + 1 end
    r = (r - d * tenth) * 10 - d * last
    digits = digits .. d
  end
  return digits
end

local info = call('HMGET', KEYS[1], 'gen', 'warmed', 'totalQuota', 'thresholds', 'cuts', 'expire')
local gen, warmed, cuts, expire = info[1], tonumber(info[2]), info[5], info[6]
if not gen or not warmed or warmed < tonumber(ARGV[6]) or info[4] ~= ARGV[8] or not cuts or not expire then return 'COLD' end

local figures = call('MGET', KEYS[2], KEYS[4], KEYS[6])
local key = gen .. ' ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' '
local known = figures[3]
if known and string.sub(known, 1, #key) == key then
  -- the cached result, told to be a repeat: its last but two fields say shouldNotify and duplicate
  return (string.gsub(string.sub(known, #key + 1), '^(%S+ %S+ %S+ %S+ %S+ %S+ %S+) 0', '%1 1', 1))
end
if known and ARGV[10] ~= '1' then return 'KNOWN' end

if call('SISMEMBER', KEYS[3], ARGV[2]) == 0 then
  return call('EXISTS', KEYS[3]) == 0 and 'COLD' or 'NOT_MEMBER'
end
-- Only canonical decimals: what INCRBY wouldn't take must not get as far as the writes.
local total, remaining, monthly = info[3], figures[1], figures[2]
if not total or not remaining or not monthly or #total > 16 or #remaining > 17 or #monthly > 16 then return 'COLD' end
if not find(total, '^[1-9]%d*$') and total ~= '0' or not find(remaining, '^%-?[1-9]%d*$') and remaining ~= '0' or
  not find(monthly, '^[1-9]%d*$') and monthly ~= '0' then return 'COLD' end
total, remaining, monthly = tonumber(total), tonumber(remaining), tonumber(monthly)
if remaining > total then return 'COLD' end

local app = ARGV[4]
local rules = call('HMGET', KEYS[5], 'WARM', 'UNREADABLE', 'BLOCK:ACCESS', 'BLOCK:TIME', 'LIMIT:DATA:MONTHLY',
  'BLOCK:APP:' .. app)
if not rules[1] then return 'COLD' end
if rules[2] then return 'UNREADABLE' end
local limit = -1
if rules[5] then
  if #rules[5] > 16 or not find(rules[5], '^[1-9]%d*$') and rules[5] ~= '0' then return 'COLD' end
  limit = tonumber(rules[5])
end

local bytes, thresholds = tonumber(ARGV[3]), tonumber(ARGV[9])
local status, mark, blocked_by_time = nil, nil, false
if rules[4] then
  local from, to = string.match(rules[4], '^(%d%d%d%d)%-(%d%d%d%d)$')
  if not from then return 'COLD' end
  local now = ARGV[5]
  if from < to then blocked_by_time = now >= from and now < to
  else blocked_by_time = from == to or now >= from or now < to end
end
if rules[3] then
  status, mark = 'MANUAL', 7 + thresholds
elseif app ~= '' and rules[6] then
  status, mark = 'APP_BLOCK', 11 + thresholds
elseif blocked_by_time then
  status, mark = 'TIME_BLOCK', 8 + thresholds
elseif limit >= 0 and monthly > limit - bytes then
  status, mark = 'MONTHLY_LIMIT_EXCEEDED', 9 + thresholds
elseif remaining < bytes then
  status, mark = 'FAMILY_QUOTA_EXCEEDED', 10 + thresholds
end

local allowed = status == nil
if allowed then
  remaining, monthly = remaining - bytes, monthly + bytes
  status = 'NORMAL'
  local i = 0
  for n, cut in string.gmatch(cuts, '(%d+):(%d+)') do
    i = i + 1
    if remaining <= tonumber(cut) then
      status, mark = 'WARNING_' .. n, 6 + i
      break
    end
  end
end
-- MGET gives nil for a key of another type, where GET would fail for ever
local notify = mark and call('MGET', KEYS[mark])[1] ~= gen
if notify and not find(expire, '^[1-9]%d*$') then return 'COLD' end

if allowed then
  call('DECRBY', KEYS[2], ARGV[3])
  call('INCRBY', KEYS[4], ARGV[3])
end
if notify then
  call('SET', KEYS[mark], gen, 'EXAT', expire)
  if allowed then
    for i = mark + 1, 6 + thresholds do call('SET', KEYS[i], gen, 'EXAT', expire) end
  end
end
local ratio = '0.0000'
if total > 0 and monthly < 900000000000 then
  local q = monthly * 10000
  q = (q - q % total) / total
  ratio = format('%d.%04d', (q - q % 10000) / 10000, q % 10000)
elseif total > 0 then
  ratio = long_ratio(monthly, total)
end
local result = format('%s %d %d %d %d %s %d 0 %d %d', status, total - remaining, remaining, monthly, limit, ratio,
  notify and 1 or 0, total, allowed and 1 or 0)
call('SET', KEYS[6], key .. result, 'EX', ARGV[7])
return result
