/* SPDX-License-Identifier: MIT */
/* The fault points: what a plan makes of a hit, and what the files say about it. */
#ifndef TALLYD_FAULTS
#define TALLYD_FAULTS 1 /* in a build without them this suite has its own */
#endif
#include "fault.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "testing.h"

#define LINE 64 /* of the counts' file */

static char dir[] = "/tmp/test_fault.XXXXXX";

/* Before the first point of the process: each test runs in one of its own. */
static void plan(const char *text) {
    setenv("TALLYD_FAULT", text, 1);
}

static char *path_of(const char *variable, const char *file) {
    static char path[sizeof dir + 16];
    snprintf(path, sizeof path, "%s/%s.%d", dir, file, (int)getpid());
    setenv(variable, path, 1);
    return path;
}

/* The hits of `point` that a file of counts tells; 0: none. */
static unsigned long counted(const char *path, const char *point) {
    size_t len = 0, name = strlen(point);
    char *data = testing_file(path, &len);
    unsigned long hits = 0;
    ck_assert_uint_eq(len % LINE, 0);
    for (size_t at = 0; at < len; at += LINE) {
        if (strncmp(data + at, point, name) == 0 && data[at + name] == ' ')
            hits = strtoul(data + at + name + 1, NULL, 10);
    }
    free(data);
    return hits;
}

static int verdict(const char *point) {
    return (int)fault_at(point).verdict;
}

START_TEST(without_a_plan_nothing_happens) {
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(verdict("a.point"), FAULT_NONE);
}
END_TEST

START_TEST(fires_at_its_hit_of_its_point) {
    plan("a.point@3:fail");
    ck_assert_int_eq(verdict("a.point"), FAULT_NONE);
    ck_assert_int_eq(verdict("another.point"), FAULT_NONE);
    ck_assert_int_eq(verdict("a.point"), FAULT_NONE);
    ck_assert_int_eq(verdict("a.poin"), FAULT_NONE);
    ck_assert_int_eq(verdict("a.point"), FAULT_FAIL);
    ck_assert_int_eq(verdict("a.point"), FAULT_NONE);
}
END_TEST

START_TEST(from_a_hit_on_and_at_every_one) {
    plan("a.point@2+:after=1205;b.point@*:fatal");
    ck_assert_int_eq(verdict("a.point"), FAULT_NONE);
    for (int i = 0; i < 3; i++) {
        struct fault f = fault_at("a.point");
        ck_assert_int_eq((int)f.verdict, FAULT_AFTER);
        ck_assert_int_eq(f.code, 1205);
        ck_assert_int_eq(verdict("b.point"), FAULT_FATAL);
    }
}
END_TEST

START_TEST(of_several_plans_the_first_that_is_due) {
    plan("a.point@2:fail=1;a.point@1+:after=2;");
    ck_assert_int_eq(fault_at("a.point").code, 2);
    ck_assert_int_eq(fault_at("a.point").code, 1);
    ck_assert_int_eq(fault_at("a.point").code, 2);
}
END_TEST

static void statement(const char *sql, const char *point) {
    char text[128];
    snprintf(text, sizeof text, "%s@1:fail=7", point);
    fflush(stdout);
    pid_t child = fork(); /* a plan is read once a process */
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        plan(text);
        pthread_setname_np(pthread_self(), "settler");
        _exit(fault_at_statement(sql, strlen(sql)).code == 7 ? 0 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s isn't %s", sql, point);
}

START_TEST(statements_are_named_by_thread_and_what_they_do) {
    statement("INSERT INTO usage_record (event_id) VALUES ('x')", "settler.insert_usage_record");
    statement("UPDATE consumer_ledger SET a = 1", "settler.update_consumer_ledger");
    statement("SELECT closed_before FROM usage_floor WHERE id = 1", "settler.select_usage_floor");
    statement("SELECT u.id FROM JSON_TABLE('[]') j STRAIGHT_JOIN usage_block u ON 1",
              "settler.select_usage_block");
    statement("SELECT GET_LOCK('x', 0)", "settler.select_get_lock");
    statement("START TRANSACTION", "settler.start");
    statement("COMMIT", "settler.commit");
}
END_TEST

START_TEST(a_thread_has_points_of_its_own) {
    plan("relay.send@1:fail");
    ck_assert_int_eq((int)fault_in_thread("send").verdict, FAULT_NONE);
    pthread_setname_np(pthread_self(), "relay");
    ck_assert_int_eq((int)fault_in_thread("send").verdict, FAULT_FAIL);
}
END_TEST

START_TEST(what_fires_is_logged) {
    char *path = path_of("TALLYD_FAULT_LOG", "log");
    plan("a.point@2:fail=1205;b.point@*:delay=1");
    for (int i = 0; i < 3; i++) {
        fault_at("a.point");
        fault_at("b.point");
    }
    char *log = testing_file(path, NULL);
    ck_assert_str_eq(log, "b.point 1 delay\na.point 2 fail\nb.point 2 delay\nb.point 3 delay\n");
    free(log);
}
END_TEST

START_TEST(every_hit_is_counted) {
    char *path = path_of("TALLYD_FAULT_COUNTS", "counts");
    plan("a.point@2:fail");
    for (int i = 0; i < 11; i++)
        fault_at("a.point");
    fault_at("b.point");
    ck_assert_uint_eq(counted(path, "a.point"), 11);
    ck_assert_uint_eq(counted(path, "b.point"), 1);
    ck_assert_uint_eq(counted(path, "c.point"), 0);
}
END_TEST

/* What the process at `signal` leaves behind. */
static void dies_with(const char *action, int signal) {
    char counts[64], log[64], text[64];
    snprintf(counts, sizeof counts, "%s", path_of("TALLYD_FAULT_COUNTS", "counts"));
    snprintf(log, sizeof log, "%s", path_of("TALLYD_FAULT_LOG", "log"));
    snprintf(text, sizeof text, "a.point@2:%s", action);
    plan(text);
    fflush(stdout);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        fault_at("a.point");
        fault_at("a.point");
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    if (signal == SIGSTOP) {
        ck_assert(WIFSTOPPED(status));
        kill(child, SIGCONT);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status), "it didn't go on");
    } else {
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    }
    snprintf(text, sizeof text, "a.point 2 %s\n", action);
    char *found = testing_file(log, NULL);
    ck_assert_str_eq(found, text);
    free(found);
    ck_assert_uint_eq(counted(counts, "a.point"), 2);
}

START_TEST(killed_with_log_and_counts_written) {
    dies_with("kill", SIGKILL);
}
END_TEST

START_TEST(stopped_until_it_is_woken) {
    dies_with("stop", SIGSTOP);
}
END_TEST

static const char *const unreadable[] = {"nonsense",           "a.point@1",          "a.point:kill",
                                         "a.point@0:kill",     "a.point@x:kill",     "a.point@1x:kill",
                                         "a.point@1:explode",  "a.point@-:kill",     "@1:kill",
                                         "a.point@1:kill;huh", "a.point@1++:kill",   "a.point@1:",
                                         "a.point@1:fail=x",   "a.point@1:fail=12x", "a.point@1:fail12"};

/* Never a run without the fault it was to have. */
START_TEST(a_plan_that_cannot_be_read_ends_the_process) {
    plan(unreadable[_i]);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDERR_FILENO);
    fault_at("some.point");
}
END_TEST

START_TEST(counts_that_cannot_be_written_end_the_process) {
    setenv("TALLYD_FAULT_COUNTS", "/nonexistent/counts", 1);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDERR_FILENO);
    fault_at("some.point");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fault");
    TCase *tc = tcase_create("fault");
    if (!mkdtemp(dir))
        return EXIT_FAILURE;
    unsetenv("TALLYD_FAULT");
    tcase_add_test(tc, without_a_plan_nothing_happens);
    tcase_add_test(tc, fires_at_its_hit_of_its_point);
    tcase_add_test(tc, from_a_hit_on_and_at_every_one);
    tcase_add_test(tc, of_several_plans_the_first_that_is_due);
    tcase_add_test(tc, statements_are_named_by_thread_and_what_they_do);
    tcase_add_test(tc, a_thread_has_points_of_its_own);
    tcase_add_test(tc, what_fires_is_logged);
    tcase_add_test(tc, every_hit_is_counted);
    tcase_add_test(tc, killed_with_log_and_counts_written);
    tcase_add_test(tc, stopped_until_it_is_woken);
    tcase_add_loop_test_raise_signal(tc, a_plan_that_cannot_be_read_ends_the_process, SIGABRT, 0,
                                     (int)TESTING_LENGTH(unreadable));
    tcase_add_test_raise_signal(tc, counts_that_cannot_be_written_end_the_process, SIGABRT);
    suite_add_tcase(suite, tc);
    int status = testing_run(suite);
    char command[sizeof dir + 16];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) == 0 ? status : EXIT_FAILURE;
}
