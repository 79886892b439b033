/* SPDX-License-Identifier: MIT */
/* The zone's rules come from glibc, the calendar from a few lines of integer
 * arithmetic. localtime_r takes a process-wide lock and every event needs
 * several look-ups, so each thread remembers the offsets it has asked for, by
 * quarter of an hour: offsets have changed on quarters since the zones gave up
 * local mean time, and a quarter whose ends differ is simply not remembered. */
#include "period.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define ZONE_DIR "/usr/share/zoneinfo/"
#define ZONE_NAME_MAX 64

#define DAY_S 86400
#define DAY_MS (DAY_S * INT64_C(1000))
#define OFFSET_MAX_S (18 * 3600)

/* Years 1 to 9999: what four digits can say. Instants outside are seen as the nearest inside. */
#define FIRST_MS INT64_C(-62135596800000)
#define LAST_MS INT64_C(253402300799999)

#define BUCKET_S 900
#define CACHE_SLOTS 256 /* two and a half days; a day before or after never shares a slot */

struct slot {
    int64_t bucket;
    uint32_t generation; /* of the zone it was asked in; 0: empty */
    int32_t offset_s;
};

struct civil {
    int year;
    int month;
    int day;
};

static atomic_uint zone_generation = 1;
static _Thread_local struct slot cache[CACHE_SLOTS];

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

static int64_t clamp_ms(int64_t t_ms) {
    return t_ms < FIRST_MS ? FIRST_MS : t_ms > LAST_MS ? LAST_MS : t_ms;
}

/* Days since 1970-01-01 of a date of the proleptic Gregorian calendar, year ≥ 1.
 * Years are counted from March, so that the leap day comes last. */
static int64_t days_from_civil(struct civil c) {
    int64_t y = c.month > 2 ? c.year : c.year - 1;
    int64_t day_of_year = (153 * (c.month > 2 ? c.month - 3 : c.month + 9) + 2) / 5 + c.day - 1;
    return 365 * y + y / 4 - y / 100 + y / 400 + day_of_year - 719468;
}

/* The reverse, for days since 0001-01-01 or later. */
static struct civil civil_from_days(int64_t days) {
    int64_t z = days + 719468;
    int64_t era = z / 146097;
    int64_t of_era = z % 146097;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month = (int)((5 * of_year + 2) / 153); /* March is 0 */
    int day = (int)(of_year - (153 * month + 2) / 5 + 1);
    int64_t year = year_of_era + era * 400 + (month > 9);
    return (struct civil){(int)year, month > 9 ? month - 9 : month + 3, day};
}

static int days_in_month(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
}

static int32_t offset_ask(int64_t t_s) {
    time_t t = (time_t)t_s;
    struct tm tm;
    return localtime_r(&t, &tm) ? (int32_t)tm.tm_gmtoff : 0;
}

/* The zone's offset from UTC at an instant, in seconds. */
static int32_t offset_at(int64_t t_s) {
    int64_t bucket = floor_div(t_s, BUCKET_S);
    struct slot *slot = &cache[(uint64_t)bucket % CACHE_SLOTS];
    uint32_t generation = atomic_load_explicit(&zone_generation, memory_order_acquire);
    if (slot->generation == generation && slot->bucket == bucket)
        return slot->offset_s;
    int32_t first = offset_ask(bucket * BUCKET_S);
    if (offset_ask(bucket * BUCKET_S + BUCKET_S - 1) != first)
        return offset_ask(t_s);
    *slot = (struct slot){bucket, generation, first};
    return first;
}

/* Milliseconds on the zone's own calendar, counted as if it were UTC. */
static int64_t local_ms(int64_t t_ms) {
    int64_t t = clamp_ms(t_ms);
    return clamp_ms(t + offset_at(floor_div(t, 1000)) * INT64_C(1000));
}

/* The instant of a local time. No two changes of a zone's offset lie within two
 * days, so the offset is the one of a day before or of a day after. */
static int64_t local_to_instant(int64_t local) {
    int64_t local_s = floor_div(local, 1000);
    int32_t before = offset_at(local_s - DAY_S), after = offset_at(local_s + DAY_S);
    bool before_holds = offset_at(local_s - before) == before;
    bool after_holds = offset_at(local_s - after) == after;
    /* Both hold where clocks go back: the greater offset is the earlier instant. */
    int32_t offset = before;
    if (after_holds && (!before_holds || after > before))
        offset = after;
    return local - offset * INT64_C(1000);
}

static bool zone_name_ok(const char *zone) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
    size_t len = strlen(zone);
    /* right/… counts leap seconds, which the rest of the world's instants don't. */
    return len > 0 && len <= ZONE_NAME_MAX && strspn(zone, allowed) == len && zone[0] != '/' &&
           strncmp(zone, "right/", 6) != 0;
}

static bool zone_file_ok(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    char magic[4];
    bool ok = fread(magic, 1, sizeof magic, f) == sizeof magic && memcmp(magic, "TZif", sizeof magic) == 0;
    fclose(f);
    return ok;
}

bool period_zone_init(const char *zone, struct error *err) {
    /* The whole path, so that TZDIR in the environment has no say. */
    char tz[1 + sizeof ZONE_DIR + ZONE_NAME_MAX];
    if (!zone || !zone_name_ok(zone))
        return error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0,
                         "zone: not a time zone's name such as Asia/Seoul");
    snprintf(tz, sizeof tz, ":%s%s", ZONE_DIR, zone);
    if (!zone_file_ok(tz + 1))
        return error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "zone: %s has no time zone %s",
                         ZONE_DIR, zone);
    if (setenv("TZ", tz, 1) != 0)
        return error_set(err, ERROR_CONFIG, ERROR_STOP, ERROR_NOT_DONE, 0, "zone: setting TZ failed");
    tzset();
    atomic_fetch_add_explicit(&zone_generation, 1, memory_order_release);
    return true;
}

int32_t period_month(int64_t t_ms) {
    struct civil c = civil_from_days(floor_div(local_ms(t_ms), DAY_MS));
    return c.year * 100 + c.month;
}

int period_hhmm(int64_t t_ms) {
    int64_t local = local_ms(t_ms);
    int minutes = (int)((local - floor_div(local, DAY_MS) * DAY_MS) / 60000);
    return minutes / 60 * 100 + minutes % 60;
}

int32_t period_month_before(int32_t month) {
    return month % 100 == 1 ? month - 89 : month - 1;
}

int32_t period_month_after(int32_t month) {
    return month % 100 == 12 ? month + 89 : month + 1;
}

int64_t period_month_end(int32_t month) {
    int32_t next = period_month_after(month);
    return local_to_instant(days_from_civil((struct civil){next / 100, next % 100, 1}) * DAY_MS);
}

struct cursor {
    const char *at;
    const char *end;
};

static bool take_char(struct cursor *c, char wanted) {
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

/* A number of exactly `digits` digits, up to `max`. */
static bool take_number(struct cursor *c, int digits, int max, int *out) {
    if (c->end - c->at < digits)
        return false;
    int n = 0;
    for (int i = 0; i < digits; i++) {
        char digit = *c->at++;
        if (digit < '0' || digit > '9')
            return false;
        n = n * 10 + (digit - '0');
    }
    *out = n;
    return n <= max;
}

static bool take_date(struct cursor *c, struct civil *out) {
    return take_number(c, 4, 9999, &out->year) && out->year >= 1 && take_char(c, '-') &&
           take_number(c, 2, 12, &out->month) && out->month >= 1 && take_char(c, '-') &&
           take_number(c, 2, days_in_month(out->year, out->month), &out->day) && out->day >= 1;
}

/* One to nine digits after the point, cut to milliseconds. */
static bool take_fraction(struct cursor *c, int *ms) {
    int digits = 0;
    *ms = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (digits < 3)
            *ms = *ms * 10 + (*c->at - '0');
        digits++;
    }
    for (int i = digits; i < 3; i++)
        *ms *= 10;
    return digits >= 1 && digits <= 9;
}

/* HH:MM[:SS[.f]] as milliseconds of the day. */
static bool take_clock(struct cursor *c, int64_t *ms_of_day) {
    int hour, minute, second = 0, ms = 0;
    if (!take_number(c, 2, 23, &hour) || !take_char(c, ':') || !take_number(c, 2, 59, &minute))
        return false;
    if (take_char(c, ':')) {
        if (!take_number(c, 2, 59, &second))
            return false;
        if (take_char(c, '.') && !take_fraction(c, &ms))
            return false;
    }
    *ms_of_day = ((hour * 60 + minute) * 60 + second) * INT64_C(1000) + ms;
    return true;
}

/* Z or ±HH:MM. */
static bool take_offset(struct cursor *c, int *offset_s) {
    int hour, minute;
    *offset_s = 0;
    if (take_char(c, 'Z'))
        return true;
    bool west = take_char(c, '-');
    if (!west && !take_char(c, '+'))
        return false;
    if (!take_number(c, 2, 18, &hour) || !take_char(c, ':') || !take_number(c, 2, 59, &minute))
        return false;
    *offset_s = (hour * 60 + minute) * 60;
    if (*offset_s > OFFSET_MAX_S)
        return false;
    if (west)
        *offset_s = -*offset_s;
    return true;
}

bool period_parse(const char *text, size_t len, int64_t *t_ms) {
    struct cursor c = {text, text + len};
    struct civil date;
    int64_t ms_of_day;
    int offset_s;
    if (!take_date(&c, &date) || !take_char(&c, 'T') || !take_clock(&c, &ms_of_day))
        return false;
    int64_t local = days_from_civil(date) * DAY_MS + ms_of_day;
    if (c.at == c.end) {
        *t_ms = local_to_instant(local);
        return true;
    }
    if (!take_offset(&c, &offset_s) || c.at != c.end)
        return false;
    *t_ms = local - offset_s * INT64_C(1000);
    return true;
}

bool period_parse_utc(const char *text, int64_t *t_ms) {
    size_t len = strlen(text);
    struct cursor c = {text, text + len};
    struct civil date;
    int64_t ms_of_day;
    if (len < sizeof "2026-11-30 03:00:00" - 1 || !take_date(&c, &date) || !take_char(&c, ' ') ||
        !take_clock(&c, &ms_of_day) || c.at != c.end)
        return false;
    *t_ms = days_from_civil(date) * DAY_MS + ms_of_day;
    return true;
}

static char *put_number(char *to, int digits, int n) {
    for (int i = digits - 1; i >= 0; i--) {
        to[i] = (char)('0' + n % 10);
        n /= 10;
    }
    return to + digits;
}

static char *put_date(char *to, struct civil c) {
    to = put_number(to, 4, c.year);
    *to++ = '-';
    to = put_number(to, 2, c.month);
    *to++ = '-';
    return put_number(to, 2, c.day);
}

/* YYYY-MM-DD, the separator, HH:MM:SS.fff */
static char *put_moment(char *to, int64_t ms, char separator) {
    int64_t days = floor_div(ms, DAY_MS);
    int of_day = (int)(ms - days * DAY_MS);
    to = put_date(to, civil_from_days(days));
    *to++ = separator;
    to = put_number(to, 2, of_day / 3600000);
    *to++ = ':';
    to = put_number(to, 2, of_day / 60000 % 60);
    *to++ = ':';
    to = put_number(to, 2, of_day / 1000 % 60);
    *to++ = '.';
    return put_number(to, 3, of_day % 1000);
}

void period_format_local(int64_t t_ms, char out[PERIOD_LOCAL_SIZE]) {
    int64_t t = clamp_ms(t_ms);
    /* Local mean times have odd seconds, which the text can't say: dropped in
     * the offset and the time alike, the text still names the very instant. */
    int minutes = offset_at(floor_div(t, 1000)) / 60;
    char *to = put_moment(out, clamp_ms(t + minutes * INT64_C(60000)), 'T');
    *to++ = minutes < 0 ? '-' : '+';
    to = put_number(to, 2, abs(minutes) / 60);
    *to++ = ':';
    to = put_number(to, 2, abs(minutes) % 60);
    *to = '\0';
}

void period_format_utc(int64_t t_ms, char out[PERIOD_UTC_SIZE]) {
    *put_moment(out, clamp_ms(t_ms), ' ') = '\0';
}

struct period_utc period_utc(int64_t t_ms) {
    int64_t t = clamp_ms(t_ms), days = floor_div(t, DAY_MS);
    int of_day = (int)(t - days * DAY_MS);
    struct civil date = civil_from_days(days);
    return (struct period_utc){.year = date.year,
                               .month = date.month,
                               .day = date.day,
                               .hour = of_day / 3600000,
                               .minute = of_day / 60000 % 60,
                               .second = of_day / 1000 % 60,
                               .ms = of_day % 1000};
}

void period_month_date(int32_t month, char out[PERIOD_DATE_SIZE]) {
    *put_date(out, (struct civil){month / 100, month % 100, 1}) = '\0';
}

int32_t period_date_month(const char *text) {
    struct cursor c = {text, text + strlen(text)};
    struct civil date;
    return take_date(&c, &date) && c.at == c.end ? date.year * 100 + date.month : 0;
}
