/* SPDX-License-Identifier: MIT */
/* What `tallyd dlt` is asked for. Both functions return EXIT_OK, or EXIT_USAGE after a message. */
#ifndef TALLYD_CLI_DLT_H
#define TALLYD_CLI_DLT_H

#include <stdbool.h>
#include <stdint.h>

#include "dlt_reader.h"

/* Texts are borrowed from argv. */
struct cli_dlt_options {
    const char *path, *verb, *place, *topic; /* place: PARTITION:OFFSET, of show */
    const char *since, *until;               /* as written */
    struct dlt_selection sel;
    int64_t limit; /* rows */
    bool json, raw, yes, limited, selects, from;
};

/* But for the times, all of it is checked. */
int cli_dlt_read_options(int argc, char **argv, struct cli_dlt_options *o);
/* Once the zone is known: the times into `sel`. */
int cli_dlt_read_times(struct cli_dlt_options *o);

#endif
