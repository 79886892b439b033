/* SPDX-License-Identifier: MIT */
#include "bench_meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "buf.h"

static int64_t own_us(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

/* User and system time of all its threads, in the kernel's ticks (10 ms). */
static bool process_us(const struct bench_pid *p, int64_t *us, struct error *err) {
    char path[64], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", p->pid);
    FILE *f = fopen(path, "r");
    bool there = f && fgets(text, sizeof text, f);
    if (f)
        fclose(f);
    long long user, system;
    const char *rest = strrchr(text, ')'); /* the name may hold anything */
    if (!there || !rest ||
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user, &system) != 2)
        return bench_error(err, "--pid %s=%d: there is no such process", p->name, p->pid);
    *us = (user + system) * 1000000 / sysconf(_SC_CLK_TCK);
    return true;
}

static bool read_cpu(const struct bench_options *o, int64_t us[BENCH_PIDS_MAX + 1], struct error *err) {
    for (size_t i = 0; i < o->pid_count; i++) {
        if (!process_us(&o->pids[i], &us[i], err))
            return false;
    }
    us[o->pid_count] = own_us();
    return true;
}

bool bench_meter_start(struct bench_meter *m, struct error *err) {
    bool ok = read_cpu(m->options, m->since_us, err);
    m->since_ns = bench_clock_ns();
    return ok;
}

bool bench_meter_stop(struct bench_meter *m, struct error *err) {
    int64_t now_us[BENCH_PIDS_MAX + 1];
    m->ns += bench_clock_ns() - m->since_ns;
    if (!read_cpu(m->options, now_us, err))
        return false;
    for (size_t i = 0; i <= m->options->pid_count; i++)
        m->us[i] += now_us[i] - m->since_us[i];
    return true;
}

json_t *bench_meter_cpu_json(const struct bench_meter *m, int64_t events) {
    const struct bench_options *o = m->options;
    json_t *cpu = json_object();
    for (size_t i = 0; i <= o->pid_count; i++)
        json_object_set_new(cpu, i < o->pid_count ? o->pids[i].name : "self",
                            events ? json_real((double)m->us[i] / (double)events) : json_null());
    return cpu;
}

json_t *bench_meter_json(const struct bench_meter *m, int64_t events) {
    double seconds = (double)m->ns / 1e9;
    return json_pack("{s:I,s:f,s:f,s:o}", "events", (json_int_t)events, "seconds", seconds, "eventsPerSecond",
                     seconds > 0 ? (double)events / seconds : 0, "cpuMicros",
                     bench_meter_cpu_json(m, events));
}

void bench_times_add(struct bench_times *t, int64_t ns) {
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 1024;
        t->ns = mem_realloc(t->ns, t->capacity * sizeof *t->ns);
    }
    t->ns[t->count++] = ns;
}

static int by_length(const void *x, const void *y) {
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static json_t *percentile_ms(const struct bench_times *t, size_t percent) {
    if (!t->count)
        return json_null();
    size_t rank = (t->count * percent + 99) / 100; /* counted from 1 */
    return json_real((double)t->ns[rank - 1] / 1e6);
}

json_t *bench_times_json(struct bench_times *t) {
    if (t->count)
        qsort(t->ns, t->count, sizeof *t->ns, by_length);
    return json_pack("{s:I,s:o,s:o,s:o,s:o}", "count", (json_int_t)t->count, "p50Ms", percentile_ms(t, 50),
                     "p95Ms", percentile_ms(t, 95), "p99Ms", percentile_ms(t, 99), "maxMs",
                     percentile_ms(t, 100));
}

void bench_times_free(struct bench_times *t) {
    free(t->ns);
    *t = (struct bench_times){0};
}
