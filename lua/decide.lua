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
-- as no sum passes it: a + b > c is written a > c - b.

local function amount(text)
  if not text or #text > 17 or not (text == '0' or string.find(text, '^%-?[1-9]%d*$')) then return nil end
  return tonumber(text)
end

local function text(n) return string.format('%.0f', n) end

-- used / total cut to four decimals. Digit by digit where used * 10000 would pass 2^53.
local function ratio(used, total)
  if total <= 0 then return '0.0000' end
  if used < 900000000000 then
    local q = used * 10000
    q = (q - q % total) / total
    return string.format('%.0f.%04.0f', (q - q % 10000) / 10000, q % 10000)
  end
  local r = math.fmod(used, total)
  local digits = text((used - r) / total) .. '.'
  local tenth, last = math.floor(total / 10), total % 10
  for _ = 1, 4 do
    local d = 0
    while d < 9 and r >= (d + 1) * tenth + math.ceil((d + 1) * last / 10) do d = d + 1 end
    r = (r - d * tenth) * 10 - d * last
    digits = digits .. d
  end
  return digits
end

local info = redis.call('HMGET', KEYS[1], 'gen', 'warmed', 'totalQuota', 'thresholds', 'cuts', 'expire')
local gen, total, cuts, expire = info[1], amount(info[3]), info[5], info[6]
if not gen or not total or total < 0 or not cuts or not amount(expire) or info[4] ~= ARGV[8] then return 'COLD' end
local warmed = amount(info[2])
if not warmed or warmed < tonumber(ARGV[6]) then return 'COLD' end

local figures = redis.call('MGET', KEYS[2], KEYS[4], KEYS[6])
local key = gen .. ' ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' '
local known = figures[3]
if known and string.sub(known, 1, #key) == key then
  -- the cached result, told to be a repeat: its last but two fields say shouldNotify and duplicate
  return (string.gsub(string.sub(known, #key + 1), '^(%S+ %S+ %S+ %S+ %S+ %S+ %S+) 0', '%1 1', 1))
end
if known and ARGV[10] ~= '1' then return 'KNOWN' end

if redis.call('SISMEMBER', KEYS[3], ARGV[2]) == 0 then
  return redis.call('EXISTS', KEYS[3]) == 0 and 'COLD' or 'NOT_MEMBER'
end
local remaining, monthly = amount(figures[1]), amount(figures[2])
if not remaining or remaining > total or not monthly or monthly < 0 then return 'COLD' end

local app = ARGV[4]
local rules = redis.call('HMGET', KEYS[5], 'WARM', 'UNREADABLE', 'BLOCK:ACCESS', 'BLOCK:TIME', 'LIMIT:DATA:MONTHLY',
  'BLOCK:APP:' .. app)
if not rules[1] then return 'COLD' end
if rules[2] then return 'UNREADABLE' end
local limit = -1
if rules[5] then
  limit = amount(rules[5])
  if not limit then return 'COLD' end
end

local function in_time_block(block, now)
  local from, to = string.match(block, '^(%d%d%d%d)%-(%d%d%d%d)$')
  if not from then return nil end
  if from == to then return true end
  if from < to then return now >= from and now < to end
  return now >= from or now < to
end

local bytes, thresholds = tonumber(ARGV[3]), tonumber(ARGV[9])
local status, mark, blocked_by_time = nil, nil, false
if rules[4] then
  blocked_by_time = in_time_block(rules[4], ARGV[5])
  if blocked_by_time == nil then return 'COLD' end
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
local notify = mark and redis.call('MGET', KEYS[mark])[1] ~= gen

if allowed then
  redis.call('DECRBY', KEYS[2], ARGV[3])
  redis.call('INCRBY', KEYS[4], ARGV[3])
end
if notify then
  redis.call('SET', KEYS[mark], gen, 'EXAT', expire)
  if allowed then
    for i = mark + 1, 6 + thresholds do redis.call('SET', KEYS[i], gen, 'EXAT', expire) end
  end
end
local result = status .. ' ' .. text(total - remaining) .. ' ' .. text(remaining) .. ' ' .. text(monthly) .. ' ' ..
  text(limit) .. ' ' .. ratio(monthly, total) .. ' ' .. (notify and '1' or '0') .. ' 0 ' .. text(total) .. ' ' ..
  (allowed and '1' or '0')
redis.call('SET', KEYS[6], key .. result, 'EX', ARGV[7])
return result
