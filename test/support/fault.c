/* SPDX-License-Identifier: MIT */
#ifndef TALLYD_FAULTS
#define TALLYD_FAULTS 1 /* for its own suite, in a build without fault points */
#endif
#include "fault.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LINE 64 /* of the counts' file */
#define POINTS 256
#define PLANS 64

/* What the environment asks for. */
struct plan {
    char point[48];
    unsigned long from, to; /* hits */
    char action[16];
    long number;
};

struct point {
    char name[48];
    unsigned long hits;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plan plans[PLANS];
static size_t plan_count;
static struct point points[POINTS];
static size_t point_count;
static char *counts; /* mapped; NULL: nobody asked */
static bool ready;

static void refuse(const char *text) {
    fprintf(stderr, "TALLYD_FAULT: can't read %s\n", text);
    abort();
}

static bool is_action(const char *word) {
    static const char *const known[] = {"kill", "stop", "delay", "fail", "after", "fatal"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(word, known[i]) == 0)
            return true;
    }
    return false;
}

/* POINT@HIT:ACTION[=NUMBER] */
static void read_plan(const char *text) {
    struct plan p = {0};
    char hit[24] = "";
    int read = 0;
    if (plan_count == PLANS ||
        sscanf(text, "%47[^@]@%23[^:]:%15[a-z]%n=%ld%n", p.point, hit, p.action, &read, &p.number, &read) <
            3 ||
        text[read] || !is_action(p.action))
        refuse(text);
    char *end = hit;
    p.from = strcmp(hit, "*") == 0 ? 1 : strtoul(hit, &end, 10);
    p.to = *end ? (unsigned long)-1 : p.from;
    if (p.from == 0 || (*end && strcmp(end, "+") != 0 && strcmp(hit, "*") != 0))
        refuse(text);
    plans[plan_count++] = p;
}

static void read_plans(const char *text) {
    char *copy = strdup(text), *rest = copy, *one;
    while ((one = strsep(&rest, ";"))) {
        if (*one)
            read_plan(one);
    }
    free(copy);
}

static void map_counts(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, POINTS * LINE) != 0)
        refuse(path);
    counts = mmap(NULL, POINTS * LINE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED)
        refuse(path);
    close(fd);
    memset(counts, '\n', POINTS * LINE);
}

static void make_ready(void) {
    const char *plan = getenv("TALLYD_FAULT"), *path = getenv("TALLYD_FAULT_COUNTS");
    if (plan)
        read_plans(plan);
    if (path)
        map_counts(path);
    ready = true;
}

static unsigned long count_hit(const char *name) {
    size_t i = 0;
    while (i < point_count && strcmp(points[i].name, name) != 0)
        i++;
    if (i == point_count) {
        if (point_count == POINTS)
            refuse("more points than there is room for");
        snprintf(points[point_count++].name, sizeof points[0].name, "%s", name);
    }
    points[i].hits++;
    if (counts) {
        char line[LINE];
        int n = snprintf(line, sizeof line, "%s %lu", points[i].name, points[i].hits);
        memcpy(counts + i * LINE, line, (size_t)n);
    }
    return points[i].hits;
}

static void tell(const struct plan *p, unsigned long hit) {
    const char *path = getenv("TALLYD_FAULT_LOG");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    dprintf(fd, "%s %lu %s\n", p->point, hit, p->action);
    close(fd);
}

static struct fault act(const struct plan *p) {
    if (strcmp(p->action, "kill") == 0) {
        raise(SIGKILL);
    } else if (strcmp(p->action, "stop") == 0) {
        raise(SIGSTOP);
    } else if (strcmp(p->action, "delay") == 0) {
        struct timespec t = {.tv_sec = p->number / 1000, .tv_nsec = p->number % 1000 * 1000000};
        nanosleep(&t, NULL);
    }
    enum fault_verdict verdict = strcmp(p->action, "fail") == 0    ? FAULT_FAIL
                                 : strcmp(p->action, "after") == 0 ? FAULT_AFTER
                                 : strcmp(p->action, "fatal") == 0 ? FAULT_FATAL
                                                                   : FAULT_NONE;
    return (struct fault){verdict, verdict == FAULT_NONE ? 0 : (int)p->number};
}

struct fault fault_at(const char *point) {
    const struct plan *due = NULL;
    pthread_mutex_lock(&lock);
    if (!ready)
        make_ready();
    unsigned long hit = count_hit(point);
    for (size_t i = 0; i < plan_count && !due; i++) {
        if (strcmp(plans[i].point, point) == 0 && hit >= plans[i].from && hit <= plans[i].to)
            due = &plans[i];
    }
    if (due)
        tell(due, hit);
    pthread_mutex_unlock(&lock);
    return due ? act(due) : (struct fault){FAULT_NONE, 0};
}

struct fault fault_in_thread(const char *what) {
    char thread[16] = "", name[64];
    pthread_getname_np(pthread_self(), thread, sizeof thread);
    snprintf(name, sizeof name, "%s.%s", thread, what);
    return fault_at(name);
}

/* ---- statements ---- */

/* The word at *s in lower case, at most `room`; moves *s behind it. */
static void take_word(const char **s, const char *end, char *to, size_t room) {
    size_t n = 0;
    while (*s < end && !isalpha((unsigned char)**s) && **s != '_')
        ++*s;
    for (; *s < end && (isalnum((unsigned char)**s) || **s == '_'); ++*s) {
        if (n + 1 < room)
            to[n++] = (char)tolower((unsigned char)**s);
    }
    to[n] = '\0';
}

/* What a SELECT reads, or the function it calls. A table reached through a list of ids counts, not the list.
 */
static void take_source(const char *sql, const char *end, char *to, size_t room) {
    static const char *const before[] = {"STRAIGHT_JOIN ", " FROM "};
    size_t head = (size_t)(end - sql);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const char *at = memmem(sql, head, before[i], strlen(before[i]));
        if (at) {
            at += strlen(before[i]);
            take_word(&at, end, to, room);
            return;
        }
    }
    take_word(&sql, end, to, room);
}

struct fault fault_at_statement(const char *sql, size_t len) {
    char thread[16] = "", verb[16], object[32], name[sizeof thread + sizeof verb + sizeof object + 2];
    const char *s = sql, *end = sql + len;
    pthread_getname_np(pthread_self(), thread, sizeof thread);
    take_word(&s, end, verb, sizeof verb);
    if (strcmp(verb, "commit") == 0 || strcmp(verb, "start") == 0 || strcmp(verb, "rollback") == 0) {
        snprintf(name, sizeof name, "%s.%s", thread, verb);
        return fault_at(name);
    }
    if (strcmp(verb, "select") == 0) {
        take_source(s, end, object, sizeof object);
    } else {
        take_word(&s, end, object, sizeof object);
        if (strcmp(object, "into") == 0)
            take_word(&s, end, object, sizeof object);
    }
    snprintf(name, sizeof name, "%s.%s_%s", thread, verb, object);
    return fault_at(name);
}
