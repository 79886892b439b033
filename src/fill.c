/* SPDX-License-Identifier: MIT */
#include "fill.h"

static int at_most(int64_t left_ms, int64_t limit_ms) {
    return left_ms <= 0 ? 0 : (int)(left_ms < limit_ms ? left_ms : limit_ms);
}

int fill_wait_ms(const struct fill *f) {
    if (f->stopping)
        return 0;
    if (f->any)
        return f->settling ? FILL_IDLE_MS : at_most(f->linger_ms - f->for_ms, FILL_IDLE_MS);
    return f->settled ? 0 : at_most(FILL_IDLE_MS - f->for_ms, FILL_IDLE_MS);
}
