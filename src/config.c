/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "config_value.h"
#include "config_yaml.h"

struct loader {
    const char *file;
    struct config *config;
    const struct config_node *given[CONFIG_KEYS_MAX]; /* where each key was set; borrowed */
    struct error *err;
};

static const struct config_node *given(const struct loader *l, const struct config_key *k) {
    size_t count;
    return l->given[k - config_keys(&count)];
}

/* ---- errors ---- */

static void append_must(struct buf *out, const struct config_key *k) {
    long long min = (long long)k->min, max = (long long)k->max;
    switch (k->type) {
    case CONFIG_STRING:
    case CONFIG_SECRET:
        buf_str(out, k->rule->must);
        if (k->max)
            buf_printf(out, ", %lld … %lld bytes", min, max);
        break;
    case CONFIG_INT:
        buf_printf(out, "a whole number, %lld … %lld", min, max);
        if (k->step > 1)
            buf_printf(out, " in steps of %lld", (long long)k->step);
        break;
    case CONFIG_BOOL:
        buf_str(out, "true or false");
        break;
    case CONFIG_CHOICE:
        buf_str(out, k->rule->must);
        break;
    case CONFIG_PROPERTIES:
        buf_str(out, "a mapping (name: value)");
        break;
    case CONFIG_PERCENTS:
        buf_printf(out, "a list of 1 … %d whole numbers, each %lld … %lld", CONFIG_THRESHOLDS_MAX, min, max);
        break;
    }
}

static void append_found(struct buf *out, const struct config_key *k, const struct config_node *n) {
    char text[CONFIG_SHOWN_SIZE];
    if (n->kind != CONFIG_NODE_SCALAR) {
        buf_str(out, n->kind == CONFIG_NODE_LIST ? n->first ? "a list" : "an empty list" : "a mapping");
    } else if (config_node_is_null(n)) {
        buf_str(out, "without a value");
        if (k->rule && k->max && !k->min)
            buf_str(out, "; write \"\" for none");
    } else if (k->type == CONFIG_SECRET) {
        buf_str(out, "something else (not shown)");
    } else if (k->type == CONFIG_STRING && config_value_is_derived(n->text, false)) {
        buf_str(out, "something else once ${…} is filled in (not shown)");
    } else {
        config_show(text, n->text);
        buf_printf(out, n->quoted ? "\"%s\" in quotes" : "%s", text);
    }
}

/* "must be X, is Y" */
static bool refuse(const struct loader *l, const struct config_key *k, const struct config_node *n) {
    struct buf reason = {0};
    buf_str(&reason, "must be ");
    append_must(&reason, k);
    buf_str(&reason, ", is ");
    append_found(&reason, k, n);
    config_node_error(l->file, n, l->err, "%s", buf_cstr(&reason));
    buf_free(&reason);
    return false;
}

/* How many letters to change, add or drop to get from a to b; large when one of them is too long to be a key.
 */
static size_t distance(const char *a, const char *b) {
    size_t row[64], m = strlen(a), n = strlen(b);
    if (m >= 64 || n >= 64)
        return 64;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

/* The key or section nearest to an unknown one into `out`; empty when none is near. */
static void nearest(const char *path, char out[64]) {
    size_t best = 4, count;
    const struct config_key *keys = config_keys(&count);
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        for (const char *end = keys[i].name; end; end = *end ? strchr(end + 1, '.') : NULL) {
            char name[64];
            size_t len = end == keys[i].name ? strlen(end) : (size_t)(end - keys[i].name);
            snprintf(name, sizeof name, "%.*s", (int)len, keys[i].name);
            size_t d = distance(path, name);
            if (d < best && d * 2 < len) {
                best = d;
                memcpy(out, name, sizeof name);
            }
        }
    }
}

static bool unknown(const struct loader *l, const struct config_node *n, const char *path) {
    char near[64] = "";
    if (strchr(n->key, '.') && config_find_key(path))
        return config_node_error(l->file, n, l->err,
                                 "unknown key; sections are nested here, not written with dots");
    if (*n->key)
        nearest(path, near);
    return config_node_error(l->file, n, l->err, *near ? "unknown key; did you mean %s?" : "unknown key%s",
                             near);
}

/* ---- one value ---- */

/* Decimal digits with an optional minus: what else YAML calls a number (0x10, 1e3, 1_000, 010) reads
 * differently to different people. */
static bool parse_int(const struct config_node *n, int64_t *out) {
    if (n->kind != CONFIG_NODE_SCALAR || n->quoted)
        return false;
    bool negative = n->text[0] == '-';
    const char *s = n->text + negative;
    int64_t v = 0;
    if (*s == '\0' || (*s == '0' && s[1]))
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, (int64_t)10, &v) ||
            __builtin_sub_overflow(v, (int64_t)(*s - '0'), &v))
            return false;
    }
    if (!negative && v == INT64_MIN)
        return false;
    *out = negative ? v : -v;
    return true;
}

/* An unset or empty variable would otherwise log in without a password and say nothing. */
static bool is_lost(const struct config_node *n, const char *text) {
    return *text == '\0' && *n->text;
}

static bool lost(const struct loader *l, const struct config_node *n) {
    return config_node_error(l->file, n, l->err,
                             "is empty once ${…} is filled in; write \"\" where none is wanted");
}

static bool set_text(struct loader *l, const struct config_key *k, const struct config_node *n) {
    char **at = config_member_text(l->config, k);
    bool secret = k->type == CONFIG_SECRET;
    if (n->kind != CONFIG_NODE_SCALAR || config_node_is_null(n))
        return refuse(l, k, n);
    char *text = config_value_new(l->file, n, secret, (size_t)k->max, l->err);
    if (!text)
        return false;
    int64_t len = (int64_t)strlen(text);
    bool fits = k->rule->accepts(text) && (!k->max || (len >= k->min && len <= k->max));
    if (!fits || (secret && is_lost(n, text))) {
        config_value_free(text);
        return fits ? lost(l, n) : refuse(l, k, n);
    }
    config_value_free(*at); /* the default: a key is set once */
    *at = text;
    return true;
}

static bool set_int(struct loader *l, const struct config_key *k, const struct config_node *n) {
    int64_t v;
    if (!parse_int(n, &v) || v < k->min || v > k->max || v % k->step)
        return refuse(l, k, n);
    *(int64_t *)config_member(l->config, k) = v;
    return true;
}

static bool set_bool(struct loader *l, const struct config_key *k, const struct config_node *n) {
    bool plain = n->kind == CONFIG_NODE_SCALAR && !n->quoted;
    if (!plain || (strcmp(n->text, "true") != 0 && strcmp(n->text, "false") != 0))
        return refuse(l, k, n);
    *(bool *)config_member(l->config, k) = n->text[0] == 't';
    return true;
}

static bool set_choice(struct loader *l, const struct config_key *k, const struct config_node *n) {
    const char *const *words = k->rule->words;
    for (unsigned i = 0; n->kind == CONFIG_NODE_SCALAR && words[i]; i++) {
        if (strcmp(n->text, words[i]) == 0) {
            *(unsigned *)config_member(l->config, k) = i;
            return true;
        }
    }
    return refuse(l, k, n);
}

static bool set_percents(struct loader *l, const struct config_key *k, const struct config_node *list) {
    struct config *c = l->config;
    if (list->kind != CONFIG_NODE_LIST || !list->first)
        return refuse(l, k, list);
    c->threshold_count = 0;
    for (const struct config_node *n = list->first; n; n = n->next) {
        int64_t v;
        if (!parse_int(n, &v) || v < k->min || v > k->max)
            return refuse(l, k, n);
        size_t at = 0; /* where it goes, so that they ascend */
        while (at < c->threshold_count && c->thresholds[at] < v)
            at++;
        if (at < c->threshold_count && c->thresholds[at] == v)
            return config_node_error(l->file, n, l->err, "%d is in the list twice", (int)v);
        if (c->threshold_count == CONFIG_THRESHOLDS_MAX)
            return config_node_error(l->file, n, l->err, "must be at most %d numbers", CONFIG_THRESHOLDS_MAX);
        memmove(c->thresholds + at + 1, c->thresholds + at,
                (c->threshold_count - at) * sizeof *c->thresholds);
        c->thresholds[at] = (int)v;
        c->threshold_count++;
    }
    return true;
}

/* ---- kafka.properties ---- */

/* By its name, since only Kafka's client knows what the value is for. */
static bool is_secret_name(const char *name) {
    static const char *const words[] = {"password", "secret",  "passphrase",   "credential",
                                        "key.pem",  "ssl_key", "bearer.config"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasestr(name, words[i]))
            return true;
    }
    return false;
}

/* Lines are for certificates and keys in PEM. What is printed has to be readable as YAML again. */
static bool is_property_value(const char *s, bool secret) {
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if ((c < 0x20 && c != '\n') || c == 0x7F || (c > 0x7F && !secret))
            return false;
    }
    return true;
}

static bool is_property_name(const char *s) {
    size_t len = strlen(s);
    for (; *s > 0x20 && *s < 0x7F; s++)
        ;
    return *s == '\0' && len && len <= CONFIG_PROPERTY_NAME_MAX;
}

/* The next property; it counts, and is freed with the others, from when it has its value. */
static bool add_property(struct loader *l, const struct config_node *n) {
    struct config_property *p = &l->config->kafka.properties[l->config->kafka.property_count];
    if (!is_property_name(n->key))
        return config_node_error(l->file, n, l->err,
                                 "a property's name must be 1 … %d printable ASCII characters",
                                 CONFIG_PROPERTY_NAME_MAX);
    if (n->kind != CONFIG_NODE_SCALAR || config_node_is_null(n))
        return config_node_error(l->file, n, l->err, "must be a single value, is %s",
                                 n->kind == CONFIG_NODE_SCALAR ? "without a value"
                                 : n->kind == CONFIG_NODE_LIST ? "a list"
                                                               : "a mapping");
    bool secret = is_secret_name(n->key);
    char *value = config_value_new(l->file, n, secret, CONFIG_PROPERTY_VALUE_MAX, l->err);
    if (!value)
        return false;
    bool fits = strlen(value) <= CONFIG_PROPERTY_VALUE_MAX && is_property_value(value, secret);
    if (!fits || (secret && is_lost(n, value))) {
        config_value_free(value);
        return fits ? lost(l, n)
                    : config_node_error(l->file, n, l->err, "must be %s of at most %d bytes (not shown)",
                                        secret ? "text" : "printable ASCII", CONFIG_PROPERTY_VALUE_MAX);
    }
    *p = (struct config_property){
        .name = mem_strdup(n->key), .value = value, .line = n->line, .secret = secret};
    l->config->kafka.property_count++;
    return true;
}

static bool set_properties(struct loader *l, const struct config_key *k, const struct config_node *map) {
    struct config *c = l->config;
    size_t count = 0;
    if (config_node_is_null(map)) /* all of them are commented out */
        return true;
    if (map->kind != CONFIG_NODE_MAP)
        return refuse(l, k, map);
    for (const struct config_node *n = map->first; n; n = n->next) {
        if (++count > CONFIG_PROPERTIES_MAX)
            return config_node_error(l->file, n, l->err, "more than %d properties", CONFIG_PROPERTIES_MAX);
        for (const struct config_node *twin = map->first; twin != n; twin = twin->next) {
            if (strcmp(twin->key, n->key) == 0)
                return config_node_error(l->file, n, l->err, "given twice, first in line %zu", twin->line);
        }
    }
    if (count)
        c->kafka.properties = mem_zero(count, sizeof *c->kafka.properties);
    for (const struct config_node *n = map->first; n; n = n->next) {
        if (!add_property(l, n))
            return false;
    }
    return true;
}

bool config_property_error(const struct config *c, const struct config_property *p, struct error *err,
                           const char *reason) {
    char name[sizeof "kafka.properties." + CONFIG_PROPERTY_NAME_MAX];
    snprintf(name, sizeof name, "kafka.properties%s%s", p ? "." : "", p ? p->name : "");
    const struct config_node at = {.line = p ? p->line : c->kafka.properties[0].line, .key = name};
    return config_node_error(c->file, &at, err, "%s", reason);
}

/* ---- any value ---- */

static bool set_value(struct loader *l, const struct config_key *k, const struct config_node *n) {
    switch (k->type) {
    case CONFIG_STRING:
    case CONFIG_SECRET:
        return set_text(l, k, n);
    case CONFIG_INT:
        return set_int(l, k, n);
    case CONFIG_BOOL:
        return set_bool(l, k, n);
    case CONFIG_CHOICE:
        return set_choice(l, k, n);
    case CONFIG_PROPERTIES:
        return set_properties(l, k, n);
    case CONFIG_PERCENTS:
        return set_percents(l, k, n);
    }
    abort();
}

/* ---- the whole ---- */

/* Defaults are read the way a file is, so they obey the same bounds; one that doesn't is a bug here. */
static void set_defaults(struct config *c) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        struct error err = {0};
        struct loader l = {.file = keys[i].name, .config = c, .err = &err};
        struct buf yaml = {0};
        buf_printf(&yaml, "default: %s", keys[i].fallback);
        struct config_node *root = config_yaml_parse(keys[i].name, yaml.data, yaml.len, &err);
        if (!root || !set_value(&l, &keys[i], root->first)) {
            fprintf(stderr, "tallyd: default of a key: %s\n", err.text);
            abort();
        }
        config_yaml_free(root);
        buf_free(&yaml);
    }
}

static bool read_map(struct loader *l, const struct config_node *map);

static bool read_key(struct loader *l, const struct config_node *n, const char *path) {
    const struct config_key *k = strchr(n->key, '.') ? NULL : config_find_key(path);
    if (!k && !config_is_section(path))
        return unknown(l, n, path);
    /* The ones before are different known keys, so this is short even in a hostile file. */
    for (const struct config_node *twin = n->parent->first; twin != n; twin = twin->next) {
        if (strcmp(twin->key, n->key) == 0)
            return config_node_error(l->file, n, l->err, "given twice, first in line %zu", twin->line);
    }
    if (k) {
        size_t count;
        l->given[k - config_keys(&count)] = n;
        return set_value(l, k, n);
    }
    if (config_node_is_null(n)) /* all of its keys are commented out */
        return true;
    if (n->kind != CONFIG_NODE_MAP)
        return config_node_error(l->file, n, l->err, "must be a section with keys of its own, is %s",
                                 n->kind == CONFIG_NODE_LIST ? "a list" : "a single value");
    return read_map(l, n);
}

static bool read_map(struct loader *l, const struct config_node *map) {
    struct buf path = {0};
    bool ok = true;
    for (const struct config_node *n = map->first; ok && n; n = n->next) {
        buf_reset(&path);
        config_node_path(n, &path);
        ok = read_key(l, n, buf_cstr(&path));
    }
    buf_free(&path);
    return ok;
}

/* Of keys that contradict each other the one that was set; the first when several were. Defaults agree. */
static const struct config_node *to_blame(const struct loader *l, const struct config_key *a,
                                          const struct config_key *b) {
    return given(l, a) ? given(l, a) : given(l, b);
}

static const struct config_node *order_to_blame(const struct loader *l, const struct config_order *o) {
    const struct config_node *n = to_blame(l, config_find_key(o->larger), config_find_key(o->smaller));
    return n || !o->and ? n : given(l, config_find_key(o->and));
}

static int64_t number_of(const struct loader *l, const char *name) {
    return *(int64_t *)config_member(l->config, config_find_key(name));
}

/* What the larger is held against, as text; returns how much that is. */
static int64_t order_sum(const struct loader *l, const struct config_order *o, struct buf *text) {
    int64_t sum = number_of(l, o->smaller);
    buf_printf(text, "%s (%lld)", o->smaller, (long long)sum);
    if (o->and) {
        buf_printf(text, " + %s (%lld)", o->and, (long long)number_of(l, o->and));
        sum += number_of(l, o->and);
    }
    if (o->by)
        buf_printf(text, " + %lld", (long long)o->by);
    return sum + o->by;
}

static bool check_order(const struct loader *l, const struct config_order *o) {
    struct buf against = {0};
    int64_t high = number_of(l, o->larger), low = order_sum(l, o, &against);
    bool ok = (o->strict ? high > low : high >= low) || (o->unless_zero && high == 0);
    if (!ok)
        config_node_error(l->file, order_to_blame(l, o), l->err, "%s (%lld) must be %s %s: %s", o->larger,
                          (long long)high, o->strict ? "more than" : "at least", buf_cstr(&against), o->why);
    buf_free(&against);
    return ok;
}

static bool check_orders(const struct loader *l) {
    size_t count;
    const struct config_order *orders = config_orders(&count);
    for (size_t i = 0; i < count; i++) {
        if (!check_order(l, &orders[i]))
            return false;
    }
    return true;
}

static bool check_topics(const struct loader *l) {
    static const char *const names[] = {"kafka.topics.dlt", "kafka.topics.notification",
                                        "kafka.topics.usage"};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = i + 1; j < 3; j++) {
            const struct config_key *a = config_find_key(names[i]), *b = config_find_key(names[j]);
            if (strcmp(*config_member_text(l->config, a), *config_member_text(l->config, b)) == 0)
                return config_node_error(l->file, to_blame(l, a, b), l->err,
                                         "%s and %s must be different topics", a->name, b->name);
        }
    }
    return true;
}

/* What can only be said of several keys together. */
static bool blame(const struct loader *l, const char *name, const char *reason) {
    return config_node_error(l->file, given(l, config_find_key(name)), l->err, "%s", reason);
}

/* Debian's hiredis has no TLS, and a wish for it mustn't end in clear text. */
static bool check_redis_tls(const struct loader *l) {
    return !l->config->redis.tls ||
           blame(
               l, "redis.tls",
               "must be false: the client library (hiredis 0.14) can't do TLS; run a stunnel on this machine, "
               "which does, and set redis.host and redis.port to it");
}

static bool check_mysql_tls(const struct loader *l) {
    const struct config *c = l->config;
    const char *const files[] = {c->mysql.tls_ca, c->mysql.tls_cert, c->mysql.tls_key};
    static const char *const names[] = {"mysql.tls.ca", "mysql.tls.cert", "mysql.tls.key"};
    for (size_t i = 0; c->mysql.tls_mode == CONFIG_TLS_DISABLED && i < 3; i++) {
        if (*files[i])
            return blame(
                l, names[i],
                "has no effect while mysql.tls.mode is disabled; that needs required or verify_identity");
    }
    if (c->mysql.tls_mode == CONFIG_TLS_DISABLED)
        return true;
    if (*c->mysql.socket)
        return blame(l, "mysql.tls.mode",
                     "a Unix socket never leaves this machine: with mysql.socket it must be disabled");
    if (c->mysql.tls_mode == CONFIG_TLS_VERIFY_IDENTITY && !*c->mysql.tls_ca)
        return blame(l, "mysql.tls.mode", "verify_identity needs mysql.tls.ca, the authorities to believe");
    if (!*c->mysql.tls_cert != !*c->mysql.tls_key)
        return blame(l, *c->mysql.tls_cert ? "mysql.tls.cert" : "mysql.tls.key",
                     "mysql.tls.cert and mysql.tls.key go together");
    return true;
}

struct config *config_parse(const char *name, const char *yaml, size_t len, struct error *err) {
    struct config_node *root = config_yaml_parse(name, yaml, len, err);
    if (!root)
        return NULL;
    struct config *c = mem_zero(1, sizeof *c);
    struct loader l = {.file = name, .config = c, .err = err};
    c->file = mem_strdup(name);
    set_defaults(c);
    if (!read_map(&l, root) || !check_orders(&l) || !check_topics(&l) || !check_redis_tls(&l) ||
        !check_mysql_tls(&l)) {
        config_free(c);
        c = NULL;
    }
    config_yaml_free(root);
    return c;
}

struct config *config_load(const char *path, struct error *err) {
    struct config *c = NULL;
    struct buf text = {0};
    if (config_yaml_read(path, &text, err))
        c = config_parse(path, buf_cstr(&text), text.len, err);
    if (text.data)
        explicit_bzero(text.data, text.len);
    buf_free(&text);
    return c;
}

void config_free(struct config *c) {
    if (!c)
        return;
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (keys[i].type == CONFIG_STRING || keys[i].type == CONFIG_SECRET)
            config_value_free(*config_member_text(c, &keys[i]));
    }
    for (size_t i = 0; i < c->kafka.property_count; i++) {
        free(c->kafka.properties[i].name);
        config_value_free(c->kafka.properties[i].value);
    }
    free(c->kafka.properties);
    free(c->file);
    free(c);
}
