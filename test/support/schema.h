/* SPDX-License-Identifier: MIT */
/* A small validator for JSON Schema draft 2020-12: the keywords that config/schemas uses, as the
 * specification means them (1.0 is an integer, lengths count characters, a pattern may match anywhere).
 * Patterns are compiled as POSIX extended expressions of UTF-8, so they keep to what those and ECMA 262 have
 * in common: no \d, no look-ahead. */
#ifndef TALLYD_TEST_SCHEMA_H
#define TALLYD_TEST_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define SCHEMA_WHY_SIZE 512

/* Is every keyword in the whole schema one that is known here, and its value of the right kind? What isn't
 * would otherwise be left unchecked in silence. `why` says where not. */
bool schema_usable(const json_t *schema, char why[SCHEMA_WHY_SIZE]) __attribute__((warn_unused_result));

/* Does the value meet the (usable) schema? `why` says which part of it doesn't. */
bool schema_meets(const json_t *schema, const json_t *value, char why[SCHEMA_WHY_SIZE])
    __attribute__((warn_unused_result));

#endif
