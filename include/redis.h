/* SPDX-License-Identifier: MIT */
/* A connection to Redis, its scripts, and the classifier of its errors. One
 * thread uses a connection. Commands go in pipelines with a deadline over the
 * whole of each; every reply is counted, since a missed one shifts all the rest.
 * After an error that leaves the outcome unknown the connection is closed. */
#ifndef TALLYD_REDIS_H
#define TALLYD_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "config.h"
#include "error.h"

/* Bounds of one pipeline: replies pile up in the server's output buffer meanwhile. */
#define REDIS_PIPELINE_COMMANDS 256
#define REDIS_PIPELINE_BYTES (1 << 20)

enum redis_script { REDIS_SCRIPT_DECIDE, REDIS_SCRIPT_WARM, REDIS_SCRIPT_COUNT };

enum redis_reply_kind {
    REDIS_TEXT,   /* a bulk or status string: `text`, `len` */
    REDIS_NUMBER, /* `number` */
    REDIS_NIL,
    REDIS_LIST,       /* an array of texts: `items`, `count`; nil items are NULL */
    REDIS_NO_SCRIPT,  /* the script cache was emptied: this command did nothing */
    REDIS_WRONG_DATA, /* a key holds another type than the script expects: nothing was changed */
};

struct redis_reply_view {
    enum redis_reply_kind kind;
    const char *text; /* borrowed until the callback returns */
    size_t len;
    int64_t number;
    const char **items;
    size_t count;
};

struct redis; /* opaque; owned by whoever opened it */

/* Makes a handle without connecting; `cfg` is borrowed for its life. */
struct redis *redis_new(const struct config *cfg);
void redis_free(struct redis *r);
void redis_close(struct redis *r);

/* Connected, authenticated, on its database, scripts loaded. Does all of it
 * anew when there is no usable connection. */
bool redis_ensure(struct redis *r, struct error *err) __attribute__((warn_unused_result));
/* Loads the scripts again, after REDIS_NO_SCRIPT. */
bool redis_load_scripts(struct redis *r, struct error *err) __attribute__((warn_unused_result));
/* The hash that EVALSHA takes; 40 characters, borrowed. Known once connected. */
const char *redis_script_sha(const struct redis *r, enum redis_script script);

/* A command being built: its arguments lie one after the other in `text`. Zero
 * it at first, reuse it, free it with redis_command_free. */
struct redis_command {
    struct buf text;
    size_t *start; /* where each argument begins */
    size_t count, capacity;
};
void redis_command_reset(struct redis_command *c);
/* Begins the next argument: append it to the buffer returned. */
struct buf *redis_command_arg(struct redis_command *c);
void redis_command_free(struct redis_command *c);

/* Adds a command to the pipeline in hand. Its arguments are copied. */
void redis_append(struct redis *r, const struct redis_command *c);
/* Commands and bytes appended since the last redis_collect. */
size_t redis_pending_commands(const struct redis *r);
size_t redis_pending_bytes(const struct redis *r);
/* Sends the pipeline in hand without reading its replies, so that the server
 * works while the next one is being built. The next redis_collect_sent reads
 * them. No more than two pipelines should be under way. */
bool redis_send(struct redis *r, struct error *err) __attribute__((warn_unused_result));
/* Reads the replies of the oldest pipeline sent, as redis_collect does. */
bool redis_collect_sent(struct redis *r,
                        void (*each)(void *ctx, size_t i, const struct redis_reply_view *reply), void *ctx,
                        struct error *err) __attribute__((warn_unused_result));
/* Sends the pipeline and reads all its replies, in order: `each(ctx, i, reply)`.
 * An error reply that means "wait" (BUSY, LOADING, READONLY, MASTERDOWN, OOM …)
 * or "stop" ends it with an error, after all replies were read; a time-out or
 * lost connection closes it, outcome unknown. The pipeline is empty afterwards. */
bool redis_collect(struct redis *r, void (*each)(void *ctx, size_t i, const struct redis_reply_view *reply),
                   void *ctx, struct error *err) __attribute__((warn_unused_result));

/* CONFIG GET of one parameter into `out`; "" where the server has no such command
 * or doesn't let us. */
bool redis_config_get(struct redis *r, const char *name, char *out, size_t size, struct error *err)
    __attribute__((warn_unused_result));

#endif
