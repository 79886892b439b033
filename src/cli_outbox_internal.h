/* SPDX-License-Identifier: MIT */
/* What the parts of `tallyd outbox` share: its options, and a function a verb. */
#ifndef TALLYD_CLI_OUTBOX_INTERNAL_H
#define TALLYD_CLI_OUTBOX_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"

#define COMMAND "outbox"

struct outbox_options {
    const char *path, *verb, *status, *reason; /* reason: of a skip; NULL: it's a retry */
    int64_t family, limit;                     /* 0: not given */
    bool json, all_failed, dry_run, force;
    char **ids; /* borrowed: the rest of the arguments */
    size_t id_count;
};

/* cli_work_fn each, with the options above: a verb's whole work. */
int cli_outbox_list(const struct config *cfg, struct db *db, void *options);
int cli_outbox_show(const struct config *cfg, struct db *db, void *options);
int cli_outbox_change(const struct config *cfg, struct db *db, void *options);

/* A row's status as people say it: pending, failed, sent. */
const char *cli_outbox_word(const char *status);

#endif
