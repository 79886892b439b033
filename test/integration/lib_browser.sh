# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# A headless Chromium for the tests that look at a page, spoken to over the W3C WebDriver protocol by curl and jq. Sourced after
# lib.sh. It resolves no name and knows no proxy, so it reaches nothing but this machine.
#
#   browser_start               sets trap EXIT anew: the browser ends first, then what lib.sh ends
#   page_open URL               waits until it's loaded
#   page_js SCRIPT [JSON]       what the function body SCRIPT returns, as JSON; arguments[0] is JSON
#   page_text SCRIPT            the same as text
#   page_media THEME WIDTH HEIGHT
#   page_shot NAME              the whole page, into $TALLYD_TEST_SHOTS when that's set
#   page_console                what the browser complained of since the last call, a line each

# shellcheck disable=SC2154 # work, root: from lib.sh
driver=
session=
browser_pid=

# wd METHOD PATH [BODY]: the answer's value lies in $work/wd.json; an error's too, and then it fails.
wd() {
    wd_body=${3:-}
    [ -n "$wd_body" ] || [ "$1" != POST ] || wd_body='{}'
    printf '%s' "$wd_body" >"$work/wd.body"
    if [ "$1" = POST ]; then
        curl -sS --noproxy '*' --max-time 60 -X POST -H 'Content-Type: application/json' --data-binary "@$work/wd.body" "$driver$2"
    else
        curl -sS --noproxy '*' --max-time 60 -X "$1" "$driver$2"
    fi >"$work/wd.raw" || return 1
    jq '.value' "$work/wd.raw" >"$work/wd.json" && jq -e 'if type == "object" then .error == null else true end' "$work/wd.json" >/dev/null
}

must_wd() {
    wd "$@" || die "the browser: $1 $2: $(head -c 1000 "$work/wd.raw")"
}

# The developer tools' protocol: cdp COMMAND PARAMETERS
cdp() {
    must_wd POST "$session/goog/cdp/execute" "{\"cmd\":\"$1\",\"params\":$2}"
}

driver_listens() {
    driver_port=$(sed -n 's/.*started successfully on port \([0-9]*\).*/\1/p' "$work/chromedriver.log" 2>/dev/null)
    [ -n "$driver_port" ]
}

browser_finish() {
    [ -z "$session" ] || wd DELETE "$session" || :
    # its main process; the others end with it
    if [ -n "$browser_pid" ] && { tr '\0' ' ' <"/proc/$browser_pid/cmdline"; } 2>/dev/null | grep -qF "$work/browser"; then
        kill -s KILL "$browser_pid" 2>/dev/null || :
    fi
}

browser_arguments() {
    jq -nc '$ARGS.positional' --args -- --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --no-default-browser-check \
        --disable-background-networking --disable-component-update --disable-sync --disable-default-apps --disable-extensions \
        --disable-domain-reliability --disable-client-side-phishing-detection --metrics-recording-only --disable-dev-shm-usage \
        --disable-features=OptimizationHints,MediaRouter,Translate,AutofillServerCommunication --no-proxy-server --force-color-profile=srgb \
        '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1' "--user-data-dir=$work/browser" "--disk-cache-dir=$work/browser.cache"
}

browser_start() {
    command -v chromedriver >/dev/null || die "no chromedriver: sh scripts/deps.sh test"
    trap 'browser_finish; finish' EXIT
    launch chromedriver env HOME="$work" XDG_CONFIG_HOME="$work" XDG_CACHE_HOME="$work" TMPDIR="$work" chromedriver --port=0
    await 'chromedriver listens' 30 driver_listens
    driver=http://127.0.0.1:$driver_port
    must_wd POST /session "{\"capabilities\":{\"alwaysMatch\":{\"goog:loggingPrefs\":{\"browser\":\"ALL\"},
        \"timeouts\":{\"script\":20000,\"pageLoad\":20000},\"goog:chromeOptions\":{\"args\":$(browser_arguments)}}}}"
    session=/session/$(jq -r .sessionId "$work/wd.json")
    browser_pid=$(jq -r '.capabilities["goog:processID"] // empty' "$work/wd.json")
}

page_open() {
    must_wd POST "$session/url" "{\"url\":\"$1\"}"
}

page_js() {
    must_wd POST "$session/execute/sync" "$(jq -nc --arg script "$1" --argjson argument "${2:-null}" '{script: $script, args: [$argument]}')"
    cat "$work/wd.json"
}

page_text() {
    page_js "$@" | jq -r .
}

page_media() {
    cdp Emulation.setEmulatedMedia "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"$1\"}]}"
    cdp Emulation.setDeviceMetricsOverride "{\"width\":$2,\"height\":$3,\"deviceScaleFactor\":1,\"mobile\":false}"
}

page_shot() {
    [ -n "${TALLYD_TEST_SHOTS:-}" ] || return 0
    mkdir -p "$TALLYD_TEST_SHOTS"
    shot_clip=$(page_js 'return {x: 0, y: 0, width: innerWidth, height: document.documentElement.scrollHeight, scale: 1}')
    cdp Page.captureScreenshot "{\"captureBeyondViewport\":true,\"clip\":$shot_clip}"
    jq -r .data "$work/wd.json" | base64 -d >"$TALLYD_TEST_SHOTS/$1.png"
}

page_console() {
    must_wd POST "$session/se/log" '{"type":"browser"}'
    jq -r '.[] | "\(.level) \(.source): \(.message)"' "$work/wd.json"
}
