/* SPDX-License-Identifier: MIT */
/* What a text in the configuration stands for. ${NAME} is the environment's
 * variable NAME, $${ is a plain ${, and where a secret is wanted file:PATH is
 * what that file holds. What came from outside isn't looked into again, so a
 * password may hold any of these. Errors name what stands in the configuration,
 * never what it stands for. */
#ifndef TALLYD_CONFIG_VALUE_H
#define TALLYD_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "config_yaml.h"

/* The text a scalar stands for; of a file at most `max` bytes. `file` is the configuration's path: files are
 * looked for in its folder. Returns a new text, freed with config_value_free, or NULL with an error. */
char *config_value_new(const char *file, const struct config_node *n, bool secret, size_t max,
                       struct error *err) __attribute__((warn_unused_result));

/* Wipes and frees; NULL is allowed. */
void config_value_free(char *text);

/* Whether the text stands for another one. */
bool config_value_is_derived(const char *text, bool secret);

/* Appends a text so that it stands for itself again. */
void config_value_escape(const char *text, struct buf *out);

#endif
