/* SPDX-License-Identifier: MIT */
#ifndef TALLYD_DRAW_H
#define TALLYD_DRAW_H

#include <stdint.h>

/* A random 63-bit number, never 0: owners, generations, leases. Never fails; waits for the kernel's pool at
 * boot. */
int64_t draw_number(void);

#endif
