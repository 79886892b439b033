#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints a C file that holds the named files' bytes: embed.sh FILE…
set -eu
LC_ALL=C
export LC_ALL

printf '/* Made by scripts/embed.sh. */\n#include "embedded.h"\n\n#include <string.h>\n\n'
i=0
for f in "$@"; do
	printf 'static const char file_%d[] = {\n' "$i"
	od -An -v -tu1 "$f" | sed 's/  *\([0-9][0-9]*\)/(char)\1,/g'
	printf '0};\n'
	i=$((i + 1))
done
printf 'const struct embedded_file embedded_files[] = {\n'
i=0
for f in "$@"; do
	printf '{"%s", file_%d, sizeof file_%d - 1},\n' "$f" "$i" "$i"
	i=$((i + 1))
done
cat <<'EOF'
{NULL, NULL, 0}};

const struct embedded_file *embedded_find(const char *path) {
    for (const struct embedded_file *f = embedded_files; f->path; f++) {
        if (strcmp(f->path, path) == 0)
            return f;
    }
    return NULL;
}
EOF
