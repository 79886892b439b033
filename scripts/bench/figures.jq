# SPDX-License-Identifier: MIT
# What the reports share: figures people can read, and what follows from a row.

def thousands: round | tostring | explode | reverse
    | [while(length > 0; .[3:]) | .[:3] | reverse | implode] | reverse | join(",");
def fixed($digits): (. * pow(10; $digits) | round) / pow(10; $digits) | tostring
    | if $digits == 0 or test("e") then . else (. + (if test("\\.") then "" else "." end) + "0" * $digits) | capture("(?<whole>[^.]*\\.[0-9]{\($digits)})").whole end;
def percent: if . == null then "—" else "\(. * 100 | fixed(1)) %" end;
def or_dash(f): if . == null then "—" else f end;
def line: "| " + (map(if . == null then "" else tostring end) | join(" | ")) + " |";
def table($head): if length == 0 then "Not measured." else ($head | line), ($head | map("---") | line), (.[] | line) end;

# events a second: over the whole pass, and between two moments of it (from the samples; null without enough of them)
def rate: if . == null then null elif .eventsPerSecond then .eventsPerSecond else .events * 1000 / ([.ms, 1] | max) end;
def done_at($ms): .samples as $s | last($s[] | select(.[0] <= $ms))[1] // 0;
def rate_between($from; $to): if $to - $from < 500 then null else (done_at($to) - done_at($from)) * 1000 / ($to - $from) end;
def quarters: . as $r | [range(4) as $q | $r | rate_between($r.ms * $q / 4; $r.ms * ($q + 1) / 4)];

# microseconds of CPU an event
def own: .cpuMicros.tallyd // .cpuMicros.self;
def of($server): .cpuMicros[$server];
def servers: of("redis") + of("mysql") + of("kafka");
def all_cpu: own + servers;
# the share of the records that got as far as this part
def reached: .events / (.events + (.leftOut // 0));
# the one whose rate is in the middle
def median: sort_by(rate) | .[(length - 1) / 2 | floor];
