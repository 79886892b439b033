# SPDX-License-Identifier: MIT
# scale.sh's pictures: gnuplot -e "work='FOLDER'; out='PREFIX'" pictures.gp
set terminal svg size 800,420 font 'sans-serif,13' background 'white'
set logscale x
set format x '%.0s%c'
set xlabel 'families'
set grid
set key outside right top

set output out.'-throughput.svg'
set ylabel 'events/s'
set y2label 'µs of CPU an event'
set ytics nomirror
set y2tics
set yrange [0:*]
set y2range [0:*]
plot work.'/throughput.tsv' using 1:2 with linespoints lw 3 pt 7 title 'events/s', \
    '' using 1:3 axes x1y2 with linespoints dt 2 title 'tallyd, µs', \
    '' using 1:4 axes x1y2 with linespoints dt 2 title 'Redis, µs', \
    '' using 1:5 axes x1y2 with linespoints dt 2 title 'MariaDB, µs', \
    '' using 1:6 axes x1y2 with linespoints dt 2 title 'Kafka, µs'

set output out.'-latency.svg'
unset y2label
unset y2tics
set ytics mirror
set ylabel 'ms from produced'
plot work.'/latency.tsv' using 1:2 with linespoints lw 2 title 'committed, p50', \
    '' using 1:3 with linespoints lw 2 title 'committed, p99', \
    '' using 1:4 with linespoints dt 2 title 'notification, p50', \
    '' using 1:5 with linespoints dt 2 title 'notification, p99'
