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

redis.call('SET', KEYS[2], ARGV[4], 'EXAT', expire)
redis.call('DEL', KEYS[1], KEYS[3])
local k, a = 4, 12
for _ = 1, members do
  redis.call('SADD', KEYS[3], ARGV[a])
  redis.call('SET', KEYS[k], ARGV[a + 1], 'EXAT', expire)
  redis.call('DEL', KEYS[k + 1])
  redis.call('HSET', KEYS[k + 1], 'WARM', gen)
  local fields = tonumber(ARGV[a + 2])
  a = a + 3
  for _ = 1, fields do
    redis.call('HSET', KEYS[k + 1], ARGV[a], ARGV[a + 1])
    a = a + 2
  end
  redis.call('EXPIREAT', KEYS[k + 1], expire_other)
  k = k + 2
end
if members > 0 then redis.call('EXPIREAT', KEYS[3], expire_other) end
for i = k, k + alerts - 1 do redis.call('SET', KEYS[i], gen, 'EXAT', expire) end
redis.call('HSET', KEYS[1], 'gen', gen, 'warmed', ARGV[2], 'totalQuota', ARGV[3], 'name', ARGV[7], 'thresholds', ARGV[5],
  'cuts', ARGV[6], 'expire', expire)
redis.call('EXPIREAT', KEYS[1], expire)
return 'OK'
