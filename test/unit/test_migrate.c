/* SPDX-License-Identifier: MIT */
/* Migrations, where no database is needed: names, statements, and which states
 * of a database are refused. */
#include "embedded.h"
#include "migrate.h"
#include "testing.h"

static const struct name_case {
    const char *name;
    int version; /* 0: refused */
    bool breaking;
} names[] = {
    {"0001_initial.sql", 1, false},
    {"0012_add_column_2.sql", 12, false},
    {"9999_x.sql", 9999, false},
    {"0003_drop_it.breaking.sql", 3, true},
    {"", 0, false},
    {"0000_none.sql", 0, false},
    {"001_short.sql", 0, false},
    {"00001_long.sql", 0, false},
    {"0001-dash.sql", 0, false},
    {"0001_.sql", 0, false},
    {"0001_.breaking.sql", 0, false},
    {"0001_Upper.sql", 0, false},
    {"0001_name", 0, false},
    {"0001_name.sql.bak", 0, false},
    {"0001_name.braking.sql", 0, false},
    {" 0001_name.sql", 0, false},
    {"0001_näme.sql", 0, false},
};

START_TEST(a_name_says_number_and_whether_it_breaks) {
    const struct name_case *c = &names[_i];
    int version = 0;
    bool breaking = false;
    bool ok = migrate_name_parse(c->name, &version, &breaking);
    ck_assert_msg(ok == (c->version != 0), "%s: taken %d", c->name, ok);
    if (ok) {
        ck_assert_int_eq(version, c->version);
        ck_assert_int_eq(breaking, c->breaking);
    }
}
END_TEST

START_TEST(statements_end_with_a_semicolon_at_the_end_of_a_line) {
    struct migrate_statement s = {.rest = "-- a comment; with a semicolon;\n"
                                          "\n"
                                          "CREATE TABLE a (\n"
                                          "  -- inside\n"
                                          "  x INT, y CHAR(1) DEFAULT ';'\n"
                                          ");  \n"
                                          ";\n"
                                          "INSERT INTO a VALUES (1, ';'), \n"
                                          "(2, 'b');\r\n"
                                          "   \n"
                                          "DROP TABLE a;"};
    ck_assert(migrate_next_statement(&s));
    ck_assert_str_eq(buf_cstr(&s.sql), "CREATE TABLE a (\n  x INT, y CHAR(1) DEFAULT ';'\n)");
    ck_assert_int_eq(s.line, 3);
    ck_assert_int_eq(s.number, 1);
    ck_assert(migrate_next_statement(&s));
    ck_assert_str_eq(buf_cstr(&s.sql), "INSERT INTO a VALUES (1, ';'),\n(2, 'b')");
    ck_assert_int_eq(s.line, 8);
    ck_assert_int_eq(s.number, 2);
    ck_assert(migrate_next_statement(&s));
    ck_assert_str_eq(buf_cstr(&s.sql), "DROP TABLE a");
    ck_assert_int_eq(s.line, 11);
    ck_assert(!migrate_next_statement(&s));
    ck_assert_uint_eq(s.sql.len, 0);
    buf_free(&s.sql);
}
END_TEST

START_TEST(an_unfinished_statement_is_not_lost) {
    struct migrate_statement s = {.rest = "DO 1;\nDO\n2\n"};
    ck_assert(migrate_next_statement(&s));
    ck_assert(!migrate_next_statement(&s));
    ck_assert_str_eq(buf_cstr(&s.sql), "DO\n2");
    ck_assert_int_eq(s.line, 2);
    buf_free(&s.sql);
}
END_TEST

/* What travels in this binary keeps to the rules itself. */
START_TEST(own_migrations_are_numbered_without_gaps_and_finished) {
    int expected = 1;
    for (const struct embedded_file *f = embedded_files; f->path; f++) {
        int version;
        bool breaking;
        if (strncmp(f->path, "migrations/", 11) != 0)
            continue;
        ck_assert_msg(migrate_name_parse(f->path + 11, &version, &breaking), "%s", f->path);
        ck_assert_int_eq(version, expected++);
        struct migrate_statement s = {.rest = f->data};
        while (migrate_next_statement(&s))
            ck_assert_msg(s.sql.len > 0, "%s", f->path);
        ck_assert_msg(s.number > 0 && s.sql.len == 0, "%s:%d", f->path, s.line);
        buf_free(&s.sql);
    }
    ck_assert_int_gt(expected, 1);
}
END_TEST

#define ENTRIES_MAX 4
static const struct state_case {
    const char *what;
    struct {
        int version;
        enum migrate_status status;
        const char *name;
    } entries[ENTRIES_MAX];
    const char *refused; /* what the sentence says; NULL: taken */
} states[] = {
    {"an empty database", {{1, MIGRATE_MISSING, "0001_a.sql"}, {2, MIGRATE_MISSING, "0002_b.sql"}}, NULL},
    {"all applied", {{1, MIGRATE_APPLIED, "0001_a.sql"}, {2, MIGRATE_APPLIED, "0002_b.sql"}}, NULL},
    {"the last one missing", {{1, MIGRATE_APPLIED, "0001_a.sql"}, {2, MIGRATE_MISSING, "0002_b.sql"}}, NULL},
    {"a newer one", {{1, MIGRATE_APPLIED, "0001_a.sql"}, {2, MIGRATE_NEWER, "0002_b.sql"}}, NULL},
    {"two newer ones",
     {{1, MIGRATE_APPLIED, "0001_a.sql"}, {2, MIGRATE_NEWER, "0002_b.sql"}, {3, MIGRATE_NEWER, "0003_c.sql"}},
     NULL},
    {"an own one that breaks others",
     {{1, MIGRATE_APPLIED, "0001_a.sql"}, {2, MIGRATE_APPLIED, "0002_b.breaking.sql"}},
     NULL},
    {"a newer one that breaks this one",
     {{1, MIGRATE_APPLIED, "0001_a.sql"}, {2, MIGRATE_NEWER, "0002_b.breaking.sql"}},
     "0002_b.breaking.sql: was applied by a newer tallyd"},
    {"a changed one",
     {{1, MIGRATE_CHANGED, "0001_a.sql"}, {2, MIGRATE_APPLIED, "0002_b.sql"}},
     "0001_a.sql: was applied as something else"},
    {"a changed one behind good ones",
     {{1, MIGRATE_APPLIED, "0001_a.sql"}, {2, MIGRATE_CHANGED, "0002_b.sql"}},
     "0002_b.sql: was applied as something else"},
    {"one missing below an applied one",
     {{1, MIGRATE_MISSING, "0001_a.sql"}, {2, MIGRATE_APPLIED, "0002_b.sql"}},
     "0001_a.sql: is missing, and a later one is applied"},
    {"one missing below a newer one",
     {{1, MIGRATE_APPLIED, "0001_a.sql"},
      {2, MIGRATE_MISSING, "0002_b.sql"},
      {3, MIGRATE_NEWER, "0003_c.sql"}},
     "0002_b.sql: is missing, and a later one is applied"},
    {"a gap below a newer one",
     {{1, MIGRATE_APPLIED, "0001_a.sql"}, {3, MIGRATE_NEWER, "0003_c.sql"}},
     "0003_c.sql: is applied, and the one before it is not recorded"},
    {"a number too low",
     {{0, MIGRATE_NEWER, "0000_z.sql"}, {1, MIGRATE_APPLIED, "0001_a.sql"}},
     "not the name of a migration"},
    {"a name that can't be read",
     {{1, MIGRATE_APPLIED, "0001_a.sql"}, {2, MIGRATE_NEWER, "hotfix"}},
     "hotfix: not the name of a migration"},
    {"a name of another number",
     {{1, MIGRATE_APPLIED, "0001_a.sql"}, {2, MIGRATE_NEWER, "0003_c.sql"}},
     "0003_c.sql: not the name of a migration of that number"},
};

START_TEST(states_that_no_release_leaves_are_refused) {
    const struct state_case *c = &states[_i];
    struct migrate_entry entries[ENTRIES_MAX];
    struct migrate_state state = {.entries = entries};
    struct error err = {0};
    while (state.count < ENTRIES_MAX && c->entries[state.count].name) {
        entries[state.count] = (struct migrate_entry){.version = c->entries[state.count].version,
                                                      .status = c->entries[state.count].status,
                                                      .name = (char *)c->entries[state.count].name};
        state.count++;
    }
    bool ok = migrate_judge(&state, &err);
    ck_assert_msg(ok == (c->refused == NULL), "%s: taken %d: %s", c->what, ok, err.text);
    if (!ok) {
        ck_assert_msg(strstr(err.text, c->refused) != NULL, "%s: %s", c->what, err.text);
        ck_assert_msg(err.text[strlen(err.text) - 1] == ')', "%s: says nothing to do: %s", c->what, err.text);
        ck_assert(migrate_error_is_unfit(&err));
    }
}
END_TEST

START_TEST(other_errors_are_not_about_the_schema) {
    struct error mysql = {.area = ERROR_MYSQL, .code = 1146}, none = {0};
    ck_assert(!migrate_error_is_unfit(&mysql));
    ck_assert(!migrate_error_is_unfit(&none));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("migrate");
    TCase *pure = tcase_create("pure");
    tcase_add_loop_test(pure, a_name_says_number_and_whether_it_breaks, 0, TESTING_LENGTH(names));
    tcase_add_test(pure, statements_end_with_a_semicolon_at_the_end_of_a_line);
    tcase_add_test(pure, an_unfinished_statement_is_not_lost);
    tcase_add_test(pure, own_migrations_are_numbered_without_gaps_and_finished);
    tcase_add_loop_test(pure, states_that_no_release_leaves_are_refused, 0, TESTING_LENGTH(states));
    tcase_add_test(pure, other_errors_are_not_about_the_schema);
    suite_add_tcase(suite, pure);
    return testing_run(suite);
}
