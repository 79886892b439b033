/* SPDX-License-Identifier: MIT */
#include "notify.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "log.h"
#include "testing.h"

/* A supervisor's socket, by a path or an abstract name. */
static int listen_at(const char *name, socklen_t *len, struct sockaddr_un *a) {
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    memcpy(a->sun_path, name, strlen(name));
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    if (name[0] == '@')
        a->sun_path[0] = '\0';
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)a, *len), 0);
    return fd;
}

static void must_hear(int fd, const char *expected) {
    char got[1024];
    ssize_t n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    ck_assert_msg(n >= 0, "nothing was heard, expected %s", expected);
    got[n] = '\0';
    ck_assert_str_eq(got, expected);
}

static void talk(const char *name) {
    struct sockaddr_un a;
    socklen_t len;
    int fd = listen_at(name, &len, &a);
    setenv("NOTIFY_SOCKET", name, 1);
    setenv("WATCHDOG_USEC", "3000000", 1);
    struct notify *n = notify_open();
    ck_assert_ptr_null(getenv("NOTIFY_SOCKET")); /* children don't speak for us */
    ck_assert_ptr_null(getenv("WATCHDOG_USEC"));
    ck_assert_int_eq(notify_watchdog_ms(n), 1500);
    ck_assert(notify_send(n, "READY=1"));
    must_hear(fd, "READY=1");
    notify_status(n, "degraded: mysql is down:\na\tb\x7f");
    must_hear(fd, "STATUS=degraded: mysql is down: a b ");
    close(fd);
    ck_assert(!notify_send(n, "WATCHDOG=1")); /* the supervisor is gone: nothing happens */
    notify_close(n);
}

START_TEST(test_path) {
    char name[64];
    snprintf(name, sizeof name, "/tmp/tallyd-notify.%ld", (long)getpid());
    unlink(name);
    talk(name);
    unlink(name);
}
END_TEST

START_TEST(test_abstract_name) {
    char name[64];
    snprintf(name, sizeof name, "@tallyd-notify.%ld", (long)getpid());
    talk(name);
}
END_TEST

START_TEST(test_nobody_to_tell) {
    unsetenv("NOTIFY_SOCKET");
    setenv("WATCHDOG_USEC", "3000000", 1);
    struct notify *n = notify_open();
    ck_assert(!notify_send(n, "READY=1"));
    ck_assert_int_eq(notify_watchdog_ms(n), 0);
    notify_status(n, "ready");
    notify_close(n);
    notify_close(NULL);
}
END_TEST

START_TEST(test_sockets_of_other_kinds) {
    static const char *const names[] = {"", "/", "vsock:2:1234", "relative/path"};
    char longest[200];
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i <= TESTING_LENGTH(names); i++) {
        setenv("NOTIFY_SOCKET", i < TESTING_LENGTH(names) ? names[i] : longest, 1);
        struct notify *n = notify_open();
        ck_assert(!notify_send(n, "READY=1"));
        notify_close(n);
    }
}
END_TEST

/* The figure is meant for one process; another that inherited it isn't watched. */
START_TEST(test_watchdog_of_another_process) {
    char name[64], pid[24];
    struct sockaddr_un a;
    socklen_t len;
    snprintf(name, sizeof name, "@tallyd-notify-dog.%ld", (long)getpid());
    int fd = listen_at(name, &len, &a);
    for (int own = 0; own < 2; own++) {
        snprintf(pid, sizeof pid, "%ld", (long)getpid() + !own);
        setenv("NOTIFY_SOCKET", name, 1);
        setenv("WATCHDOG_USEC", "2000000", 1);
        setenv("WATCHDOG_PID", pid, 1);
        struct notify *n = notify_open();
        ck_assert_int_eq(notify_watchdog_ms(n), own ? 1000 : 0);
        notify_close(n);
    }
    close(fd);
}
END_TEST

/* A full queue is the supervisor's, and nothing to wait for. */
START_TEST(test_never_waits) {
    char name[64];
    struct sockaddr_un a;
    socklen_t len;
    bool taken = true;
    snprintf(name, sizeof name, "@tallyd-notify-full.%ld", (long)getpid());
    int fd = listen_at(name, &len, &a);
    setenv("NOTIFY_SOCKET", name, 1);
    struct notify *n = notify_open();
    for (int i = 0; i < 100000 && taken; i++)
        taken = notify_send(n, "STATUS=x");
    ck_assert(!taken);
    notify_close(n);
    close(fd);
}
END_TEST

int main(void) {
    log_init(STDERR_FILENO, LOG_ERROR);
    Suite *suite = suite_create("notify");
    TCase *tc = tcase_create("notify");
    tcase_add_test(tc, test_path);
    tcase_add_test(tc, test_abstract_name);
    tcase_add_test(tc, test_nobody_to_tell);
    tcase_add_test(tc, test_sockets_of_other_kinds);
    tcase_add_test(tc, test_watchdog_of_another_process);
    tcase_add_test(tc, test_never_waits);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
