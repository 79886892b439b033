/* SPDX-License-Identifier: MIT */
/* When a batch is full enough. While the settler has one in its hands another
 * could only wait for it, so it goes on growing; else a lone event goes soon.
 * So batches are as large as the stream is dense. Pure: no clock is read here. */
#ifndef TALLYD_FILL_H
#define TALLYD_FILL_H

#include <stdbool.h>
#include <stdint.h>

#define FILL_IDLE_MS 100 /* looks around at least this often */

struct fill {
    bool any;       /* the batch has a record */
    bool stopping;  /* nothing more is to be read */
    bool settling;  /* a batch is in the settler's hands */
    bool settled;   /* one is ready to be taken back */
    int64_t for_ms; /* since the first record, or since filling began */
    int64_t linger_ms;
};

/* With no record at hand: how long to wait for the next one; 0: what there is
 * is the batch. The settler's return is to end the wait early. */
int fill_wait_ms(const struct fill *f);

#endif
