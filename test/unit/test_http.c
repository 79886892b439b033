/* SPDX-License-Identifier: MIT */
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "clock.h"
#include "log.h"
#include "testing.h"

#define DEADLINE_MS 400
#define PATIENCE_MS 20000 /* of the tests: whatever is awaited comes long before */
#define POLICY "default-src 'none'; script-src 'unsafe-inline'"

static atomic_int answered[3][600]; /* by path and status */

static void say_hello(void *ctx, struct http_answer *a) {
    (void)ctx;
    buf_str(&a->body, "hello\n");
}

static void say_no(void *ctx, struct http_answer *a) {
    (void)ctx;
    a->status = 503;
    buf_str(&a->body, "{\"state\":\"stuck\"}\n");
}

static void on_answered(void *ctx, size_t path, int status) {
    (void)ctx;
    atomic_fetch_add(&answered[path][status], 1);
}

static const struct http_path paths[] = {
    {"/", "text/html; charset=utf-8", POLICY, say_hello}, {"/readyz", "application/json", NULL, say_no}, {0}};

static int64_t deadline_ms = DEADLINE_MS;

static struct http *start_on(const char *address, int port, struct error *err) {
    const struct http_setup setup = {.address = address,
                                     .port = port,
                                     .deadline_ms = deadline_ms,
                                     .paths = paths,
                                     .answered = on_answered};
    return http_start(&setup, err);
}

static struct http *start(void) {
    struct error err = {0};
    struct http *h = start_on("127.0.0.1", 0, &err);
    ck_assert_msg(h != NULL, "%s", err.text);
    ck_assert_int_gt(http_port(h), 0);
    return h;
}

/* ---- a client ---- */

/* From an address of this machine's: all of 127.0.0.0/8 are. */
static int dial_from(const struct http *h, const char *client) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)http_port(h))},
                       from = {.sin_family = AF_INET};
    struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    inet_pton(AF_INET, client, &from.sin_addr);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    ck_assert_int_ge(fd, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static int dial(const struct http *h) {
    return dial_from(h, "127.0.0.1");
}

static void say(int fd, const char *text) {
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* All that comes until the server ends the connection; "" when it ended it without a word. */
static void hear_all(int fd, char *out, size_t size) {
    size_t n = 0;
    ssize_t got = 0;
    while (n < size - 1 && (got = recv(fd, out + n, size - 1 - n, 0)) > 0)
        n += (size_t)got;
    ck_assert_msg(got == 0 || (got < 0 && errno == ECONNRESET), "the server doesn't end the connection");
    out[n] = '\0';
}

/* One answer whose body is `body`; the connection goes on. */
static void hear_one(int fd, char *out, size_t size, const char *body) {
    size_t n = 0;
    out[0] = '\0';
    while (!strstr(out, "\r\n\r\n") || !strstr(strstr(out, "\r\n\r\n"), body)) {
        ssize_t got = recv(fd, out + n, size - 1 - n, 0);
        ck_assert_msg(got > 0, "the answer ends with \"%s\"", out);
        n += (size_t)got;
        out[n] = '\0';
    }
}

static char answer[65536];

/* A request on a connection of its own, which it wants ended; the answer. */
static const char *ask(const struct http *h, const char *request) {
    int fd = dial(h);
    say(fd, request);
    hear_all(fd, answer, sizeof answer);
    close(fd);
    return answer;
}

static const char *ask_line(const struct http *h, const char *line) {
    char request[512];
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", line);
    return ask(h, request);
}

static void must_be(const char *got, int status, const char *contains) {
    char first[32];
    snprintf(first, sizeof first, "HTTP/1.1 %d ", status);
    ck_assert_msg(strncmp(got, first, strlen(first)) == 0, "expected %d, got: %s", status, got);
    ck_assert_msg(strstr(got, contains) != NULL, "\"%s\" isn't in: %s", contains, got);
}

/* ---- tests ---- */

START_TEST(test_paths) {
    struct http *h = start();
    must_be(ask_line(h, "GET /"), 200, "\r\n\r\nhello\n");
    must_be(answer, 200, "\r\nContent-Type: text/html; charset=utf-8\r\n");
    must_be(answer, 200, "\r\nContent-Security-Policy: " POLICY "\r\n");
    must_be(answer, 200, "\r\nCache-Control: no-store\r\n");
    must_be(answer, 200, "\r\nX-Content-Type-Options: nosniff\r\n");
    must_be(answer, 200, "\r\nX-Frame-Options: DENY\r\n");
    must_be(answer, 200, "\r\nReferrer-Policy: no-referrer\r\n");
    must_be(ask_line(h, "GET /?a=/readyz"), 200, "hello");
    must_be(ask_line(h, "GET /readyz"), 503, "{\"state\":\"stuck\"}");
    must_be(answer, 503, "\r\nContent-Type: application/json\r\n");
    must_be(answer, 503, "\r\nContent-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n");
    /* nothing but these, by whatever name */
    static const char *const others[] = {
        "GET /x", "GET /readyz/",       "GET /Readyz",    "GET /%72eadyz",    "GET /./",
        "GET //", "GET /../etc/passwd", "GET /readyz%00", "HEAD /favicon.ico"};
    for (size_t i = 0; i < TESTING_LENGTH(others); i++)
        must_be(ask_line(h, others[i]), 404, "\r\nContent-Type: text/plain; charset=utf-8\r\n");
    ck_assert_int_eq(atomic_load(&answered[0][200]), 2);
    ck_assert_int_eq(atomic_load(&answered[1][503]), 1);
    ck_assert_int_eq(atomic_load(&answered[2][404]), (int)TESTING_LENGTH(others));
    http_stop(h);
}
END_TEST

START_TEST(test_methods) {
    struct http *h = start();
    static const char *const others[] = {"POST /",  "PUT /",   "DELETE /", "OPTIONS /",
                                         "PATCH /", "TRACE /", "BREW /x",  "get /"};
    must_be(ask_line(h, "HEAD /"), 200, "\r\nContent-Length: 6\r\n");
    ck_assert_ptr_null(strstr(answer, "hello"));
    for (size_t i = 0; i < TESTING_LENGTH(others); i++)
        must_be(ask_line(h, others[i]), 405, "\r\nAllow: GET, HEAD\r\n");
    http_stop(h);
}
END_TEST

/* The answer ends the connection: what comes behind the headers isn't read as another request. */
START_TEST(test_bodies) {
    struct http *h = start();
    must_be(ask(h, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\n\r\n"), 405,
            "Connection: close");
    must_be(ask(h, "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\n\r\nGET / HTTP/1.1\r\n"), 400,
            "Connection: close");
    ck_assert_ptr_null(strstr(answer, "hello"));
    must_be(ask(h, "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"), 400,
            "Connection: close");
    must_be(ask(h, "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
            200, "hello");
    http_stop(h);
}
END_TEST

START_TEST(test_hosts) {
    struct http *h = start();
    static const struct {
        const char *host;
        int status;
    } hosts[] = {
        {"localhost", 200},
        {"LOCALHOST:9464", 200},
        {"127.0.0.1:9464", 200},
        {"127.0.0.1", 200},
        {"[::1]:9464", 200},
        {"10.0.0.7", 200},
        {"evil.example", 400},
        {"evil.example:9464", 400},
        {"localhost.evil.com", 400},
        {"127.0.0.1.evil.com", 400},
        {"[::1", 400},
        {"[evil]", 400},
        {"[]", 400},
    };
    for (size_t i = 0; i < TESTING_LENGTH(hosts); i++) {
        char request[256];
        snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                 hosts[i].host);
        const char *got = ask(h, request);
        ck_assert_msg(atoi(got + sizeof "HTTP/1.1") == hosts[i].status, "%s: %s", hosts[i].host, got);
    }
    must_be(ask(h, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"), 400, ""); /* HTTP/1.1 has to have one */
    http_stop(h);
}
END_TEST

/* On an address that others reach any name may be this machine's. */
START_TEST(test_any_host_where_any_may_come) {
    struct error err = {0};
    struct http *h = start_on("0.0.0.0", 0, &err);
    ck_assert_msg(h != NULL, "%s", err.text);
    must_be(ask(h, "GET / HTTP/1.1\r\nHost: node7.example\r\nConnection: close\r\n\r\n"), 200, "hello");
    http_stop(h);
}
END_TEST

START_TEST(test_connection_is_kept) {
    struct http *h = start();
    int fd = dial(h);
    for (int i = 0; i < 3; i++) {
        say(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        hear_one(fd, answer, sizeof answer, "hello\n");
        must_be(answer, 200, "hello");
    }
    /* and ended when nothing comes over it */
    hear_all(fd, answer, sizeof answer);
    ck_assert_str_eq(answer, "");
    close(fd);
    http_stop(h);
}
END_TEST

START_TEST(test_headers_that_are_too_long) {
    struct http *h = start();
    struct buf request = {0};
    buf_str(&request, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ");
    for (int i = 0; i < HTTP_MEMORY_A_CONNECTION; i++)
        buf_char(&request, 'x');
    buf_str(&request, "\r\n\r\n");
    int fd = dial(h);
    ck_assert_int_gt(send(fd, buf_cstr(&request), request.len, MSG_NOSIGNAL), 0);
    hear_all(fd, answer, sizeof answer);
    ck_assert_ptr_null(strstr(answer, "hello"));
    ck_assert(answer[0] == '\0' || strncmp(answer, "HTTP/1.1 4", 10) == 0);
    close(fd);
    buf_free(&request);
    must_be(ask_line(h, "GET /"), 200, "hello");
    http_stop(h);
}
END_TEST

START_TEST(test_what_isnt_http) {
    struct http *h = start();
    static const char *const texts[] = {"\r\n\r\n\r\n",
                                        "hello\r\n\r\n",
                                        "GET\r\n\r\n",
                                        "\x16\x03\x01\x02 tls\r\n\r\n",
                                        "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
                                        "GET / HTTP/1.1\r\nHost localhost\r\n\r\n"};
    for (size_t i = 0; i < TESTING_LENGTH(texts); i++)
        ck_assert_ptr_null(strstr(ask(h, texts[i]), "hello\n"));
    must_be(ask_line(h, "GET /"), 200, "hello");
    http_stop(h);
}
END_TEST

/* A byte now and then would keep it for ever by the library's own time-out, whose end never comes. */
START_TEST(test_slow_client_is_cut) {
    struct http *h = start();
    int fd = dial(h);
    int64_t until = clock_monotonic_ms() + PATIENCE_MS;
    bool cut = false;
    say(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
    while (!cut && clock_monotonic_ms() < until) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        cut = send(fd, "x", 1, MSG_NOSIGNAL) < 0 || poll(&p, 1, 20) > 0;
    }
    ck_assert_msg(cut, "it's still there");
    close(fd);
    must_be(ask_line(h, "GET /"), 200, "hello");
    http_stop(h);
}
END_TEST

static size_t ended_of(const int *fds, size_t n) {
    size_t ended = 0;
    for (size_t i = 0; i < n; i++) {
        struct pollfd p = {.fd = fds[i], .events = POLLIN};
        ended += poll(&p, 1, 0) > 0;
    }
    return ended;
}

/* Those over a client's limit are ended at once; the others are served. */
START_TEST(test_connections_of_one_client) {
    int fds[HTTP_CONNECTIONS_A_CLIENT + 8];
    const size_t n = TESTING_LENGTH(fds), over = n - HTTP_CONNECTIONS_A_CLIENT;
    deadline_ms = 2 * PATIENCE_MS; /* none is ended for another reason */
    struct http *h = start();
    int64_t until = clock_monotonic_ms() + PATIENCE_MS;
    for (size_t i = 0; i < n; i++)
        fds[i] = dial(h);
    while (ended_of(fds, n) < over && clock_monotonic_ms() < until)
        clock_sleep_ms(1);
    ck_assert_uint_eq(ended_of(fds, n), over);
    say(fds[0], "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    hear_one(fds[0], answer, sizeof answer, "hello\n");
    http_stop(h); /* which ends them all */
    ck_assert_uint_eq(ended_of(fds, n), n);
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
}
END_TEST

/* With all places taken the next one waits, and has its turn when somebody leaves. */
START_TEST(test_connections_of_all_clients) {
    int fds[HTTP_CONNECTIONS_MAX];
    deadline_ms = 2 * PATIENCE_MS;
    struct http *h = start();
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        fds[i] = dial_from(h, i % 2 ? "127.0.0.2" : "127.0.0.3");
        say(fds[i], "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        hear_one(fds[i], answer, sizeof answer, "hello\n");
    }
    int one_more = dial(h);
    struct pollfd p = {.fd = one_more, .events = POLLIN};
    say(one_more, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ck_assert_int_eq(poll(&p, 1, 300), 0);
    close(fds[0]);
    hear_all(one_more, answer, sizeof answer);
    must_be(answer, 200, "hello");
    close(one_more);
    for (size_t i = 1; i < HTTP_CONNECTIONS_MAX; i++)
        close(fds[i]);
    http_stop(h);
}
END_TEST

START_TEST(test_port_in_use) {
    struct http *h = start();
    struct error err = {0};
    char where[40];
    snprintf(where, sizeof where, "http: 127.0.0.1:%d: ", http_port(h));
    ck_assert_ptr_null(start_on("127.0.0.1", http_port(h), &err));
    ck_assert_int_eq(err.area, ERROR_INTERNAL); /* no fault of the file: it may be tried again */
    ck_assert_msg(strstr(err.text, where) && strstr(err.text, "http.port"), "%s", err.text);
    http_stop(h);
}
END_TEST

START_TEST(test_addresses) {
    struct error err = {0};
    ck_assert_ptr_null(start_on("192.0.2.1", 0, &err)); /* nobody's */
    ck_assert_msg(strstr(err.text, "http: 192.0.2.1:0: ") && strstr(err.text, "http.address"), "%s",
                  err.text);
    error_clear(&err);
    ck_assert_ptr_null(start_on("localhost", 0, &err));
    ck_assert_msg(strstr(err.text, "is no address"), "%s", err.text);
    error_clear(&err);
    struct http *h = start_on("::1", 0, &err);
    if (!h && err.code == EADDRNOTAVAIL)
        return; /* a machine without IPv6 */
    ck_assert_msg(h != NULL, "%s", err.text);
    struct error second = {0};
    ck_assert_ptr_null(start_on("::1", http_port(h), &second));
    ck_assert_msg(strstr(second.text, "http: [::1]:") != NULL, "%s", second.text);
    http_stop(h);
}
END_TEST

/* The port of a process that has just ended can be had at once, though its connections linger. */
START_TEST(test_port_again) {
    struct http *h = start();
    struct error err = {0};
    int port = http_port(h), fd = dial(h);
    say(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    hear_one(fd, answer, sizeof answer, "hello\n");
    http_stop(h);
    h = start_on("127.0.0.1", port, &err);
    ck_assert_msg(h != NULL, "%s", err.text);
    close(fd);
    http_stop(h);
    http_stop(NULL);
}
END_TEST

int main(void) {
    log_init(STDERR_FILENO, LOG_ERROR); /* what clients do wrong isn't worth a line here */
    Suite *suite = suite_create("http");
    TCase *tc = tcase_create("http");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_paths);
    tcase_add_test(tc, test_methods);
    tcase_add_test(tc, test_bodies);
    tcase_add_test(tc, test_hosts);
    tcase_add_test(tc, test_any_host_where_any_may_come);
    tcase_add_test(tc, test_connection_is_kept);
    tcase_add_test(tc, test_headers_that_are_too_long);
    tcase_add_test(tc, test_what_isnt_http);
    tcase_add_test(tc, test_slow_client_is_cut);
    tcase_add_test(tc, test_connections_of_one_client);
    tcase_add_test(tc, test_connections_of_all_clients);
    tcase_add_test(tc, test_port_in_use);
    tcase_add_test(tc, test_addresses);
    tcase_add_test(tc, test_port_again);
    suite_add_tcase(suite, tc);
    return testing_run(suite);
}
