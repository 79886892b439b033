/* SPDX-License-Identifier: MIT */
/* What an event says follows from the seed and its number. So a repeat is made
 * by making the earlier event once more; only its number and time are kept. */
#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#include "period.h"

/* Repeats are of one of the last so many: some in the same batch, some in a later one. */
#define RECENT 4096
#define LOCAL_LEN 23 /* 2026-11-30T12:00:00.123: the part of a local time that most producers send */
#define SECOND_NS INT64_C(1000000000)
#define DAY_MS (24 * INT64_C(3600000))
#define LATE_MIN_MS 60000
#define LATE_MAX_MS (3 * DAY_MS)

struct recent {
    uint64_t number;
    int64_t time_ms;
};

struct simulation {
    struct simulate_options o;
    struct population population;
    uint64_t number; /* of the next event */
    int64_t due_ns;  /* the next one */
    int64_t ramp_ns; /* how long the ramp is */
    struct recent recent[RECENT];
    uint64_t recent_count; /* ever */
};

/* An event before it's text. */
struct draft {
    int64_t family, customer, time_ms;
    struct population_use use;
    uint64_t id[2];
};

const char *simulate_kind_name(enum simulate_kind kind) {
    static const char *const names[] = {"normal", "duplicate", "late", "broken"};
    return names[kind];
}

bool simulate_pattern_parse(const char *word, enum simulate_pattern *out) {
    static const char *const names[] = {"constant", "ramp-up", "burst", "realistic"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(word, names[i]) == 0) {
            *out = (enum simulate_pattern)i;
            return true;
        }
    }
    return false;
}

struct simulation *simulation_new(const struct simulate_options *options) {
    struct simulation *s = mem_zero(1, sizeof *s);
    s->o = *options;
    population_init(&s->population, options->families);
    /* over the ramp the rate is 0.55 of the full one on average */
    if (options->duration_ms)
        s->ramp_ns = options->duration_ms * 1000000;
    else if (options->rate > 0)
        s->ramp_ns = (int64_t)((double)options->count / (0.55 * options->rate) * 1e9);
    return s;
}

void simulation_free(struct simulation *s) {
    if (!s)
        return;
    population_deinit(&s->population);
    free(s);
}

const struct population *simulation_population(const struct simulation *s) {
    return &s->population;
}

/* ---- when ---- */

/* A day's curve between its lowest point, 4 o'clock, and its highest, 21 o'clock. */
static double day_factor(int64_t t_ms) {
    int hhmm = period_hhmm(t_ms);
    int minutes = hhmm / 100 * 60 + hhmm % 100;
    double hour = minutes / 60.0;
    double x = hour < 4 ? (4 - hour) / 7 : hour < 21 ? (hour - 4) / 17 : (28 - hour) / 7;
    return 0.2 + 1.6 * x * x * (3 - 2 * x);
}

static double rate_now(const struct simulation *s) {
    double x;
    switch (s->o.pattern) {
    case SIMULATE_RAMP_UP:
        x = s->ramp_ns > 0 ? (double)s->due_ns / (double)s->ramp_ns : 1;
        return s->o.rate * (x < 1 ? 0.1 + 0.9 * x : 1);
    case SIMULATE_BURST:
        return s->o.rate * (s->due_ns / SECOND_NS % 10 == 5 ? 5.5 : 0.5);
    case SIMULATE_REALISTIC:
        return s->o.rate * day_factor(s->o.start_ms + s->due_ns / 1000000);
    default:
        return s->o.rate;
    }
}

int64_t simulation_due_ns(const struct simulation *s) {
    if (s->o.count && s->number >= (uint64_t)s->o.count)
        return -1;
    if (s->o.rate > 0 && s->o.duration_ms && s->due_ns >= s->o.duration_ms * 1000000)
        return -1;
    return s->due_ns;
}

static int64_t time_of_next(const struct simulation *s, int64_t now_ms) {
    if (!s->o.own_time)
        return now_ms;
    return s->o.start_ms + (s->o.rate > 0 ? s->due_ns / 1000000 : (int64_t)s->number);
}

/* ---- what ---- */

static void append_hex(struct buf *b, uint64_t v, int digits) {
    char *to = buf_room(b, (size_t)digits);
    for (int i = 0; i < digits; i++)
        to[i] = "0123456789abcdef"[v >> (4 * (digits - 1 - i)) & 15];
    buf_end(b, (size_t)digits);
}

/* A random UUID (version 4). */
static void append_id(struct buf *b, const uint64_t id[2]) {
    append_hex(b, id[0] >> 32, 8);
    buf_char(b, '-');
    append_hex(b, id[0] >> 16 & 0xffff, 4);
    buf_str(b, "-4");
    append_hex(b, id[0] & 0xfff, 3);
    buf_char(b, '-');
    append_hex(b, 0x8000 | (id[1] >> 48 & 0x3fff), 4);
    buf_char(b, '-');
    append_hex(b, id[1] & 0xffffffffffff, 12);
}

static void write_event(struct buf *b, const struct draft *d, bool with_customer) {
    char moment[PERIOD_LOCAL_SIZE];
    period_format_local(d->time_ms, moment);
    buf_reset(b);
    buf_str(b, "{\"eventId\":\"");
    append_id(b, d->id);
    buf_str(b, "\",\"eventType\":\"DATA_USAGE\",\"timestamp\":\"");
    buf_append(b, moment, LOCAL_LEN);
    buf_str(b, "\",\"payload\":{\"familyId\":");
    buf_i64(b, d->family);
    if (with_customer) {
        buf_str(b, ",\"customerId\":");
        buf_i64(b, d->customer);
    }
    buf_str(b, ",\"appId\":\"");
    buf_str(b, d->use.app_id);
    buf_str(b, "\",\"bytesUsed\":");
    buf_i64(b, d->use.bytes);
    buf_str(b, ",\"metadata\":{\"networkType\":\"");
    buf_str(b, d->use.network);
    buf_str(b, "\"}}}");
}

/* The kind that an event's number gives it, and the sequence that its contents come from. */
static enum simulate_kind roll_kind(const struct simulation *s, uint64_t number, struct dice *dice) {
    *dice = dice_new(s->o.seed, number);
    double x = dice_fraction(dice);
    if (x < s->o.duplicates)
        return SIMULATE_DUPLICATE;
    if (x < s->o.duplicates + s->o.late)
        return SIMULATE_LATE;
    return x < s->o.duplicates + s->o.late + s->o.broken ? SIMULATE_BROKEN : SIMULATE_NORMAL;
}

static struct draft draw(const struct simulation *s, struct dice *dice, int64_t time_ms) {
    struct draft d = {.time_ms = time_ms};
    d.id[0] = dice_roll(dice);
    d.id[1] = dice_roll(dice);
    /* without a hot family nothing is rolled for it: a seed's events are what they always were */
    if (s->o.hot_family > 0 && dice_fraction(dice) < s->o.hot_family)
        population_draw_in(&s->population, dice, 0, &d.family, &d.customer);
    else
        population_draw(&s->population, dice, &d.family, &d.customer);
    d.use = population_draw_use(dice);
    return d;
}

static struct draft draw_again(const struct simulation *s, struct dice *dice) {
    uint64_t kept = s->recent_count < RECENT ? s->recent_count : RECENT;
    const struct recent *r = &s->recent[dice_below(dice, kept)];
    struct dice own;
    roll_kind(s, r->number, &own);
    return draw(s, &own, r->time_ms);
}

static void remember(struct simulation *s, int64_t time_ms) {
    s->recent[s->recent_count++ % RECENT] = (struct recent){s->number, time_ms};
}

/* Within the month, for which the quotas are. */
static int64_t late_time(struct dice *dice, int64_t now_ms) {
    int64_t month_start = period_month_end(period_month_before(period_month(now_ms)));
    double x = dice_fraction(dice);
    int64_t t = now_ms - LATE_MIN_MS - (int64_t)(x * x * x * (LATE_MAX_MS - LATE_MIN_MS));
    return t > month_start ? t : month_start;
}

/* One of eight ways in which an event can't be settled. */
static enum reject_code write_broken(const struct simulation *s, struct dice *dice, struct draft *d,
                                     struct buf *value) {
    uint64_t way = dice_below(dice, 8);
    if (way == 7 && s->recent_count == 0)
        way = 0;
    enum reject_code code = REJECT_INVALID_FIELD;
    bool with_customer = true;
    switch (way) {
    case 1:
        d->use.bytes = -d->use.bytes;
        break;
    case 2:
        with_customer = false;
        break;
    case 3:
        d->family = POPULATION_FIRST_FAMILY + POPULATION_FAMILIES_MAX + (int64_t)dice_below(dice, 1000);
        code = REJECT_UNKNOWN_FAMILY;
        break;
    case 4:
        d->customer =
            population_customer_id(population_members(&s->population)) + (int64_t)dice_below(dice, 1000);
        code = REJECT_NOT_A_MEMBER;
        break;
    case 5:
        d->time_ms += s->o.max_future_ms + 3600000;
        code = REJECT_EVENT_IN_FUTURE;
        break;
    case 6:
        d->time_ms -= (s->o.max_past_months + 2) * 31 * DAY_MS;
        code = REJECT_EVENT_TOO_OLD;
        break;
    case 7: {
        int64_t bytes = d->use.bytes;
        *d = draw_again(s, dice);
        d->use.bytes = d->use.bytes == bytes ? bytes + 1 : bytes;
        code = REJECT_ID_CONFLICT;
        break;
    }
    default:
        code = REJECT_MALFORMED_JSON;
    }
    write_event(value, d, with_customer);
    if (code == REJECT_MALFORMED_JSON) { /* cut short */
        value->len = 1 + dice_below(dice, value->len - 1);
        value->data[value->len] = '\0';
    }
    return code;
}

static void advance(struct simulation *s) {
    s->number++;
    if (s->o.rate > 0)
        s->due_ns += (int64_t)(1e9 / rate_now(s));
}

void simulation_next(struct simulation *s, int64_t now_ms, struct simulate_event *e) {
    struct dice dice;
    struct draft d;
    e->now_ms = time_of_next(s, now_ms);
    e->kind = roll_kind(s, s->number, &dice);
    e->code = REJECT_NONE;
    if (e->kind == SIMULATE_DUPLICATE && s->recent_count == 0)
        e->kind = SIMULATE_NORMAL;
    d = e->kind == SIMULATE_DUPLICATE ? draw_again(s, &dice) : draw(s, &dice, e->now_ms);
    if (e->kind == SIMULATE_LATE)
        d.time_ms = late_time(&dice, e->now_ms);
    if (e->kind == SIMULATE_BROKEN)
        e->code = write_broken(s, &dice, &d, &e->value);
    else
        write_event(&e->value, &d, true);
    if (e->kind == SIMULATE_NORMAL || e->kind == SIMULATE_LATE)
        remember(s, d.time_ms);
    struct buf key = {.data = e->key, .cap = sizeof e->key};
    buf_i64(&key, d.family);
    e->key_len = key.len;
    advance(s);
}
