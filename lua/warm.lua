-- SPDX-License-Identifier: MIT
-- Replaces a family's month whole, as read from MySQL, under a new generation
-- (a number never used before): dedup entries and alert marks of other generations count as absent.
--
-- KEYS  1 family:F:info:M  2 family:F:remaining:M  3 family:F:members
--       then two a member: usage:monthly and constraints; then the told alerts' marks
-- ARGV  1 gen  2 warmed (unix seconds)  3 totalQuota  4 remaining  5 thresholds  6 cuts ("10:100 30:300 50:500")
--       7 name  8 expiry of the month's keys  9 expiry of the others (unix seconds)  10 members  11 alert marks
--       then a member: customer, monthlyUsed, number of rule fields, and for each field its name and value
--
-- Returns 'OK'. The first write is one that a full Redis refuses, so that nothing is half replaced.

local gen, expire, expire_other = ARGV[1], ARGV[8], ARGV[9]
local members, alerts = tonumber(ARGV[10]), tonumber(ARGV[11])
local call = redis.call

call('SET', KEYS[2], ARGV[4], 'EXAT', expire)
call('DEL', KEYS[1], KEYS[3])
local k, a, customers, plain = 4, 12, {}, {}
for i = 1, members do
  customers[i] = ARGV[a]
  call('SET', KEYS[k], ARGV[a + 1], 'EXAT', expire)
  call('DEL', KEYS[k + 1])
  local fields = tonumber(ARGV[a + 2])
  a = a + 3
  call('HSET', KEYS[k + 1], 'WARM', gen)
  if fields == 0 and #plain < 32 then plain[#plain + 1] = customers[i] end
  for _ = 1, fields do
    call('HSET', KEYS[k + 1], ARGV[a], ARGV[a + 1])
    a = a + 2
  end
  call('EXPIREAT', KEYS[k + 1], expire_other)
  k = k + 2
end
-- as many at once as surely fit on Lua's stack
for i = 1, members, 1000 do call('SADD', KEYS[3], unpack(customers, i, math.min(i + 999, members))) end
if members > 0 then call('EXPIREAT', KEYS[3], expire_other) end
for i = k, k + alerts - 1 do call('SET', KEYS[i], gen, 'EXAT', expire) end
call('HSET', KEYS[1], 'gen', gen, 'warmed', ARGV[2], 'totalQuota', ARGV[3], 'name', ARGV[7], 'thresholds', ARGV[5],
  'cuts', ARGV[6], 'expire', expire, 'plain', ' ' .. table.concat(plain, ' ') .. ' ')
call('EXPIREAT', KEYS[1], expire)
return 'OK'
