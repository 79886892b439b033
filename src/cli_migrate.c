/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdio.h>

#include "cli.h"
#include "migrate.h"

static void print_applied(const char *name, void *ctx) {
    ++*(int *)ctx;
    printf("applied %s\n", name);
}

int cli_migrate(int argc, char **argv) {
    static const struct option options[] = {{"config", required_argument, NULL, 'c'}, {0}};
    const char *path = NULL;
    int c;
    while ((c = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
        if (c != 'c')
            return EXIT_USAGE;
        path = optarg;
    }
    if (!path || optind < argc) {
        cli_error("migrate", "usage", "tallyd migrate -c FILE", NULL);
        return EXIT_USAGE;
    }
    struct config *cfg = cli_config("migrate", path);
    if (!cfg)
        return EXIT_CONFIG;
    struct error err = {0};
    struct db *db = db_new(cfg, DB_READ_COMMITTED);
    int applied = 0;
    bool ok = migrate_apply(db, print_applied, &applied, &err);
    if (!ok)
        cli_error("migrate", "mysql", err.text, NULL);
    else if (applied == 0)
        printf("nothing to apply\n");
    db_free(db);
    config_free(cfg);
    return ok ? EXIT_OK : cli_exit_code(&err);
}
