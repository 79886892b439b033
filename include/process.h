/* SPDX-License-Identifier: MIT */
/* What the kernel says of this process. */
#ifndef TALLYD_PROCESS_H
#define TALLYD_PROCESS_H

#include <stdint.h>

struct process_figures {
    double cpu_seconds;
    int64_t resident_bytes;
    int64_t open_fds;
};
/* What can't be read is 0. */
void process_look(struct process_figures *out);

#endif
