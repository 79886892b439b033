/* SPDX-License-Identifier: MIT */
#include "version.h"

#ifndef VERSION_TEXT
#define VERSION_TEXT "unknown"
#endif

const char *version_text(void) {
    return VERSION_TEXT;
}
