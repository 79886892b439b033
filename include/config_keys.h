/* SPDX-License-Identifier: MIT */
/* The table of keys behind config.h, for what reads and prints it. */
#ifndef TALLYD_CONFIG_KEYS_H
#define TALLYD_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define CONFIG_KEYS_MAX 96

/* What a value must look like. */
struct config_rule {
    bool (*accepts)(const char *text); /* texts */
    const char *must;                  /* "must be …" */
    const char *const *words;          /* CONFIG_CHOICE: in the order of the enum, ended by NULL */
};

/* What must hold between whole numbers. */
struct config_order {
    const char *larger, *smaller;
    const char *and; /* a key that is added to the smaller; NULL: none */
    int64_t by;      /* added to the smaller, too */
    bool strict;     /* equal isn't enough */
    const char *why;
    bool unless_zero; /* a larger one of 0 stands for none */
};

const struct config_order *config_orders(size_t *count);

/* NULL when there is no such key. */
const struct config_key *config_find_key(const char *name);
/* Whether keys lie under this name. */
bool config_is_section(const char *name);

/* Where a key's value lies. */
static inline void *config_member(const struct config *c, const struct config_key *k) {
    return (char *)c + k->offset;
}

/* The same for CONFIG_STRING and CONFIG_SECRET. */
static inline char **config_member_text(const struct config *c, const struct config_key *k) {
    return config_member(c, k);
}

#endif
