# SPDX-License-Identifier: MIT
# The report of scale.sh, from the rows so far and $head.
include "figures";

. as $rows
| $head[0] as $head
| def all_of($name): $rows | map(select(.row == $name));
  (all_of("fill") | last) as $fill
| (all_of("soak") | last) as $soak
| all_of("backlog") as $passes
| ($passes | if length < 2 then null else (last | rate) / (first | rate) end) as $kept
# What grew between the smallest and the largest, by process.
| ($passes | if length < 2 then null else
      [["tallyd", (last | own) - (first | own)], ["Redis", (last | of("redis")) - (first | of("redis"))],
       ["MariaDB", (last | of("mysql")) - (first | of("mysql"))], ["Kafka", (last | of("kafka")) - (first | of("kafka"))]] end) as $growth
# A third of the time is for filling what is bounded; the last reading counts against the first one after it.
| (if $soak then $soak.memory | map(select(.[0] >= $soak.seconds / 3)) else [] end) as $later
| def mib: "\(. / 1024 | fixed(1)) MiB";
  def verdict($reached): if $reached then "**reached**" else "not reached" end;
  def fall: if $kept < 1 then "falls by \(1 - $kept | percent)" else "doesn't fall" end;

  "# tallyd over many families, measured \($head.started)",
  "",
  (if $kept then
       "From \($passes | first.families | thousands) to \($passes | last.families | thousands) families throughput \(fall)"
           + " (wanted: by less than half; \(verdict($kept > 0.5))).",
       "CPU an event grows by \($growth | map("\(.[0]) \(.[1] | fixed(1)) µs") | join(", "))."
   else "Sizes so far: \($passes | length)." end),
  (if ($later | length) > 0 then
       "",
       "Memory under a steady \($soak.events / $soak.seconds | thousands) events/s of \($soak.families | thousands) families:"
           + " \($later | first[1] | mib) after \($later | first[0]) s, \($later | last[1] | mib) after \($later | last[0]) s,"
           + " at most \($later | map(.[2]) | max | mib)"
           + " (wanted: ≤ 64 MiB and flat; \(verdict(($later | map(.[2]) | max) <= 65536 and ($later | last[1]) <= ($later | first[1]) * 1.05)))."
   else empty end),
  "",
  (if $fill then "Beside the month's own there are \($fill.rows | thousands) records of months before (\($fill.mib | thousands) MiB, filled in \($fill.seconds) s)." else empty end),
  "\($seconds / 60 | floor) min so far. After each pass every promise was ticked.",
  "",
  "## Throughput from a backlog, Redis warm",
  "",
  ($passes | map([(.families | thousands), (.events | thousands), (rate | thousands), (own | fixed(1)), (of("redis") | fixed(1)), (of("mysql") | fixed(1)), (of("kafka") | fixed(1)),
        (.memoryKiB / 1024 | fixed(1)), (.redisBytes / 1048576 | thousands), (.recordsMiB | thousands), (.quotasMiB | thousands), (.restMiB | thousands),
        (.stopped.blocked / .events | percent), (.stopped.published | thousands), (.stopped.came_back)])
   | table(["families", "events", "events/s", "tallyd µs", "Redis µs", "MariaDB µs", "Kafka µs", "tallyd MiB", "Redis MiB", "usage_record MiB", "quotas MiB", "blocks, alerts, outbox MiB", "blocked", "published", "came back"])),
  "",
  "CPU in µs an event, by process. Families' quotas are raised where they are used more often than in `make bench`, so that about as many events are blocked at any size.",
  "",
  (if (all_of("latency") | length) > 1 then "![throughput](\($pictures)-throughput.svg)", "" else empty end),
  "## Latency in a steady stream",
  "",
  (all_of("latency") | map([(.families | thousands), (.achievedRate | thousands)]
        + ([.committed, .notification] | map([.p50Ms, .p95Ms, .p99Ms, .maxMs] | map(or_dash(fixed(1))) | join(" / ")))
        + [(own | fixed(1)), (of("redis") | fixed(1)), (of("mysql") | fixed(1)), (of("kafka") | fixed(1)), .stopped.redecided])
   | table(["families", "events/s", "→ committed, ms: p50 / p95 / p99 / max", "→ notification, ms", "tallyd µs", "Redis µs", "MariaDB µs", "Kafka µs", "decided again"])),
  "",
  (if (all_of("latency") | length) > 1 then "![latency](\($pictures)-latency.svg)", "" else empty end),
  "## With what",
  "",
  ([["machine", "\($head.cpu), \($head.cores) cores, \($head.memory / 1048576 | fixed(1)) GiB, \($head.kernel), \($head.disk) with \($head.syncs | thousands) durable writes of 4 KiB/s"],
    ["tallyd", "\($head.describe); \($head.settings)"],
    ["versions", "\($head.kafka), Redis \($head.redis), MariaDB \($head.mariadb)"],
    ["", "\($head.libraries)"],
    ["", "\($head.java); \($head.compiler)"],
    ["MariaDB", $head.variables],
    ["Kafka", "6 partitions, acks=all, retention.ms=-1"],
    ["again with", "`make bench-scale`"]]
   | table(["", ""]))
