/* SPDX-License-Identifier: MIT */
#include "log_repeats.h"

#include <pthread.h>
#include <string.h>

/* One message; unused when `event` is NULL. */
struct slot {
    const struct log_event *event;
    enum log_level level;
    uint64_t key;
    int64_t began_ms;
    unsigned written;  /* within this window */
    uint64_t repeated; /* and counted */
    int64_t since_ms;  /* when counting began */
    size_t len;
    char fields[REPEATS_TEXT_MAX];
};

static int64_t window_ms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot slots[REPEATS_MESSAGES]; /* under `lock`, which is held for a copy at most */

void log_repeats_init(int64_t ms) {
    window_ms = ms;
    memset(slots, 0, sizeof slots);
}

static bool is_over(const struct slot *s, int64_t now_ms) {
    return now_ms - s->began_ms >= window_ms;
}

static struct slot *find(const struct log_event *event, enum log_level level, uint64_t key) {
    for (size_t i = 0; i < REPEATS_MESSAGES; i++) {
        if (slots[i].event == event && slots[i].key == key && slots[i].level == level)
            return &slots[i];
    }
    return NULL;
}

/* One that nothing is to be told of any more; NULL when there is none. */
static struct slot *find_free(int64_t now_ms) {
    for (size_t i = 0; i < REPEATS_MESSAGES; i++) {
        if (!slots[i].event || (is_over(&slots[i], now_ms) && slots[i].repeated == 0))
            return &slots[i];
    }
    return NULL;
}

static void begin(struct slot *s, const struct log_event *event, enum log_level level, uint64_t key,
                  int64_t now_ms) {
    s->event = event;
    s->level = level;
    s->key = key;
    s->began_ms = s->since_ms = now_ms;
    s->written = 0;
    s->repeated = 0;
    s->len = 0;
}

static void keep(struct slot *s, const char *fields, size_t len) {
    s->len = len <= sizeof s->fields ? len : 0;
    memcpy(s->fields, fields, s->len);
}

static bool note(const struct log_event *event, enum log_level level, uint64_t key, int64_t now_ms,
                 const char *fields, size_t len) {
    struct slot *s = find(event, level, key);
    if (!s || (is_over(s, now_ms) && s->repeated == 0)) { /* else what was counted is told first */
        if (!s)
            s = find_free(now_ms);
        if (!s)
            return true;
        begin(s, event, level, key, now_ms);
    }
    if (s->written < REPEATS_WRITTEN) {
        s->written++;
        return true;
    }
    s->repeated++;
    keep(s, fields, len);
    return false;
}

bool log_repeats_note(const struct log_event *event, enum log_level level, uint64_t key, int64_t now_ms,
                      const char *fields, size_t len) {
    if (window_ms == 0)
        return true;
    pthread_mutex_lock(&lock);
    bool write = note(event, level, key, now_ms, fields, len);
    pthread_mutex_unlock(&lock);
    return write;
}

/* Goes on: what comes in the next window is counted from its first on. */
static void take(struct slot *s, int64_t now_ms, struct log_repeat *out) {
    *out = (struct log_repeat){.event = s->event,
                               .level = s->level,
                               .key = s->key,
                               .repeated = s->repeated,
                               .since_ms = s->since_ms,
                               .len = s->len};
    memcpy(out->fields, s->fields, s->len);
    s->began_ms = s->since_ms = now_ms;
    s->repeated = 0;
}

bool log_repeats_take(int64_t now_ms, bool all, struct log_repeat *out) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < REPEATS_MESSAGES && !found; i++) {
        struct slot *s = &slots[i];
        found = s->event && s->repeated > 0 && (all || is_over(s, now_ms));
        if (found)
            take(s, now_ms, out);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool log_repeats_put_back(const struct log_repeat *r) {
    pthread_mutex_lock(&lock);
    struct slot *s = find(r->event, r->level, r->key);
    if (s) {
        if (s->repeated == 0)
            keep(s, r->fields, r->len);
        s->repeated += r->repeated;
        s->since_ms = r->since_ms;
    }
    pthread_mutex_unlock(&lock);
    return s != NULL;
}
