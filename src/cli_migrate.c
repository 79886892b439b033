/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "migrate.h"

#define COMMAND "migrate"
/* A change of a large table takes its time, and so does waiting for another migration. Whoever waits can see
 * it and stop it. */
#define ANSWER_TIMEOUT_MS (INT64_C(24) * 3600 * 1000)

enum action { APPLY, STATUS, DRY_RUN };

/* ---- applying ---- */

static void print_applied(const char *name, void *ctx) {
    ++*(int *)ctx;
    printf("applied %s\n", name);
    fflush(stdout);
}

static void print_newer(const struct migrate_state *state) {
    for (size_t i = 0; i < state->count; i++) {
        if (state->entries[i].status == MIGRATE_NEWER)
            printf("%s was applied by a newer tallyd; this one can run on it\n", state->entries[i].name);
    }
}

static int apply(struct db *db) {
    struct error err = {0};
    struct migrate_state state;
    int applied = 0;
    bool lock_free = true;
    if (!migrate_lock_free(db, &lock_free, &err))
        return cli_failed(COMMAND, &err);
    if (!lock_free) {
        printf("waiting for another migration to end\n");
        fflush(stdout);
    }
    if (!migrate_apply(db, print_applied, &applied, &err) || !migrate_read(db, &state, &err))
        return cli_failed(COMMAND, &err);
    if (applied == 0)
        printf("nothing to apply\n");
    print_newer(&state);
    migrate_state_free(&state);
    return EXIT_OK;
}

/* ---- looking ---- */

static void print_state(const struct migrate_state *state) {
    int width = (int)strlen("NAME");
    for (size_t i = 0; i < state->count; i++) {
        int len = (int)strlen(state->entries[i].name);
        width = len > width ? len : width;
    }
    printf("VERSION  %-*s  STATE    APPLIED AT (UTC)\n", width, "NAME");
    for (size_t i = 0; i < state->count; i++) {
        const struct migrate_entry *e = &state->entries[i];
        printf("%04d     %-*s  %-7s%s%s\n", e->version, width, e->name, migrate_status_name(e->status),
               e->applied_at ? "  " : "", e->applied_at ? e->applied_at : "");
    }
}

/* Both change nothing. `--status` answers by its exit code too: would `tallyd run` start? */
static int look(struct db *db, enum action action) {
    struct error err = {0};
    struct migrate_state state;
    int code = EXIT_OK;
    if (!migrate_read(db, &state, &err))
        return cli_failed(COMMAND, &err);
    if (action == STATUS)
        print_state(&state);
    if (!migrate_judge(&state, &err)) {
        code = cli_failed(COMMAND, &err);
    } else if (action == STATUS && state.number[MIGRATE_MISSING]) {
        char why[64];
        snprintf(why, sizeof why, "the database lacks %zu of %zu migrations", state.number[MIGRATE_MISSING],
                 state.count);
        cli_error(COMMAND, "schema", why, "run `tallyd migrate -c FILE`");
        code = EXIT_SCHEMA;
    } else if (action == DRY_RUN) {
        struct buf sql = {0};
        migrate_append_sql(db, &state, &sql);
        fputs(sql.len ? buf_cstr(&sql) : "-- nothing to apply\n", stdout);
        buf_free(&sql);
    }
    migrate_state_free(&state);
    return code;
}

/* ---- the command ---- */

static int read_options(int argc, char **argv, const char **path, enum action *action) {
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"status", no_argument, NULL, 's'},
                                            {"dry-run", no_argument, NULL, 'n'},
                                            {0}};
    int c;
    while ((c = cli_option(argc, argv, ":c:", options)) != -1) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'c')
            *path = optarg;
        else if (*action != APPLY)
            return cli_usage(COMMAND, "", "only one of --status and --dry-run, and once");
        else
            *action = c == 's' ? STATUS : DRY_RUN;
    }
    if (optind < argc)
        return cli_usage(COMMAND, argv[optind], "is one argument too many");
    return *path ? EXIT_OK : cli_usage(COMMAND, "-c FILE", "is missing");
}

int cli_migrate(int argc, char **argv) {
    const char *path = NULL;
    enum action action = APPLY;
    int code = read_options(argc, argv, &path, &action);
    if (code != EXIT_OK)
        return code;
    struct config *cfg = cli_config(COMMAND, path);
    if (!cfg)
        return EXIT_CONFIG;
    struct config patient = *cfg; /* its texts are cfg's */
    if (action == APPLY)
        patient.mysql.timeout_ms = ANSWER_TIMEOUT_MS;
    struct db *db = db_new(&patient, DB_READ_COMMITTED);
    code = action == APPLY ? apply(db) : look(db, action);
    db_free(db);
    config_free(cfg);
    return code;
}
