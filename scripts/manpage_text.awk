# SPDX-License-Identifier: MIT
# Text in mdoc, for the other two.

function plain(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/`/, "\\(ga", s)
    gsub(/"/, "\\(dq", s)
    gsub(/…/, "\\[u2026]", s)
    if (s ~ /^[.']/)
        s = "\\&" s
    return s
}

# In lines of at most 78.
function wrapped(s,   words, n, i, line) {
    n = split(s, words, / +/)
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line) + 1 + length(words[i]) > 78) {
            print line
            line = ""
        }
        if (line == "" && words[i] ~ /^[.']/)
            words[i] = "\\&" words[i]
        line = line == "" ? words[i] : line " " words[i]
    }
    print line
}

# Each sentence begins a line, as mdoc wants it.
function prose(s) {
    s = plain(s)
    while (match(s, /[.?] +[A-Z]/)) {
        wrapped(substr(s, 1, RSTART))
        s = substr(s, RSTART + RLENGTH - 1)
    }
    wrapped(s)
}
