# SPDX-License-Identifier: MIT
# The report of measure.sh, from its rows and $head. A row that wasn't measured leaves a dash, never a figure.
include "figures";

. as $rows
| $head[0] as $head
| def all_of($name): $rows | map(select(.row == $name));
  def only($name): all_of($name) | last;
  def median_of($name): all_of($name) | if length == 0 then null else median end;
  only("run") as $run
| {one: median_of("workers1"), two: median_of("workers2"), batch1: only("batch1"), replay: only("replay"), cold: only("cold"),
   hot: only("hot"), consume: only("consume"), script: only("script"), settle: only("settle"), latency: only("latency"),
   flush: only("flush"), lone: only("lone"), audit: only("audit")} as $m
# each part's own CPU and its server's, for an event of the topic: some don't get as far as the script or the tables
| (if $m.consume and $m.script and $m.settle then
       ($m.consume | own + of("kafka")) + ($m.script | (own + of("redis")) * reached) + ($m.settle | (own + of("mysql")) * reached) else null end) as $parts
| ($parts | if . == null then null else 2e6 / . end) as $bound
| ($m.one | if . == null then null else 2e6 / all_cpu end) as $bound_whole
| ([$m.one, $m.two] | map(rate) | max) as $best
| (if $m.one and $bound then ($m.one | rate) / $bound else null end) as $of_bound
| (if $m.one and $m.batch1 then ($m.one | rate) / ($m.batch1 | rate) else null end) as $times_single
| (if $m.replay and $m.one then ($m.replay | rate) / ($m.one | rate) else null end) as $times_replay
# A pass that's over within a minute has no "after": then its second half counts, against the warm passes' median.
| (if $m.cold and $m.one then
       ($m.cold.ms > 75000) as $long
       | ($m.cold | rate_between((if $long then 60000 else .ms / 2 end); .ms)) as $late
       | ($m.one | rate) as $warm
       | if $late and $warm and $warm > 0 then {cost: (1 - $late / $warm), when: (if $long then "after the first minute" else "in its second half; it took less than a minute and a quarter" end)} else null end
   else null end) as $cold_cost
| def target($number; $what; $wanted; $figure; text; reached):
      [$number, $what, $wanted, (if $figure == null then "—" else ($figure | text) end),
       (if $figure == null then "not measured" elif ($figure | reached) then "**reached**" else "not reached" end)];
  def ms: fixed(1) + " ms";

  "# tallyd, measured \($head.started)",
  "",
  (if $m.one then "\($m.one | rate | thousands) events/s with one worker, \($m.one | own | fixed(1)) µs of tallyd's own CPU an event" else "some rows only" end) as $gist
| "\($run.events | thousands) events of \($run.families | thousands) families: \($gist).",
  "All in one run of \($run.seconds / 60 | floor) min \($run.seconds % 60) s, tallyd and every server on this machine; after each pass every promise was ticked.",
  "",
  "## Targets",
  "",
  ([target("1"; "end to end"; "≥ 25,000 events/s"; ($m.one | rate); thousands + " events/s"; . >= 25000),
    target("1"; "share of the two-core bound"; "≥ 0.6"; $of_bound; fixed(2); . >= 0.6),
    target("2"; "against one event a transaction"; "≥ 10 ×"; $times_single; fixed(1) + " ×"; . >= 10),
    target("3"; "tallyd's own CPU an event"; "≤ 10 µs"; (if $m.one then ($m.one | own) else null end); fixed(1) + " µs"; . <= 10),
    target("3"; "less than Redis' and MariaDB's"; "both"; $m.one;
        "\(own | fixed(1)) against \(of("redis") | fixed(1)) and \(of("mysql") | fixed(1)) µs"; own < of("redis") and own < of("mysql")),
    target("4"; "\($run.rate | thousands) events/s, produced → committed, p99"; "≤ 50 ms"; $m.latency.committed.p99Ms; ms; . <= 50),
    target("4"; "the same, produced → notification, p99"; "≤ 100 ms"; $m.latency.notification.p99Ms; ms; . <= 100),
    target("4"; "a lone event, produced → committed, p50"; "≤ 10 ms"; $m.lone.committed.p50Ms; ms; . <= 10),
    target("5"; "a replay against the first pass"; "≥ 2 ×"; $times_replay; fixed(2) + " ×"; . >= 2),
    target("5"; "what a cold Redis costs"; "≤ 20 % after the first minute"; $cold_cost; "\(.cost | percent) \(.when)"; .cost <= 0.2),
    target("5"; "decided again in a steady stream"; "none"; $m.latency.stopped; "\(.redecided) families' months, \(.came_back) batches"; .redecided == 0 and .came_back == 0),
    target("6"; "tallyd's peak memory with a backlog of \($run.events | thousands)"; "≤ 64 MiB";
        (if $m.cold then [$rows[] | select(.row == "workers1" or .row == "cold").memoryKiB] | max else null end); "\(. / 1024 | fixed(1)) MiB"; . <= 65536)]
    | table(["", "what", "wanted", "measured", ""])),
  "",
  "Memory over ten minutes and up to 1,000,000 families: `make bench-scale`.",
  "",
  "## Throughput, and where the CPU goes",
  "",
  "CPU in µs an event, by process; in the first three rows the part's own code stands where tallyd does.",
  "",
  (def cpu_row($what; $r; remark): if $r == null then empty else
       [$what, ($r.events | thousands), ($r | rate | thousands), ($r | own | fixed(1)), ($r | of("redis") | fixed(1)), ($r | of("mysql") | fixed(1)),
        ($r | of("kafka") | fixed(1)), ($r | all_cpu | fixed(1)), remark] end;
   def spread($name): all_of($name) | map(rate | thousands) | "median of " + join(", ");
   def ends: "blocked \(.stopped.blocked / .events | percent), duplicate \(.stopped.duplicate / .events | percent), published \(.stopped.published | thousands), warmed \(.stopped.warmed | thousands), came back \(.stopped.came_back)";
   [cpu_row("consumed and parsed only"; $m.consume; "a ceiling"),
    cpu_row("the script alone, pipelined"; $m.script; "a ceiling"),
    cpu_row("settled alone, from ready batches"; $m.settle; "a ceiling"),
    (if $bound then ["**two-core bound**", "", ($bound | thousands), "", "", "", "", ($parts | fixed(1)), "2 ÷ the CPU of the three parts, each with its own server"] else empty end),
    cpu_row("**end to end, workers: 1**"; $m.one; (if $m.one then spread("workers1") else "" end)),
    cpu_row("**end to end, workers: 2**"; $m.two; (if $m.two then spread("workers2") else "" end)),
    (if $bound_whole then ["bound by the CPU of the pass itself", "", ($bound_whole | thousands), "", "", "", "", ($m.one | all_cpu | fixed(1)), "2 ÷ what workers: 1 used"] else empty end),
    cpu_row("one event a transaction"; $m.batch1; "`batch.max_events: 1`"),
    cpu_row("replay, all known"; $m.replay; "the same group, from offset 0; peak memory \($m.replay.memoryKiB / 1024 | fixed(1)) MiB"),
    cpu_row("cold Redis"; $m.cold; ($m.cold | or_dash(ends))),
    cpu_row("one hot family, half of all"; $m.hot; ($m.hot | or_dash(ends))),
    cpu_row("a steady \($run.rate | thousands)/s"; (if $m.latency then $m.latency + {eventsPerSecond: $m.latency.achievedRate} else null end); "the latency's stream; some 400 looks a second at the ledger included")]
   | table(["what", "events", "events/s", "tallyd", "Redis", "MariaDB", "Kafka", "all", ""])),
  "",
  (if $m.one then "How the median pass with one worker ended: \($m.one | .stopped | "settled \(.settled | thousands), blocked \(.blocked | thousands), duplicate \(.duplicate | thousands), rejected \(.rejected | thousands), batches \(.batches | thousands), published \(.published | thousands)")." else empty end),
  "A pass' events/s: records on the topic ÷ the time from the first `partition_opened` to all being settled and told (`stopping`), by tallyd's log. Its CPU is counted from tallyd's start to its end, tallyd's own up to half a second before that.",
  "",
  "## As a pass goes on",
  "",
  ([["workers: 1", $m.one], ["cold Redis", $m.cold], ["one hot family", $m.hot]]
   | map(select(.[1] and .[1].samples) | [.[0], "\(.[1].ms / 1000 | fixed(1)) s"] + (.[1] | quarters | map(or_dash(thousands))) + ["\(.[1].memoryKiB / 1024 | fixed(1)) MiB"])
   | table(["events/s by quarter of the pass", "took", "1st", "2nd", "3rd", "4th", "tallyd's peak memory"])),
  "",
  "## Latency",
  "",
  (def latency_row($what; $r): if $r == null then empty else
       [$what, ($r.count | thousands)] + ([$r.p50Ms, $r.p95Ms, $r.p99Ms, $r.maxMs] | map(or_dash(fixed(1)))) end;
   [latency_row("steady: produced → committed"; $m.latency.committed), latency_row("steady: produced → notification"; $m.latency.notification),
    latency_row("Redis flushed in the midst: produced → committed"; $m.flush.committed),
    latency_row("Redis flushed in the midst: produced → notification"; $m.flush.notification),
    latency_row("a lone event: produced → committed"; $m.lone.committed)]
   | table(["ms", "events", "p50", "p95", "p99", "max"])),
  "",
  (if $m.latency then "The stream ran at \($m.latency.achievedRate | thousands) events/s; in it \($m.latency.stopped.came_back) batches came back and \($m.latency.stopped.redecided) families' months were decided again." else empty end),
  (if $m.audit then "", "`tallyd audit` of the cold pass: all of its \($m.audit.checks) checks hold (\($m.audit.seconds) s)." else empty end),
  "",
  "## With what",
  "",
  ([["machine", "\($head.cpu), \($head.cores) cores, \($head.memory / 1048576 | fixed(1)) GiB, \($head.kernel), \($head.disk) with \($head.syncs | thousands) durable writes of 4 KiB/s"],
    ["tallyd", "\($head.describe); \($head.settings)"],
    ["versions", "\($head.kafka), Redis \($head.redis), MariaDB \($head.mariadb)"],
    ["", "\($head.libraries)"],
    ["", "\($head.java); \($head.compiler)"],
    ["MariaDB", $head.variables],
    ["Kafka", "6 partitions, acks=all, retention.ms=-1"],
    ["again with", "`make bench`"]]
   | table(["", ""]))
