/* SPDX-License-Identifier: MIT */
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "heartbeat.h"
#include "log.h"

#define TICK_MS 100
#define BACKLOG 64
#define REPORT_MS 10000 /* a client mustn't fill the log */

/* A connection, from accept to close. */
struct client {
    int fd; /* -1: free */
    int64_t cut_at_ms;
};

struct http {
    /* any thread */
    atomic_bool stopping;
    /* set before the thread starts */
    struct http_setup setup;
    struct MHD_Daemon *daemon;
    size_t path_count;
    int port;
    bool loopback;
    pthread_t thread;
    /* the thread's own */
    struct client clients[HTTP_CONNECTIONS_MAX];
    int64_t next_report_ms;
};

/* ---- listening ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Its length, or 0. */
static socklen_t address_of(const char *text, int port, union address *a) {
    memset(a, 0, sizeof *a);
    if (inet_pton(AF_INET, text, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons((uint16_t)port);
        return sizeof a->v4;
    }
    if (inet_pton(AF_INET6, text, &a->v6.sin6_addr) == 1) {
        a->v6.sin6_family = AF_INET6;
        a->v6.sin6_port = htons((uint16_t)port);
        return sizeof a->v6;
    }
    return 0;
}

static bool is_loopback(const union address *a) {
    if (a->any.sa_family == AF_INET)
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static int bound_port(int fd) {
    union address a = {.v6 = {0}};
    socklen_t len = sizeof a;
    if (getsockname(fd, &a.any, &len) != 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
}

static bool listen_fail(const struct http_setup *s, int fd, struct error *err) {
    int code = errno;
    bool v6 = strchr(s->address, ':') != NULL;
    const char *hint = code == EADDRINUSE ? ": another process has it (set http.port, 0 for any that is free)"
                       : code == EADDRNOTAVAIL ? ": no address of this machine (set http.address)"
                       : code == EACCES        ? ": a port this user may not take (set http.port)"
                                               : "";
    if (fd >= 0)
        close(fd);
    /* an address may come later, and a port be free again: who starts it anew may have better luck */
    enum error_area area = code == EACCES ? ERROR_CONFIG : ERROR_INTERNAL;
    return error_set(err, area, ERROR_STOP, ERROR_NOT_DONE, code, "http: %s%s%s:%d: %s%s", v6 ? "[" : "",
                     s->address, v6 ? "]" : "", s->port, strerror(code), hint);
}

/* A listening socket in `*out`. */
static bool listen_on(struct http *h, int *out, struct error *err) {
    const struct http_setup *s = &h->setup;
    union address a;
    int on = 1;
    socklen_t len = address_of(s->address, s->port, &a);
    if (!len)
        return error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "http: %s is no address",
                         s->address);
    int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return listen_fail(s, fd, err);
    /* or it would wait a minute for the connections of the process before */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(fd, &a.any, len) != 0 ||
        listen(fd, BACKLOG) != 0)
        return listen_fail(s, fd, err);
    h->loopback = is_loopback(&a);
    h->port = bound_port(fd);
    *out = fd;
    return true;
}

/* ---- the library's words ---- */

__attribute__((format(printf, 2, 0))) static void on_log(void *ctx, const char *fmt, va_list args) {
    struct http *h = ctx;
    char text[256];
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\n")] = '\0';
    int64_t now = clock_monotonic_ms();
    bool due = now >= h->next_report_ms;
    if (due)
        h->next_report_ms = now + REPORT_MS;
    LOG(due ? LOG_WARN : LOG_DEBUG, "http_server", LOG_S("message", text));
}

static void on_panic(void *ctx, const char *file, unsigned line, const char *reason) {
    (void)ctx;
    LOG(LOG_ERROR, "http_panic", LOG_S("file", file), LOG_I("line", line),
        LOG_S("message", reason ? reason : ""));
    abort();
}

/* ---- connections and their deadlines ---- */

static int fd_of(struct MHD_Connection *c) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static struct client *client_of(struct http *h, int fd) {
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        if (h->clients[i].fd == fd)
            return &h->clients[i];
    }
    return NULL;
}

/* From now on the whole deadline: for the next request, or for taking the answer to this one. */
static void start_deadline(struct http *h, struct MHD_Connection *c) {
    struct client *client = client_of(h, fd_of(c));
    if (client)
        client->cut_at_ms = clock_monotonic_ms() + h->setup.deadline_ms;
}

static void on_connection(void *ctx, struct MHD_Connection *c, void **socket_ctx,
                          enum MHD_ConnectionNotificationCode code) {
    struct http *h = ctx;
    int fd = fd_of(c);
    struct client *client = client_of(h, code == MHD_CONNECTION_NOTIFY_STARTED ? -1 : fd);
    (void)socket_ctx;
    if (!client)
        return;
    client->fd = code == MHD_CONNECTION_NOTIFY_STARTED ? fd : -1;
    client->cut_at_ms = clock_monotonic_ms() + h->setup.deadline_ms;
}

static void on_completed(void *ctx, struct MHD_Connection *c, void **request_ctx,
                         enum MHD_RequestTerminationCode code) {
    (void)request_ctx;
    (void)code;
    start_deadline(ctx, c);
}

/* The library's own time-out begins anew with every byte: a client that sends one now and then would stay.
 * The library sees the end of the connection, and closes it. */
static void cut_late(struct http *h) {
    int64_t now = clock_monotonic_ms();
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        struct client *c = &h->clients[i];
        if (c->fd >= 0 && now >= c->cut_at_ms) {
            shutdown(c->fd, SHUT_RDWR);
            c->cut_at_ms = INT64_MAX;
        }
    }
}

/* ---- requests ---- */

/* Paths are compared as they came. */
static size_t unescape_nothing(void *ctx, struct MHD_Connection *c, char *text) {
    (void)ctx;
    (void)c;
    return strlen(text);
}

/* Whether a Host, with or without a port, is what only this machine is called: localhost or an address. */
static bool is_own_host(const char *host) {
    char name[64];
    unsigned char bytes[16];
    size_t len = *host == '[' ? strcspn(host, "]") : strcspn(host, ":");
    bool v6 = *host == '[' && host[len] == ']';
    const char *from = v6 ? host + 1 : host;
    len -= v6;
    if (len >= sizeof name)
        return false;
    memcpy(name, from, len);
    name[len] = '\0';
    if (v6)
        return inet_pton(AF_INET6, name, bytes) == 1;
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, bytes) == 1;
}

static bool host_passes(const struct http *h, struct MHD_Connection *c) {
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    return !h->loopback || !host || is_own_host(host);
}

static bool has_body(struct MHD_Connection *c) {
    const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (length && length[strspn(length, "0 ")] != '\0') ||
           MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
}

static size_t path_of(const struct http *h, const char *url) {
    size_t i = 0;
    while (i < h->path_count && strcmp(h->setup.paths[i].path, url) != 0)
        i++;
    return i;
}

/* What isn't answered by a path. */
static void refuse(struct http_answer *a, int status, const char *text) {
    a->status = status;
    buf_str(&a->body, text);
    buf_char(&a->body, '\n');
}

/* A request whose rest isn't read; false: it's one to answer. */
static bool refused(const struct http *h, struct MHD_Connection *c, const char *method,
                    struct http_answer *a) {
    bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (!host_passes(h, c))
        refuse(a, MHD_HTTP_BAD_REQUEST, "the host must be localhost or an address");
    else if (!reads)
        refuse(a, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
    else if (has_body(c))
        refuse(a, MHD_HTTP_BAD_REQUEST, "a request has no body here");
    else
        return false;
    return true;
}

/* `p` is NULL for what isn't answered by a path. */
static void add_headers(struct MHD_Response *r, const struct http_path *p, int status) {
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, p ? p->type : "text/plain; charset=utf-8");
    MHD_add_response_header(r, "Content-Security-Policy",
                            p && p->policy ? p->policy : "default-src 'none'; frame-ancestors 'none'");
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "X-Frame-Options", "DENY");
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
}

/* Takes over the answer's body. */
static enum MHD_Result send_answer(struct MHD_Connection *c, struct http_answer *a, const struct http_path *p,
                                   bool close) {
    size_t len = a->body.len;
    struct MHD_Response *r = MHD_create_response_from_buffer(
        len, len ? a->body.data : "", len ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!r) {
        buf_free(&a->body);
        return MHD_NO;
    }
    add_headers(r, p, a->status);
    if (close)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(c, (unsigned)a->status, r);
    MHD_destroy_response(r);
    return result;
}

/* Called with a request's headers, and again when it's there as a whole. What is answered at the first call
 * isn't read any further and ends its connection. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size,
                                  void **request) {
    static char seen;
    struct http *h = ctx;
    struct http_answer a = {.status = MHD_HTTP_OK};
    size_t path = path_of(h, url);
    const struct http_path *p = path < h->path_count ? &h->setup.paths[path] : NULL;
    (void)version;
    (void)upload;
    bool first = *request == NULL, no = first && refused(h, c, method, &a);
    *request = &seen;
    if ((first && !no) || *upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    start_deadline(h, c);
    if (!no && p)
        p->answer(h->setup.ctx, &a);
    else if (!no)
        refuse(&a, MHD_HTTP_NOT_FOUND, "not found");
    int status = a.status;
    enum MHD_Result result = send_answer(c, &a, no ? NULL : p, no);
    if (h->setup.answered)
        h->setup.answered(h->setup.ctx, path, status);
    return result;
}

/* ---- the thread ---- */

static void *http_main(void *arg) {
    struct http *h = arg;
    pthread_setname_np(pthread_self(), "http");
    heartbeat_begin("http", -1);
    while (!atomic_load(&h->stopping)) {
        if (MHD_run_wait(h->daemon, TICK_MS) != MHD_YES)
            clock_sleep_ms(TICK_MS); /* whatever is the matter, it's not to take the processor */
        cut_late(h);
        heartbeat_beat();
    }
    heartbeat_end();
    return NULL;
}

static struct MHD_Daemon *daemon_on(struct http *h, int fd) {
    /* The logger first: what goes wrong with the others is said by it. */
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log,
        (void *)h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_A_CLIENT,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_MEMORY_A_CONNECTION, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)((h->setup.deadline_ms + 999) / 1000), MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        (void *)h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, (void *)h, MHD_OPTION_UNESCAPE_CALLBACK,
        unescape_nothing, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_END);
}

struct http *http_start(const struct http_setup *setup, struct error *err) {
    struct http *h = mem_zero(1, sizeof *h);
    int fd = -1, rc;
    h->setup = *setup;
    atomic_init(&h->stopping, false);
    while (setup->paths[h->path_count].path)
        h->path_count++;
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        h->clients[i].fd = -1;
    if (!listen_on(h, &fd, err)) {
        free(h);
        return NULL;
    }
    MHD_set_panic_func(on_panic, NULL);
    h->daemon = daemon_on(h, fd);
    if (!h->daemon) {
        error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, 0,
                  "http: the server can't be made (see http_server)");
        close(fd);
        free(h);
        return NULL;
    }
    rc = pthread_create(&h->thread, NULL, http_main, h);
    if (rc == 0)
        return h;
    error_set(err, ERROR_INTERNAL, ERROR_STOP, ERROR_NOT_DONE, rc, "http: thread: %s", strerror(rc));
    MHD_stop_daemon(h->daemon);
    free(h);
    return NULL;
}

int http_port(const struct http *h) {
    return h->port;
}

void http_stop(struct http *h) {
    if (!h)
        return;
    atomic_store(&h->stopping, true);
    pthread_join(h->thread, NULL);
    MHD_stop_daemon(h->daemon);
    free(h);
}
