#!/bin/sh
# SPDX-License-Identifier: MIT
# The page at / in a headless Chromium: its figures are those of /metrics and of the ledger, at rest and after more came without a
# reload; it says when a store is frozen, when the daemon hangs and when it's gone; what comes from outside stays text; nothing is too wide for
# a phone or too faint, light and dark. TALLYD_TEST_SHOTS=DIR: pictures.
set -eu
# shellcheck source=test/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=test/integration/lib_browser.sh
. "$(dirname "$0")/lib_browser.sh"
begin page 3
configure "$work/config.yaml" 'health: {probe_interval_ms: 200, probe_timeout_ms: 1000}'
seed=${TALLYD_TEST_SEED:-17}

server_pid() {
    cat "$TALLYD_TEST_DIR/$1/pid"
}
daemon=
thaw() {
    for thaw_pid in "$(server_pid redis)" "$(server_pid mysql)" $daemon; do
        kill -s CONT "$thaw_pid" 2>/dev/null || :
    done
}

# ---- the figures, from three sides ------------------------------------------------------------------------------------

# name value, a line each; what is zero has a line only where the page always shows it.
metrics_figures() {
    http_get tallyd /metrics >"$work/metrics" || return 1
    awk '
        function label(name) { return match($0, name "=\"[^\"]*\"") ? substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 3) : "" }
        /^#/ { next }
        /^tallyd_events_total/ { end[label("outcome")] += $NF; if (label("code") != "" && $NF > 0) print "rejection-" label("code"), $NF }
        /^tallyd_decisions_total/ && $NF > 0 { print "decision-" label("status"), $NF }
        /^tallyd_alerts_total/ && $NF > 0 { print "alert-" label("kind"), $NF }
        /^tallyd_partition_lag/ { lag += $NF; print "lag-" label("partition"), $NF }
        /^tallyd_outbox_pending/ { print "outbox", $NF; print "outboxPending", $NF }
        /^tallyd_outbox_failed/ { print "outboxFailed", $NF }
        /^tallyd_notifications_published_total/ { print "published", $NF }
        END {
            n = split("settled blocked duplicate rejected ignored", ends, " ")
            for (i = 1; i <= n; i++) print ends[i], end[ends[i]] + 0
            print "lag", lag + 0
        }' "$work/metrics" | LC_ALL=C sort
}

page_figures() {
    page_js 'return probe.figures()' | jq -r 'to_entries[] | "\(.key) \(.value)"' | grep -E \
        '^((settled|blocked|duplicate|rejected|ignored|lag|outbox|outboxPending|outboxFailed|published) |(lag|decision|alert|rejection)-)' | LC_ALL=C sort
}

figures_agree() {
    metrics_figures >"$work/figures.metrics" && page_figures >"$work/figures.page" && cmp -s "$work/figures.metrics" "$work/figures.page"
}

# At rest all three say the same.
at_rest() {
    await "$1: all is settled and told" 60 caught_up
    tries=0
    until figures_agree; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || die "$1: the page and /metrics differ: $(diff "$work/figures.page" "$work/figures.metrics")"
        sleep 0.1
    done
    for end in settled blocked duplicate rejected; do
        found=$(sed -n "s/^$end //p" "$work/figures.page")
        [ "$found" -gt 0 ] || die "$1: no $end"
        assert_eq "$1: $end by the ledger" "$(sql "SELECT SUM($end) FROM consumer_ledger WHERE topic = '$usage_topic'")" "$found"
    done
    for some in decision-NORMAL decision-WARNING_ alert-THRESHOLD rejection-INVALID_FIELD lag-2; do
        grep -q "^$some" "$work/figures.page" || die "$1: no figure $some"
    done
    assert_eq "$1: lag" 0 "$(sed -n 's/^lag //p' "$work/figures.page")"
}

shows() {
    [ "$(page_text 'return probe.state()')" = "$1" ]
}
is_up() {
    [ "$(page_text "return document.querySelector('[data-figure=up-$1]').textContent")" = "$2" ]
}

# ---- the cases --------------------------------------------------------------------------------------------------------

# frozen SERVER DEPENDENCY NAME: the page says so, names it, and takes it back.
frozen() {
    kill -s STOP "$(server_pid "$1")"
    await "the page says that $2 is frozen" 20 shows degraded
    await "$2 is down on the page" 10 is_up "$2" DOWN
    page_text 'return probe.text("reasons")' | grep -qi "$3" || die "the reasons don't name $3: $(page_text 'return probe.text("reasons")')"
    page_text 'return probe.text("said")' | grep -q '^Degraded\. ' || die "not read aloud: $(page_text 'return probe.text("said")')"
    page_text 'return document.title' | grep -q '^! Degraded' || die "the title: $(page_text 'return document.title')"
    page_shot "frozen-$2"
    kill -s CONT "$(server_pid "$1")"
    await "the page says that $2 is back" 30 shows ready
    await "$2 is up on the page" 10 is_up "$2" up
}

# Ids that would be markup and harm, in an alert and in a rejection (of one who isn't a member).
outside_is_text() {
    for evil in '200187 <img/src=x/onerror=window.owned=1>' '999 <svg/onload=window.owned=1></td><b>'; do
        jq -c --arg id "${evil#* }" --argjson customer "${evil%% *}" '.eventId = $id | .payload.customerId = $customer' \
            "$root/config/quickstart/event.json"
    done | kcat -b "$KAFKA_BROKERS" -P -t "$usage_topic" -k 100042 -X topic.partitioner=murmur2_random
    evil_shown() {
        page_text 'return probe.text("lastAlerts")' | grep -qF '<img/src=x/onerror=window.owned=1>' &&
            page_text 'return probe.text("lastRejections")' | grep -qF '<svg/onload=window.owned=1></td><b>'
    }
    await 'both ids are shown' 20 evil_shown
    assert_eq 'what became markup' ' 0' "$(page_text 'return [window.owned ?? null, document.querySelectorAll("img, td b, [onerror], [onload]").length].join(" ")')"
}

# Light and dark, on a phone and on a desk, in every state: nothing too wide or too faint.
looks_right() {
    for theme in light dark; do
        for width in 360 1280; do
            page_media "$theme" "$width" 900
            page_js 'return probe.tryAll()' >"$work/looks.json"
            assert_eq "$theme at $width" '[]' "$(jq -c . "$work/looks.json")"
            page_shot "$theme-$width"
        done
    done
    page_media light 1280 900
}

# A hidden tab asks nothing and doesn't claim to know; seen again it knows at once.
hidden_is_quiet() {
    page_js 'Object.defineProperty(document, "hidden", {configurable: true, get: () => true}); document.dispatchEvent(new Event("visibilitychange"))' \
        >/dev/null
    page_text 'return document.title' | grep -q '^(not asking) Ready at ' || die "the title: $(page_text 'return document.title')"
    asked=$(page_js 'return probe.asked')
    simulate more --families 300 --count 3000 --rate 1200 --broken 0.03 --seed $((seed + 1))
    await 'more is settled' 60 caught_up
    assert_eq 'requests of a hidden page' "$asked" "$(page_js 'return probe.asked')"
    ! figures_agree || die 'the hidden page knows what came'
    page_js 'delete document.hidden; document.dispatchEvent(new Event("visibilitychange"))' >/dev/null
}

nothing_to_complain() {
    page_console >"$work/console"
    assert_eq "$1: the browser's complaints" '' "$(cat "$work/console")"
    assert_eq "$1: policy violations" '[]' "$(page_js 'return probe.violations' | jq -c .)"
    assert_eq "$1: what was asked for" "$(http_at tallyd)/status.json" \
        "$(page_js 'return performance.getEntriesByType("resource").map(e => e.name)' | jq -r '.[]' | sort -u)"
    assert_eq "$1: requests at a time" 1 "$(page_js 'return probe.most')"
}

# What somebody got into the page after all does nothing: it names its own script and style and no others.
injected_is_dead() {
    page_js 'const add = (name, text) => document.body.appendChild(Object.assign(document.createElement(name), {textContent: text}));
        add("script", "window.owned = 1");
        add("style", "body { opacity: .5 }");
        add("p", "").outerHTML = "<p id=injected onclick=\"window.owned = 2\" style=\"opacity: .5\"></p>";
        document.getElementById("injected").click();
        const faint = n => getComputedStyle(n).opacity;
        window.injected = [window.owned ?? null, faint(document.body), faint(document.getElementById("injected"))].join(" ");' >/dev/null
    assert_eq 'what was injected' ' 1 1' "$(page_text 'return window.injected')"
    refused() {
        [ "$(page_text 'return [...new Set(probe.violations)].sort().join(", ")')" = \
            'script-src-attr inline, script-src-elem inline, style-src-attr inline, style-src-elem inline' ]
    }
    await 'all of it is refused' 10 refused
    page_console >/dev/null
}

old_and_grey() {
    [ "$(page_text 'return document.getElementById("figures").className')" = old ]
}

# ---- all of it on one page, which is loaded once ----------------------------------------------------------------------

simulate events --seed-db --families 300 --count 6000 --rate 0 --broken 0.02 --duplicates 0.03 --seed "$seed"
sql <"$root/config/quickstart/family.sql"
launch tallyd "$tallyd" run -c "$work/config.yaml"
daemon=$launched
browser_start
trap 'thaw; browser_finish; finish' EXIT
cdp Page.addScriptToEvaluateOnNewDocument "$(jq -nc --rawfile s "$root/test/support/page.js" '{source: $s}')"
page_media light 1280 900
await 'the daemon serves' 20 http_serves tallyd
page_open "$(http_at tallyd)/"
loaded=$(page_js 'return probe.loaded')
await 'the page says ready' 30 shows ready
page_text 'return document.title' | grep -q '^Ready – tallyd$' || die "the title: $(page_text 'return document.title')"
at_rest 'at first'
echo "ok page: $(wc -l <"$work/figures.page") figures are those of /metrics"

outside_is_text
hidden_is_quiet
at_rest 'after more'
[ "$(produced .produced.duplicate events)" -gt 0 ] || die 'no duplicates'
echo 'ok page: as many after more came'

looks_right
echo 'ok page: light and dark, 360 and 1280 wide, in every state'

frozen redis redis Redis
frozen mysql mysql MySQL
at_rest 'after both were frozen'
assert_eq 'it is the page loaded at first' "$loaded" "$(page_js 'return probe.loaded')"
nothing_to_complain 'with a daemon'
echo 'ok page: says that Redis and MySQL are frozen, and that they are back'

injected_is_dead
echo 'ok page: what is injected does nothing'

kill -s STOP "$daemon"
await 'the page says that nothing answers' 20 shows none
await 'its figures are grey' 5 old_and_grey
kill -s CONT "$daemon"
await 'the page says that it answers again' 20 shows ready
! old_and_grey || die 'the figures stay grey'
kill -s KILL "$daemon"
wait "$daemon" 2>/dev/null || :
daemon=
await 'the page says that nobody answers' 20 shows none
page_text 'return document.title' | grep -q '^! No answer' || die "the title: $(page_text 'return document.title')"
page_text 'return probe.text("since")' | grep -q '^since .*[0-9].*, ready until then' || die "since when: $(page_text 'return probe.text("since")')"
assert_eq 'requests at a time' 1 "$(page_js 'return probe.most')"
page_shot no-answer
page_console >"$work/console"
! grep -v 'network: .*/status.json' "$work/console" >"$work/complaints" || die "the browser complains: $(cat "$work/complaints")"
echo 'ok page: says that no answer comes, from a daemon that hangs and from none'
