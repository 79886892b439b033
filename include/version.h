/* SPDX-License-Identifier: MIT */
/* Which build this is. */
#ifndef TALLYD_VERSION_H
#define TALLYD_VERSION_H

/* As `git describe` had it; "unknown" where there was no repository. */
const char *version_text(void);

#endif
