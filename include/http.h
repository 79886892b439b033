/* SPDX-License-Identifier: MIT */
/* A small HTTP server: GET and HEAD of a few fixed paths, one thread, nothing
 * about usage. It's for people, scrapers and supervisors on a network that is
 * trusted to read; what a client can take from it is bounded: connections,
 * connections an address, memory a connection, time a request.
 *
 * Answers are made while the thread waits for them, so a handler only looks at
 * what is known already and never asks a store.
 *
 * Bound to a loopback address it answers only requests whose Host is localhost
 * or an address: a page from elsewhere, whose name somebody lets resolve to
 * this machine, can't read along. Bound to another one any name may be right. */
#ifndef TALLYD_HTTP_H
#define TALLYD_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "error.h"

#define HTTP_CONNECTIONS_MAX 64        /* more of them wait to be accepted */
#define HTTP_CONNECTIONS_A_CLIENT 32   /* more of one address are closed */
#define HTTP_MEMORY_A_CONNECTION 16384 /* request line and headers; longer ones are refused */
#define HTTP_DEADLINE_MS 10000 /* for sending a request whole, and for taking its answer; then it's cut */

struct http_answer {
    int status;
    struct buf body; /* taken over */
};

struct http_path {
    const char *path;   /* as it stands in the request, without a query; nothing is decoded */
    const char *type;   /* Content-Type */
    const char *policy; /* Content-Security-Policy */
    /* Fills the answer, whose status is 200 at first. In the server's thread. */
    void (*answer)(void *ctx, struct http_answer *answer);
};

struct http_setup {
    const char *address;           /* IPv4 or IPv6 */
    int port;                      /* 0: any that is free */
    int64_t deadline_ms;           /* HTTP_DEADLINE_MS, or less in a test */
    const struct http_path *paths; /* borrowed; ends with a NULL path */
    /* Called after each answer with the index of its path, or the number of paths for any other. May be NULL.
     */
    void (*answered)(void *ctx, size_t path, int status);
    void *ctx; /* handed to both */
};

struct http; /* opaque; owned by whoever started it */

/* Listens and starts the thread. NULL with an error that names the address, say because the port is in use.
 */
struct http *http_start(const struct http_setup *setup, struct error *err)
    __attribute__((warn_unused_result));
int http_port(const struct http *h);
/* Cuts all connections, ends the thread and frees. NULL is allowed. */
void http_stop(struct http *h);

#endif
