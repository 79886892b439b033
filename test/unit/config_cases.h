/* SPDX-License-Identifier: MIT */
/* What the suites of the configuration share: cases out of a data file, and the
 * environment and files that those cases speak of. */
#ifndef TALLYD_CONFIG_CASES_H
#define TALLYD_CONFIG_CASES_H

#include <sys/stat.h>

#include "buf.h"
#include "testing.h"

/* Appends the outcome of a piece of YAML: "ok", or the error's text. */
typedef void config_judge(const char *yaml, size_t len, struct buf *verdict);

static inline void config_cases_unescape(const char *line, struct buf *out) {
    static const struct {
        const char *mark, *byte;
    } marks[] = {{"<TAB>", "\t"},           {"<NUL>", "\0"},  {"<CR>", "\r"},
                 {"<BOM>", "\xEF\xBB\xBF"}, {"<FE>", "\xFE"}, {"<FF>", "\xFF"}};
    while (*line) {
        size_t i = 0;
        while (i < TESTING_LENGTH(marks) && strncmp(line, marks[i].mark, strlen(marks[i].mark)) != 0)
            i++;
        if (i == TESTING_LENGTH(marks)) {
            buf_char(out, *line++);
        } else {
            buf_append(out, marks[i].byte, i == 1 ? 1 : strlen(marks[i].byte));
            line += strlen(marks[i].mark);
        }
    }
}

/* Runs each case: "== title", the YAML, "=> outcome". Fails the test after saying which ones went
 * otherwise. Returns how many there were. */
static inline int config_cases_run(const char *path, config_judge *judge) {
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "run from the root of the checkout: %s", path);
    char *line = NULL, title[128] = "";
    size_t room = 0;
    struct buf yaml = {0}, verdict = {0};
    int number = 0, cases = 0, failed = 0;
    for (ssize_t n; (n = getline(&line, &room, f)) >= 0;) {
        number++;
        if (strncmp(line, "== ", 3) == 0) {
            snprintf(title, sizeof title, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
            buf_reset(&yaml);
        } else if (strncmp(line, "=> ", 3) == 0) {
            line[n - 1] = '\0';
            buf_reset(&verdict);
            judge(buf_cstr(&yaml), yaml.len, &verdict);
            if (strcmp(buf_cstr(&verdict), line + 3) != 0) {
                fprintf(stderr, "%s:%d: %s:\n  expected %s\n  got      %s\n", path, number, title, line + 3,
                        buf_cstr(&verdict));
                failed++;
            }
            cases++;
            title[0] = '\0';
        } else if (*title) {
            config_cases_unescape(line, &yaml);
        }
    }
    free(line);
    fclose(f);
    buf_free(&yaml);
    buf_free(&verdict);
    ck_assert_msg(failed == 0, "%d of %d cases", failed, cases);
    return cases;
}

/* ---- secrets to read ---- */

static char config_folder[64];

/* A file in the folder; its path is borrowed until the next call. */
static inline const char *config_folder_put(const char *name, const void *data, size_t len, mode_t mode) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", config_folder, name);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, len, f), len);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
    return path;
}

/* Makes a temporary folder, $T_DIR, with files in it, and sets the variables that the data files name. For
 * an unchecked fixture, so that it's removed after tests that fail, too. */
static inline void config_folder_make(void) {
    char large[1026];
    memset(large, 's', sizeof large);
    large[1024] = '\n';
    snprintf(config_folder, sizeof config_folder, "/tmp/tallyd-config.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(config_folder));
    config_folder_put("good", "hunter2\n", 8, 0600);
    config_folder_put("group", "hunter2", 7, 0640);
    config_folder_put("readable", "hunter2\n", 8, 0644);
    config_folder_put("writable", "hunter2\n", 8, 0602);
    config_folder_put("empty", "", 0, 0600);
    config_folder_put("newline", "\n", 1, 0600);
    config_folder_put("lines", "hunter2\nhunter3\n", 16, 0600);
    config_folder_put("windows", "hunter2\r\n", 9, 0600);
    config_folder_put("nul", "hunter2\0x\n", 10, 0600);
    config_folder_put("full", large, 1025, 0600);  /* 1024 bytes and the line's end */
    config_folder_put("large", large, 1026, 0600); /* and one byte behind it */
    large[1024] = 's';
    config_folder_put("larger", large, 1025, 0600); /* 1025 bytes */
    char path[128];
    snprintf(path, sizeof path, "%s/fifo", config_folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/link", config_folder);
    ck_assert_int_eq(symlink("readable", path), 0);
    setenv("T_DIR", config_folder, 1);
    setenv("T_WORD", "word", 1);
    setenv("T_EMPTY", "", 1);
    setenv("T_SECRET", "hunter2", 1);
    setenv("T_LINES", "hunter2\nhunter3", 1);
    setenv("T_BYTES", "hunter2\xFF", 1);
    setenv("T_MARKS", "${T_WORD} file:x $${", 1);
    unsetenv("T_UNSET");
}

static inline void config_folder_remove(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", config_folder);
    ck_assert_int_eq(system(command), 0);
}

#endif
