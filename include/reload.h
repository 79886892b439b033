/* SPDX-License-Identifier: MIT */
/* What SIGHUP does: the configuration's file is read again, and its log.level holds from then on. Nothing
 * else of it does; which other keys have changed is said, so that nobody believes they hold. */
#ifndef TALLYD_RELOAD_H
#define TALLYD_RELOAD_H

#include "config.h"

/* Reads `path` and takes over its level; `running` is what the process was started with. Tells the log what
 * came of it, whatever the level. A file that isn't right changes nothing. */
void reload_log_level(const char *path, const struct config *running);
/* Appends the names of keys that differ, with ", " between; log.level doesn't count. Never values. */
void reload_changed_keys(const struct config *a, const struct config *b, struct buf *out);

#endif
