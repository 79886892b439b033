# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# How the demo talks: steps with their times, colour where it is wanted, figures people can read. Sourced.
# shellcheck disable=SC2034 # who sources it uses what is set here

# A terminal gets colour and a bar, everything else plain lines. NO_COLOR: no-color.org.
ui_tty=
bold='' dim='' green='' red='' yellow='' plain=''
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then
    ui_tty=1
    if [ -z "${NO_COLOR:-}" ]; then
        bold=$(printf '\033[1m') dim=$(printf '\033[2m') green=$(printf '\033[32m') red=$(printf '\033[31m')
        yellow=$(printf '\033[33m') plain=$(printf '\033[0m')
    fi
fi

now_ms() {
    date +%s%3N
}

# step TEXT: begins one; its line stays open until step_done.
step() {
    step_since=$(now_ms)
    printf '  %-38s' "$1"
}

# step_done NOTE [SINCE]
step_done() {
    step_ms=$(($(now_ms) - ${2:-$step_since}))
    printf '%-42s %s%4d.%d s%s\n' "$1" "$dim" $((step_ms / 1000)) $((step_ms % 1000 / 100)) "$plain"
}

# give_up WHAT HINT [LOG]: the demo can't go on.
give_up() {
    printf '\n\n%smake demo: %s%s\n' "$red" "$1" "$plain" >&2
    if [ -s "${3:-}" ]; then
        echo "  the end of what it said:" >&2
        tail -n 15 "$3" | cut -c 1-300 | sed 's/^/    /' >&2
    fi
    printf '  %s\n' "$2" >&2
    exit 1
}

rule() {
    printf '%s' "$dim"
    printf '─%.0s' $(seq 94)
    printf '%s\n' "$plain"
}

# awk functions that all tables write their figures with.
figures='
function thousands(n,    text, out) {
    text = sprintf("%.0f", n)
    for (out = ""; length(text) > 3; text = substr(text, 1, length(text) - 3))
        out = "," substr(text, length(text) - 2) out
    return text out
}
function share(n, of) { return sprintf("%.1f %%", of ? 100 * n / of : 0) }
function amount(b) {
    if (b >= 1e12) return sprintf("%.2f TB", b / 1e12)
    if (b >= 1e9) return sprintf("%.2f GB", b / 1e9)
    if (b >= 1e6) return sprintf("%.1f MB", b / 1e6)
    if (b >= 1e3) return sprintf("%.1f kB", b / 1e3)
    return b " B"
}
function bar(part, width,    i, out) {
    out = ""
    for (i = 0; i < width; i++) out = out (i + 0.5 <= part * width ? "█" : "·")
    return out
}'

thousands() {
    awk "$figures"' BEGIN { print thousands(ARGV[1]) }' "$1"
}
