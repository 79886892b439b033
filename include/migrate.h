/* SPDX-License-Identifier: MIT */
/* Applies the migrations that travel in the binary, forward only. */
#ifndef TALLYD_MIGRATE_H
#define TALLYD_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "mysql_db.h"

/* Called for each migration that was applied. */
typedef void migrate_applied_fn(const char *name, void *ctx);

/* Applies what is missing, in order, one process at a time (GET_LOCK). A
 * statement that fails ends it with an error that names the migration; those
 * before it stay applied and recorded. `applied` may be NULL. */
bool migrate_apply(struct db *db, migrate_applied_fn *applied, void *ctx, struct error *err)
    __attribute__((warn_unused_result));

/* Counts the migrations of this binary that the database lacks. */
bool migrate_missing(struct db *db, size_t *missing, struct error *err) __attribute__((warn_unused_result));

#endif
