/* SPDX-License-Identifier: MIT */
#include "draw.h"

#include <sys/random.h>

int64_t draw_number(void) {
    int64_t n = 0;
    while (n == 0) {
        if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n)
            n = 0;
        n &= INT64_MAX;
    }
    return n;
}
