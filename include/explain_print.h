/* SPDX-License-Identifier: MIT */
/* What `tallyd explain` prints on standard output. */
#ifndef TALLYD_EXPLAIN_PRINT_H
#define TALLYD_EXPLAIN_PRINT_H

#include "explain.h"

void explain_print(const struct explanation *x);      /* for people */
void explain_print_json(const struct explanation *x); /* one document; `verdict` is the answer */

#endif
