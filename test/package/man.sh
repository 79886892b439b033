#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual pages: tallyd(1) has every command with every option that help tells of, tallyd.yaml(5) every key with its
# default; mandoc has nothing to say about them.
set -eu
# shellcheck source=test/package/lib.sh
. "$(dirname "$0")/lib.sh"
begin man
needs mandoc

own_make package >"$work/out" 2>&1 || die "make package: $(tail -n 3 "$work/out")"
for page in tallyd.1 tallyd.yaml.5; do
    # which pages this machine has is another matter
    mandoc -T lint -W style "$work/stage/$page" 2>/dev/null | grep -v ': referenced manual not found: ' >"$work/lint" || :
    [ ! -s "$work/lint" ] || die "$page: $(head -n 5 "$work/lint")"
    mandoc -T utf8 -O width=120 "$work/stage/$page" 2>/dev/null | sed 's/.\x08//g' >"$work/$page.txt"
    [ "$(wc -l <"$work/$page.txt")" -gt 80 ] || die "$page: is no page"
    ! grep -nE '@[a-z]+@' "$work/$page.txt" || die "$page: a place is not filled in"
done
echo 'ok man: mandoc is content'

# Without spaces: lines may break anywhere between words.
squeezed() {
    tr -d ' \n\t'
}
sed -n '/^COMMANDS/,/^[A-Z]*$/p' "$work/tallyd.1.txt" | squeezed >"$work/commands"
squeezed <"$work/tallyd.1.txt" >"$work/page"
commands=$("$tallyd" help | sed -n 's/^  tallyd \([a-z]*\).*/\1/p' | sort -u)
[ "$(echo "$commands" | wc -l)" -ge 8 ] || die 'help names hardly any command'
lines=0
for command in $commands; do
    grep -qE "^ {3}$command\$" "$work/tallyd.1.txt" || die "$command has no section"
    "$tallyd" help "$command" >"$work/help"
    # a line may be broken in the page where the option's text begins, so each half is looked for
    while IFS= read -r line; do
        printf '%s\n' "$line" | squeezed >"$work/wanted"
        [ -s "$work/wanted" ] || continue
        [ "$line" != "${line#Exit codes:}" ] || grep -qF -f "$work/wanted" "$work/page" || die "help $command: '$line' isn't in the manual"
        lines=$((lines + 1))
    done <"$work/help"
done
[ "$lines" -gt 100 ] || die "only $lines lines were compared"
for code in $("$tallyd" help | tr '\n' ' ' | sed -n 's/.*Exit codes: \(.*\)\. *Errors.*/\1/p' | grep -oE '[0-9]+ [a-zA-Z]' | cut -d ' ' -f 1); do
    sed -n '/^EXIT STATUS/,/^EXAMPLES/p' "$work/tallyd.1.txt" | grep -qE "^ +$code +[a-zA-Z]" || die "exit code $code is missing"
done
echo "ok man: tallyd(1) says what help says, $lines lines of it, of $(echo "$commands" | wc -l) commands"

# Keys by their whole names, from what the binary knows.
touch "$work/empty.yaml"
"$tallyd" check -c "$work/empty.yaml" --print >"$work/print"
awk '/^ *#/ || !/:/ { next }
    { match($0, /^ */); depth = RLENGTH / 2; name = substr($0, RLENGTH + 1); sub(/:.*/, "", name); names[depth] = name
      path = names[0]; for (i = 1; i <= depth; i++) path = path "." names[i]; print path }' "$work/print" >"$work/keys"
[ "$(wc -l <"$work/keys")" -ge 50 ] || die 'the configuration has hardly any key'
while read -r key; do
    grep -qE "^ {5}$key(:|  |\$)" "$work/tallyd.yaml.5.txt" || die "tallyd.yaml(5) lacks $key"
done <"$work/keys"
echo "ok man: tallyd.yaml(5) has all $(wc -l <"$work/keys") keys"

# A command that help gains is in the manual without another hand.
cat >"$work/tallyd" <<'END'
#!/bin/sh
case ${2:-} in
'') printf 'tallyd: x\n\n  tallyd frob -c FILE  frobs\n  tallyd frob list     lists\n\nExit codes: 0 done, 11 frobbed.\n' ;;
*) printf 'tallyd frob -c FILE [--hard]\ntallyd frob list\n\nFrobs. Twice.\n\n  --hard     harder, `now`\n             and here\n\n    .not a macro\n\nExit codes:\n  0  done\n  11 frobbed\n\nExample: tallyd frob\n' ;;
esac
END
chmod +x "$work/tallyd"
SYSCONFDIR=/etc DATADIR=/usr/share DOCDIR=/usr/share/doc sh scripts/manpage.sh config/man/tallyd.1.in "$work/tallyd" >"$work/frob.1"
mandoc -T lint -W warning "$work/frob.1" >"$work/lint" 2>&1 || die "a page with another command: $(cat "$work/lint")"
mandoc -T ascii "$work/frob.1" | sed 's/.\x08//g' >"$work/frob.txt"
# shellcheck disable=SC2016 # as it stands in the page
for text in '   frob$' 'tallyd frob list' '--hard  harder, `now` and here' '\.not a macro' '11      frobbed'; do
    grep -qE -e "$text" "$work/frob.txt" || die "another command's page lacks '$text'"
done
assert_eq 'sections of the command' 1 "$(grep -c '^   frob$' "$work/frob.txt")"
echo 'ok man: another command is in it by itself'
