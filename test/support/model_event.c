/* SPDX-License-Identifier: MIT */
#include "model_event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "model_json.h"

#define VALUE_MAX 65536
#define ID_MAX 191
#define APP_MAX 100
#define DAY_MS INT64_C(86400000)
#define ZONE_MS (9 * INT64_C(3600000)) /* Seoul keeps one offset all year */

/* ---- the calendar ---- */

static bool leap(int64_t year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_in(int64_t year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && leap(year));
}

/* Days from 1970-01-01, counted one month after the other. */
static int64_t days_before(int64_t year, int month) {
    int64_t days = 0;
    for (int64_t y = 1970; y < year; y++)
        days += leap(y) ? 366 : 365;
    for (int64_t y = year; y < 1970; y++)
        days -= leap(y) ? 366 : 365;
    for (int m = 1; m < month; m++)
        days += days_in(year, m);
    return days;
}

/* Floored, so that what lies before 1970 falls into its own day. */
static int64_t day_of(int64_t t_ms) {
    return (t_ms - ((t_ms % DAY_MS) + DAY_MS) % DAY_MS) / DAY_MS;
}

static void date_of(int64_t t_ms, int64_t *year, int *month, int *day) {
    int64_t d = day_of(t_ms), y = 1970 + d / 366;
    while (days_before(y + 1, 1) <= d)
        y++;
    while (days_before(y, 1) > d)
        y--;
    int m = 1;
    while (m < 12 && days_before(y, m + 1) <= d)
        m++;
    *year = y;
    *month = m;
    *day = (int)(d - days_before(y, m)) + 1;
}

int model_month(int64_t t_ms) {
    int64_t year;
    int month, day;
    date_of(t_ms + ZONE_MS, &year, &month, &day);
    return (int)(year * 12 + month - 1);
}

int64_t model_month_start(int month) {
    return days_before(month / 12, month % 12 + 1) * DAY_MS - ZONE_MS;
}

void model_month_date(int month, char out[16]) {
    snprintf(out, 16, "%04u-%02u-01", (unsigned)(month / 12) % 10000u, (unsigned)(month % 12) + 1);
}

int model_minute(int64_t t_ms) {
    int64_t t = t_ms + ZONE_MS;
    return (int)((t - day_of(t) * DAY_MS) / 60000);
}

static void time_text(int64_t t, char between, char out[40]) {
    int64_t year;
    int month, day;
    date_of(t, &year, &month, &day);
    unsigned ms = (unsigned)(t - day_of(t) * DAY_MS);
    snprintf(out, 40, "%04u-%02u-%02u%c%02u:%02u:%02u.%03u", (unsigned)year % 10000u, (unsigned)month % 100u,
             (unsigned)day % 100u, between, ms / 3600000u % 100u, ms / 60000u % 60u, ms / 1000u % 60u,
             ms % 1000u);
}

void model_time_local(int64_t t_ms, char out[40]) {
    time_text(t_ms + ZONE_MS, 'T', out);
}

void model_time_utc(int64_t t_ms, char out[40]) {
    time_text(t_ms, ' ', out);
}

/* ---- a timestamp ---- */

/* So many digits, as a number; -1 when they aren't. Moves *s behind them. */
static int number_of(const char **s, int digits) {
    int n = 0;
    for (int i = 0; i < digits; i++, ++*s) {
        if (**s < '0' || **s > '9')
            return -1;
        n = n * 10 + (**s - '0');
    }
    return n;
}

static bool sign_eaten(const char **s, char c) {
    if (**s != c)
        return false;
    ++*s;
    return true;
}

/* "YYYY-MM-DD" in days. */
static bool date_read(const char **s, int64_t *days) {
    int year = number_of(s, 4);
    int month = sign_eaten(s, '-') ? number_of(s, 2) : -1;
    int day = month > 0 && sign_eaten(s, '-') ? number_of(s, 2) : -1;
    if (year < 0 || month < 1 || month > 12 || day < 1 || day > days_in(year, month))
        return false;
    *days = days_before(year, month) + day - 1;
    return true;
}

/* ".f", 1 to 9 digits, cut to the millisecond. */
static bool fraction_read(const char **s, int *ms) {
    int digits = 0;
    *ms = 0;
    for (; **s >= '0' && **s <= '9'; ++*s, digits++) {
        if (digits < 3)
            *ms = *ms * 10 + (**s - '0');
    }
    for (int i = digits; i < 3; i++)
        *ms *= 10;
    return digits >= 1 && digits <= 9;
}

/* "HH:MM[:SS[.f]]" in milliseconds. */
static bool clock_read(const char **s, int64_t *out) {
    int hour = number_of(s, 2);
    int minute = hour >= 0 && sign_eaten(s, ':') ? number_of(s, 2) : -1;
    int second = 0, ms = 0;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59)
        return false;
    if (sign_eaten(s, ':')) {
        second = number_of(s, 2);
        if (second < 0 || second > 59)
            return false;
        if (sign_eaten(s, '.') && !fraction_read(s, &ms))
            return false;
    }
    *out = ((hour * INT64_C(60) + minute) * 60 + second) * 1000 + ms;
    return true;
}

/* "Z", "±HH:MM" or nothing: what to take off to come to UTC. */
static bool offset_read(const char *s, int64_t *out) {
    *out = ZONE_MS;
    if (*s == '\0')
        return true;
    if (*s == 'Z') {
        *out = 0;
        return s[1] == '\0';
    }
    if (*s != '+' && *s != '-')
        return false;
    bool west = *s++ == '-';
    int hours = number_of(&s, 2);
    int minutes = hours >= 0 && sign_eaten(&s, ':') ? number_of(&s, 2) : -1;
    if (minutes < 0 || minutes > 59 || hours * 60 + minutes > 18 * 60 || *s != '\0')
        return false;
    *out = (hours * 60 + minutes) * INT64_C(60000) * (west ? -1 : 1);
    return true;
}

static bool time_read(const char *s, int64_t *t_ms) {
    int64_t days, clock, offset;
    if (!date_read(&s, &days) || !sign_eaten(&s, 'T') || !clock_read(&s, &clock) || !offset_read(s, &offset))
        return false;
    *t_ms = days * DAY_MS + clock - offset;
    return true;
}

/* ---- the members ---- */

bool model_digits(const char *text, size_t len, int64_t least, int64_t *out) {
    if (len < 1 || len > 16 || (len > 1 && text[0] == '0'))
        return false;
    int64_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        n = n * 10 + (text[i] - '0');
    }
    *out = n;
    return n >= least && n <= MODEL_AMOUNT_MAX;
}

static bool amount_read(const struct mj *v, int64_t *out) {
    if (v && v->kind == MJ_TEXT)
        return model_digits(v->text, v->len, 1, out);
    if (!v || v->kind != MJ_INTEGER)
        return false;
    *out = v->number;
    return v->number >= 1 && v->number <= MODEL_AMOUNT_MAX;
}

static bool white(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

char *model_trimmed(const char *text) {
    size_t n = strlen(text);
    while (n > 0 && white(text[n - 1]))
        n--;
    while (n > 0 && white(*text)) {
        text++;
        n--;
    }
    return strndup(text, n);
}

static bool id_read(const struct mj *v, char **out) {
    if (!v || v->kind != MJ_TEXT || v->len < 1 || v->len > ID_MAX)
        return false;
    for (size_t i = 0; i < v->len; i++) {
        if (v->text[i] < '!' || v->text[i] > '~')
            return false;
    }
    *out = mem_strdup(v->text);
    return true;
}

static bool stamp_read(const struct mj *v, int64_t record_ms, int64_t *out) {
    *out = record_ms;
    if (!v || v->kind == MJ_NULL)
        return true;
    return v->kind == MJ_TEXT && time_read(v->text, out);
}

static bool app_read(const struct mj *v, char **out) {
    if (!v || v->kind == MJ_NULL)
        return true;
    if (v->kind != MJ_TEXT)
        return false;
    *out = model_trimmed(v->text);
    if (**out == '\0') {
        free(*out);
        *out = NULL;
    }
    return !*out || strlen(*out) <= APP_MAX;
}

/* The first member that isn't as it must be, or NULL. */
static const char *members_read(const struct mj *doc, int64_t record_ms, struct model_event *e) {
    if (!id_read(mj_member(doc, "eventId"), &e->id))
        return "eventId";
    if (!stamp_read(mj_member(doc, "timestamp"), record_ms, &e->time_ms))
        return "timestamp";
    const struct mj *payload = mj_member(doc, "payload");
    if (!payload || payload->kind != MJ_OBJECT)
        return "payload";
    if (!amount_read(mj_member(payload, "familyId"), &e->family))
        return "familyId";
    if (!amount_read(mj_member(payload, "customerId"), &e->customer))
        return "customerId";
    if (!amount_read(mj_member(payload, "bytesUsed"), &e->bytes))
        return "bytesUsed";
    return app_read(mj_member(payload, "appId"), &e->app) ? NULL : "appId";
}

static enum model_reading document_read(const struct mj *doc, int64_t record_ms, struct model_event *event,
                                        const char **code, const char **member) {
    const struct mj *type = mj_member(doc, "eventType");
    *code = "INVALID_FIELD";
    *member = "eventType";
    if (!type || type->kind != MJ_TEXT)
        return MODEL_UNREADABLE;
    if (strcmp(type->text, "DATA_USAGE") != 0)
        return MODEL_OTHER_TYPE;
    *member = members_read(doc, record_ms, event);
    return *member ? MODEL_UNREADABLE : MODEL_USAGE;
}

enum model_reading model_event_read(const char *value, size_t len, int64_t record_ms,
                                    struct model_event *event, const char **code, const char **member) {
    *event = (struct model_event){0};
    *member = NULL;
    *code = "EVENT_TOO_LARGE";
    if (value && len > VALUE_MAX)
        return MODEL_UNREADABLE;
    *code = "MALFORMED_JSON";
    struct mj *doc = mj_parse(value, len);
    enum model_reading reading = MODEL_UNREADABLE;
    if (doc && doc->kind == MJ_OBJECT)
        reading = document_read(doc, record_ms, event, code, member);
    mj_free(doc);
    return reading;
}

void model_event_free(struct model_event *event) {
    free(event->id);
    free(event->app);
    *event = (struct model_event){0};
}
