#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints C that defines the Content-Security-Policy of a page: page_policy.sh FILE. It names the page's one script and one style by
# their hashes, so that nothing else that came to stand in it would run.
set -eu
LC_ALL=C
export LC_ALL

# hash TAG: of what stands between <TAG> and </TAG>, as a policy takes it.
hash() {
	awk -v RS='\001' -v open="<$1>" -v close_="</$1>" -v any="<$1[ >]" '{
		text = $0
		if (gsub(any, "", text) != 1) exit 1
		from = index($0, open) + length(open)
		to = index($0, close_)
		if (from == length(open) || to < from) exit 1
		printf "%s", substr($0, from, to - from)
	}' "$file" >"$part" || {
		echo "page_policy.sh: $file: wanted is one <$1> without attributes" >&2
		return 1
	}
	printf "'sha256-%s'" "$(sha256sum "$part" | cut -c 1-64 | tr a-f A-F | basenc --base16 -d | base64)"
}

file=$1
part=$(mktemp)
trap 'rm -f "$part"' EXIT
script=$(hash script)
style=$(hash style)
cat <<EOF

const char embedded_page_policy[] =
    "default-src 'none'; script-src $script; "
    "style-src $style; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
EOF
