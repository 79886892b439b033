/* SPDX-License-Identifier: MIT */
/* The table of the log's events against the source: each LOG names an event of the table, at its levels and
 * with exactly its fields, in their order; and each row is used, with each of its levels. */
#include "log_events.h"

#include <ctype.h>
#include <glob.h>

#include "buf.h"
#include "testing.h"

#define ARGS_MAX 40

/* Every file of src/, one after the other. */
static char *source;
static unsigned *used; /* levels of each row that were found */

static void read_source(void) {
    glob_t found;
    size_t len = 0;
    ck_assert_int_eq(glob("src/*.c", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        size_t n;
        char *text = testing_file(found.gl_pathv[i], &n);
        source = mem_realloc(source, len + n + 1);
        memcpy(source + len, text, n + 1);
        len += n;
        free(text);
    }
    globfree(&found);
}

/* Behind the text in quotes that begins at `s`. */
static char *behind_text(char *s) {
    char quote = *s++;
    while (*s && *s != quote)
        s += *s == '\\' && s[1] ? 2 : 1;
    return *s ? s + 1 : s;
}

/* The arguments of the call whose bracket opens at `open`, each a copy; returns how many. */
static int arguments(char *open, char *args[ARGS_MAX]) {
    int depth = 0, n = 0;
    char *from = open + 1;
    for (char *s = open; *s;) {
        if (*s == '"' || *s == '\'') {
            s = behind_text(s);
            continue;
        }
        bool opens = strchr("([{", *s), closes = strchr(")]}", *s);
        depth += opens - closes;
        if ((*s == ',' && depth == 1) || depth == 0) {
            while (isspace((unsigned char)*from))
                from++;
            ck_assert_int_lt(n, ARGS_MAX);
            args[n++] = strndup(from, (size_t)(s - from));
            from = s + 1;
        }
        if (depth == 0)
            return n;
        s++;
    }
    ck_abort_msg("a call without an end: %.60s", open);
    return 0;
}

static void free_arguments(char *args[], int n) {
    for (int i = 0; i < n; i++)
        free(args[i]);
}

/* The next call of a function at or behind `s`, at its opening bracket; NULL when there is none. */
static char *next_call(char *s, const char *name) {
    size_t len = strlen(name);
    while ((s = strstr(s, name))) {
        bool whole = s == source || !(isalnum((unsigned char)s[-1]) || s[-1] == '_');
        if (whole && s[len] == '(')
            return s + len;
        s += len;
    }
    return NULL;
}

static unsigned levels_of(const char *expression) {
    static const char *const names[] = {"LOG_DEBUG", "LOG_INFO", "LOG_WARN", "LOG_ERROR"};
    unsigned levels = 0;
    for (int i = 0; i < 4; i++)
        levels |= strstr(expression, names[i]) ? LOG_LEVEL_BIT(i) : 0;
    return levels;
}

/* As in the table; "" when it's none of the macros. */
static void field_of(const char *argument, char out[80]) {
    char kind, name[60];
    *out = '\0';
    if (strncmp(argument, "LOG_E(", 6) == 0)
        strcpy(out, "error");
    else if (sscanf(argument, "LOG_%c(\"%59[a-z_]\"", &kind, name) == 2)
        snprintf(out, 80, "%s%s", name, kind == 'O' ? "?" : "");
}

static void check_against(const char *event, unsigned levels, char *fields[], int n, const char *at) {
    char written[1000] = "", field[80];
    const struct log_event *row = log_event_find(event);
    ck_assert_msg(row != NULL, "%s isn't in the table (src/log_events.c): %.80s", event, at);
    for (int i = 0; i < n; i++) {
        field_of(fields[i], field);
        ck_assert_msg(*field, "%s: a field that isn't written by its name: %s", event, fields[i]);
        snprintf(written + strlen(written), sizeof written - strlen(written), "%s%s", i ? " " : "", field);
    }
    ck_assert_msg(strcmp(written, row->fields) == 0, "%s: the table says the fields\n  %s, the source\n  %s",
                  event, row->fields, written);
    ck_assert_msg(levels && (levels & ~row->levels) == 0, "%s: a level that the table doesn't know", event);
    size_t count;
    used[row - log_events(&count)] |= levels;
}

/* The name of the function that holds `s`: of the last line before it that begins with a letter. */
static void function_around(char *s, char out[80]) {
    while (s > source && !(s[-1] == '\n' && isalpha((unsigned char)*s)))
        s--;
    char *bracket = strchr(s, '('), *from = bracket;
    while (from > s && (isalnum((unsigned char)from[-1]) || from[-1] == '_'))
        from--;
    snprintf(out, 80, "%.*s", (int)(bracket - from), from);
}

static bool literal(const char *argument, char out[80]) {
    return sscanf(argument, "\"%79[a-z_]\"", out) == 1;
}

/* A function that logs what its caller names. */
static void check_callers(const char *function, unsigned levels, char *fields[], int n) {
    char *args[ARGS_MAX], event[80];
    int events = 0;
    for (char *s = source; (s = next_call(s, function));) {
        int count = arguments(s, args);
        for (int i = 0; i < count; i++) {
            if (literal(args[i], event)) {
                check_against(event, levels, fields, n, s);
                events++;
            }
        }
        free_arguments(args, count);
    }
    ck_assert_msg(events > 0, "nobody names an event to %s", function);
}

static int check_calls(const char *macro) {
    char *args[ARGS_MAX], event[80];
    int calls = 0;
    for (char *s = source; (s = next_call(s, macro)); calls++) {
        int n = arguments(s, args);
        if (strcmp(args[1], "event") == 0 && strcmp(args[0], "level") == 0) { /* the macro's own definition */
            free_arguments(args, n);
            continue;
        }
        if (literal(args[1], event)) {
            check_against(event, levels_of(args[0]), args + 2, n - 2, s);
        } else {
            function_around(s, event);
            check_callers(event, levels_of(args[0]), args + 2, n - 2);
        }
        free_arguments(args, n);
    }
    return calls;
}

START_TEST(table_and_source) {
    size_t count;
    const struct log_event *rows = log_events(&count);
    used = calloc(count, sizeof *used);
    ck_assert_ptr_nonnull(used);
    read_source();
    ck_assert_int_ge(check_calls("LOG"), 40);
    ck_assert_int_gt(check_calls("ANSWER"), 3); /* of reload.c, whatever the level */
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, "log_lines_lost") == 0) /* written by log.c itself; test_log reads it */
            continue;
        ck_assert_msg(used[i] == rows[i].levels, "%s: nobody writes it, or not at each of its levels",
                      rows[i].name);
    }
    free(used);
    free(source);
}
END_TEST

static bool has_word(const char *words, const char *word, size_t len) {
    for (const char *s = words; *s;) {
        size_t n = strcspn(s, " ");
        if (n == len && memcmp(s, word, len) == 0)
            return true;
        s += n + strspn(s + n, " ");
    }
    return false;
}

START_TEST(rows) {
    size_t count;
    const struct log_event *all = log_events(&count);
    for (size_t i = 0; i < count; i++) {
        const struct log_event *e = &all[i];
        ck_assert_ptr_eq(log_event_find(e->name), e); /* none twice */
        ck_assert_msg(*e->means && !strpbrk(e->means, "|\n"), "%s", e->name);
        ck_assert_msg(!strpbrk(e->action, "|\n"), "%s", e->name);
        for (const char *s = e->same ? e->same : ""; *s;) {
            size_t n = strcspn(s, " ");
            ck_assert_msg(has_word(e->fields, s, n), "%s: collapses by %.*s, which it hasn't", e->name,
                          (int)n, s);
            s += n + strspn(s + n, " ");
        }
    }
    ck_assert_ptr_null(log_event_find("no_such_event"));
    static const char *const never[] = {"started", "progress",       "stopping",
                                        "stopped", "log_lines_lost", "partition_stopped"};
    for (size_t i = 0; i < TESTING_LENGTH(never); i++)
        ck_assert_msg(!log_event_find(never[i])->same, "%s collapses", never[i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("log_events");
    TCase *tc = tcase_create("log_events");
    tcase_add_test(tc, table_and_source);
    tcase_add_test(tc, rows);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
