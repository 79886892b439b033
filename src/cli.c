/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <stdio.h>

#include "period.h"

void cli_error(const char *command, const char *what, const char *why, const char *hint) {
    fprintf(stderr, "tallyd %s: %s: %s%s%s%s\n", command, what, why, hint ? " (" : "", hint ? hint : "",
            hint ? ")" : "");
}

int cli_exit_code(const struct error *err) {
    switch (err->area) {
    case ERROR_CONFIG:
        return EXIT_CONFIG;
    case ERROR_KAFKA:
        return EXIT_KAFKA;
    case ERROR_REDIS:
        return EXIT_REDIS;
    case ERROR_MYSQL:
        return EXIT_MYSQL;
    default:
        return EXIT_INTERNAL;
    }
}

struct config *cli_config(const char *command, const char *path) {
    struct error err = {0};
    struct config *cfg = config_load(path, &err);
    if (cfg && period_zone_init(cfg->zone, &err))
        return cfg;
    cli_error(command, "configuration", err.text, NULL);
    config_free(cfg);
    return NULL;
}
