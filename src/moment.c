/* SPDX-License-Identifier: MIT */
#include "moment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "period.h"

#define AGO_DIGITS_MAX 9
#define DAY_LENGTH 10

static bool parse_ago(const char *text, int64_t now_ms, int64_t *t_ms) {
    static const struct {
        char letter;
        int64_t ms;
    } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
    text += text[0] == '-';
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > AGO_DIGITS_MAX || strlen(text) != digits + 1)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i].letter == text[digits]) {
            *t_ms = now_ms - strtoll(text, NULL, 10) * units[i].ms;
            return true;
        }
    }
    return false;
}

static bool parse_day(const char *text, int64_t *t_ms) {
    char whole[DAY_LENGTH + sizeof "T00:00"];
    if (strlen(text) != DAY_LENGTH)
        return false;
    int n = snprintf(whole, sizeof whole, "%sT00:00", text);
    return period_parse(whole, (size_t)n, t_ms);
}

bool moment_parse(const char *text, int64_t now_ms, int64_t *t_ms) {
    return (parse_ago(text, now_ms, t_ms) || parse_day(text, t_ms) ||
            period_parse(text, strlen(text), t_ms)) &&
           *t_ms >= 0;
}
