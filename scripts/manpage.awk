# SPDX-License-Identifier: MIT
# A page of `tallyd help COMMAND` as a subsection in mdoc (part=page, command=NAME), or the exit codes of `tallyd help`
# (part=codes). The usage is what stands before the first empty line; an option begins with two spaces, and its text in
# the column where the others' do; other text is paragraphs, or literal where it's indented otherwise.

function flush() {
    if (text != "")
        prose(text)
    text = ""
}

function add(s) {
    text = text == "" ? s : text " " s
}

function leave() {
    flush()
    if (state == "list")
        print ".El"
    if (state == "literal" || state == "usage")
        print ".Ed"
    state = ""
}

function enter(next_state) {
    if (state == next_state)
        return
    leave()
    state = next_state
    if (state == "list")
        print ".Bl -tag -width Ds -compact"
    if (state == "literal")
        print ".Bd -literal -offset indent -compact"
}

function item(tag, s) {
    enter("list")
    flush()
    printf ".It Xo\n%s\n.Xc\n", plain(tag)
    add(s)
}

# Where the options' texts begin: the column of most lines that have a gap in front of it.
function find_column(   i, c, best) {
    delete votes
    for (i = 1; i <= count; i++) {
        if (match(lines[i], /^  [^ ].*[^ ]  +[^ ]/)) {
            c = match(substr(lines[i], 3), /  +[^ ]/) + 2 + RLENGTH - 1
            if (++votes[c] > votes[best])
                best = c
        }
    }
    return best ? best : 22
}

# An option's line: its tag up to the column, or up to its own gap; an exit code's up to the text.
function option(s,   at) {
    at = s ~ /^  [0-9]/ ? 6 : column
    if (!(substr(s, at - 1, 1) == " " && substr(s, at, 1) != " " && substr(s, at) != ""))
        at = match(substr(s, 3), /  +[^ ]/) ? RSTART + 2 + RLENGTH - 1 : 0
    if (!at)
        return item(substr(s, 3), "")
    tag = substr(s, 3, at - 3)
    sub(/ +$/, "", tag)
    item(tag, substr(s, at))
}

# Commands stay in one piece.
function example(s) {
    print "Example:"
    enter("literal")
    print plain(s)
}

function page(   i, s, pending) {
    column = find_column()
    print ".Ss " command
    print ".Bd -literal -compact"
    state = "usage"
    for (i = 1; i <= count; i++) {
        s = lines[i]
        if (s == "") {
            if (state == "usage" || state != "")
                leave()
            flush()
            pending = 1
            continue
        }
        if (state == "usage") {
            print plain(s)
            continue
        }
        if (pending)
            print ".Pp"
        pending = 0
        if (s ~ /^  [^ ]/)
            option(s)
        else if (s ~ /^   / && state == "list") {
            sub(/^ +/, "", s)
            add(s)
        } else if (s ~ /^ /) {
            enter("literal")
            print plain(s)
        } else {
            if (state != "")
                leave()
            if (sub(/^Example: /, "", s))
                example(s)
            else
                add(s)
        }
    }
    leave()
}

{ lines[++count] = $0 }

END {
    if (part == "page")
        page()
    else {
        for (i = 1; i <= count; i++) {
            inside = inside && lines[i] != "" || lines[i] ~ /^Exit codes: /
            # what stands behind the codes is in the template
            if (inside && lines[i] !~ /^Errors go/)
                codes = codes (codes == "" ? "" : " ") lines[i]
        }
        sub(/^Exit codes: /, "", codes)
        sub(/\.$/, "", codes)
        n = split(codes, list, /, /)
        print ".Bl -tag -width Ds -compact"
        for (i = 1; i <= n; i++) {
            code = list[i]
            sub(/ .*/, "", code)
            sub(/^[0-9]+ /, "", list[i])
            printf ".It %s\n%s\n", code, plain(list[i])
        }
        print ".El"
    }
}
