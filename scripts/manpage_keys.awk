# SPDX-License-Identifier: MIT
# config/tallyd.yaml in mdoc: the comment it begins with (part=intro), or its keys (part=keys), each with the comment above it
# and the one behind it. In a comment, what is indented is literal.

function paragraph() {
    if (text != "")
        prose(text)
    text = ""
}

# The comment so far.
function tell(   i, s, literal, gap) {
    for (i = 1; i <= comments; i++) {
        s = comment[i]
        if (literal && s !~ /^  /) {
            print ".Ed"
            literal = 0
        }
        if (s == "") {
            paragraph()
            gap = 1
        } else if (s ~ /^  /) {
            paragraph()
            if (!literal)
                print ".Bd -literal -offset 2n"
            literal = 1
            print plain(substr(s, 3))
        } else {
            if (gap)
                print ".Pp"
            gap = 0
            text = text == "" ? s : text " " s
        }
    }
    paragraph()
    if (literal)
        print ".Ed"
    comments = 0
}

function key_line(s,   depth, name, value, i, path) {
    match(s, /^ */)
    depth = RLENGTH / 2
    name = substr(s, RLENGTH + 1)
    value = name
    sub(/:.*/, "", name)
    sub(/^[^:]*: */, "", value)
    if (match(value, / +# /)) {
        comment[++comments] = substr(value, RSTART + RLENGTH)
        value = substr(value, 1, RSTART - 1)
    }
    names[depth] = name
    path = names[0]
    for (i = 1; i <= depth; i++)
        path = path "." names[i]
    if (!open) {
        print ".Bl -tag -width Ds"
        open = 1
    }
    printf ".It Ic %s%s\n", plain(path), value == "" ? "" : ": " plain(value)
    tell()
}

/^# SPDX/ || done { next }
/^ *#/ {
    sub(/^ *# ?/, "")
    if (!started && /^tallyd\.yaml: /)
        sub(/^tallyd\.yaml: e/, "E")
    started = 1
    comment[++comments] = $0
    next
}
/^ *$/ {
    if (!introduced) {
        introduced = 1
        if (part == "intro") {
            tell()
            done = 1
        }
        comments = 0
    }
    next
}
part == "keys" { key_line($0) }
END { if (open) print ".El" }
