/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "cli.h"
#include "dlt_reader.h"
#include "event.h"
#include "kafka.h"
#include "ledger.h"
#include "log.h"
#include "period.h"
#include "redrive.h"
#include "table.h"

#define COMMAND "dlt"
#define ROWS_SHOWN 100
#define ROWS_MAX 100000
#define CODES_MAX 64 /* tallyd has ten; whoever else writes there doesn't make it grow */
#define NAMED_MAX 10
#define DESTROY_MS 5000

struct options {
    const char *path, *verb, *place, *topic;
    struct dlt_selection sel;
    int64_t limit;
    bool json, raw, yes, limited, selects, from;
};

/* ---- what is counted ---- */

struct code_count {
    char code[DLT_CODE_MAX + 1];
    int64_t records, rejected_again, cannot; /* of them: by the parser; can't be sent */
    int64_t oldest_ms, newest_ms;
};

struct named {
    int32_t partition;
    int64_t offset;
    char why[128];
};

/* One reading. */
struct job {
    const struct options *o;
    const struct config *cfg;
    const char *topic; /* that records go back to */
    struct code_count codes[CODES_MAX];
    size_t code_count;
    int64_t records, rejected_again, cannot;
    struct dlt_record *rows; /* a heap: the oldest of the newest is the first */
    size_t row_count, row_capacity;
    struct named named[NAMED_MAX]; /* the first that can't be sent, or were refused */
    size_t named_count;
    struct event_limits limits;
    struct event_memory memory;
    struct redrive *redrive; /* NULL: nothing is sent */
};

static struct code_count *count_of(struct job *j, const char *code) {
    for (size_t i = 0; i < j->code_count; i++) {
        if (strcmp(j->codes[i].code, code) == 0)
            return &j->codes[i];
    }
    if (j->code_count == CODES_MAX)
        return &j->codes[CODES_MAX - 1];
    struct code_count *c = &j->codes[j->code_count++];
    *c = (struct code_count){.oldest_ms = INT64_MAX, .newest_ms = INT64_MIN};
    snprintf(c->code, sizeof c->code, "%s", j->code_count == CODES_MAX ? "others" : code);
    return c;
}

static void name_one(void *ctx, int32_t partition, int64_t offset, const char *why) {
    struct job *j = ctx;
    if (j->named_count == NAMED_MAX)
        return;
    struct named *n = &j->named[j->named_count++];
    *n = (struct named){.partition = partition, .offset = offset};
    snprintf(n->why, sizeof n->why, "%s", why);
}

/* ---- the newest rows ---- */

static int by_time(const void *x, const void *y) {
    const struct dlt_record *a = x, *b = y;
    if (a->time_ms != b->time_ms)
        return a->time_ms < b->time_ms ? -1 : 1;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static void swap_rows(struct job *j, size_t a, size_t b) {
    struct dlt_record kept = j->rows[a];
    j->rows[a] = j->rows[b];
    j->rows[b] = kept;
}

static void sift_down(struct job *j) {
    for (size_t at = 0, child; (child = 2 * at + 1) < j->row_count; at = child) {
        if (child + 1 < j->row_count && by_time(&j->rows[child + 1], &j->rows[child]) < 0)
            child++;
        if (by_time(&j->rows[at], &j->rows[child]) <= 0)
            return;
        swap_rows(j, at, child);
    }
}

static void sift_up(struct job *j) {
    for (size_t at = j->row_count - 1; at && by_time(&j->rows[at], &j->rows[(at - 1) / 2]) < 0;
         at = (at - 1) / 2)
        swap_rows(j, at, (at - 1) / 2);
}

static void keep_row(struct job *j, const struct dlt_record *r) {
    if ((int64_t)j->row_count == j->o->limit) {
        if (j->row_count && by_time(r, &j->rows[0]) > 0) {
            j->rows[0] = *r;
            sift_down(j);
        }
        return;
    }
    if (j->row_count == j->row_capacity) {
        j->row_capacity = j->row_capacity ? j->row_capacity * 2 : 64;
        j->rows = mem_realloc(j->rows, j->row_capacity * sizeof *j->rows);
    }
    j->rows[j->row_count++] = *r;
    sift_up(j);
}

/* ---- taking records ---- */

static bool parser_rejects(struct job *j, const rd_kafka_message_t *msg, const struct dlt_record *r) {
    struct usage_event event;
    struct event_reason why;
    arena_reset(&j->memory.texts);
    return event_parse(msg->payload, msg->len, r->time_ms, &j->limits, &j->memory, &event, &why) ==
           EVENT_REJECTED;
}

static void count_record(struct job *j, const struct dlt_record *r, bool again, const char *obstacle) {
    struct code_count *c = count_of(j, r->code);
    j->records++;
    c->records++;
    j->rejected_again += again;
    c->rejected_again += again;
    j->cannot += obstacle != NULL;
    c->cannot += obstacle != NULL;
    c->oldest_ms = r->time_ms < c->oldest_ms ? r->time_ms : c->oldest_ms;
    c->newest_ms = r->time_ms > c->newest_ms ? r->time_ms : c->newest_ms;
}

static bool take_record(void *ctx, rd_kafka_message_t **msg, const struct dlt_record *r, struct error *err) {
    struct job *j = ctx;
    const char *obstacle = j->topic ? redrive_obstacle(r, j->topic) : NULL;
    bool again = j->topic && !obstacle && parser_rejects(j, *msg, r);
    count_record(j, r, again, obstacle);
    keep_row(j, r);
    if (obstacle)
        name_one(j, r->partition, r->offset, obstacle);
    if (!j->redrive || obstacle)
        return true;
    rd_kafka_message_t *taken = *msg;
    *msg = NULL;
    return redrive_add(j->redrive, taken, r->time_ms, err);
}

/* ---- what it says ---- */

static void time_text(int64_t ms, char out[PERIOD_LOCAL_SIZE]) {
    if (ms < 0)
        snprintf(out, PERIOD_LOCAL_SIZE, "-");
    else
        period_format_local(ms, out);
}

static json_t *number_json(int64_t n) {
    return n < 0 ? json_null() : json_integer((json_int_t)n);
}

/* Bytes as text that says all of them: \n, \t, \\ and \xHH for what isn't shown; UTF-8 only as a whole. */
static void escape(struct buf *out, const void *data, size_t len) {
    const unsigned char *s = data;
    json_t *probe = json_stringn(data ? data : "", len);
    bool utf8 = probe != NULL;
    json_decref(probe);
    buf_str(out, "");
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '\n' || s[i] == '\t' || s[i] == '\\')
            buf_printf(out, "\\%c", s[i] == '\n' ? 'n' : s[i] == '\t' ? 't' : '\\');
        else if (s[i] < 0x20 || s[i] == 0x7f || (s[i] >= 0x80 && !utf8))
            buf_printf(out, "\\x%02x", s[i]);
        else
            buf_char(out, (char)s[i]);
    }
}

static json_t *bytes_json(const void *data, size_t len) {
    struct buf text = {0};
    escape(&text, data, len);
    json_t *j = data ? json_stringn(buf_cstr(&text), text.len) : json_null();
    buf_free(&text);
    return j;
}

static int by_code(const void *x, const void *y) {
    const struct code_count *a = x, *b = y;
    return strcmp(a->code, b->code);
}

static void print_codes(const struct job *j) {
    char oldest[PERIOD_LOCAL_SIZE], newest[PERIOD_LOCAL_SIZE];
    struct table *t =
        j->topic ? table_new("code", "records>", "rejected again>", "can't go>", "oldest", "newest", NULL)
                 : table_new("code", "records>", "oldest", "newest", NULL);
    for (size_t i = 0; i < j->code_count; i++) {
        const struct code_count *c = &j->codes[i];
        time_text(c->oldest_ms, oldest);
        time_text(c->newest_ms, newest);
        table_text(t, *c->code ? c->code : NULL);
        table_i64(t, c->records);
        if (j->topic) {
            table_i64(t, c->rejected_again);
            table_i64(t, c->cannot);
        }
        table_text(t, oldest);
        table_text(t, newest);
    }
    table_print(t, stdout);
    table_free(t);
}

static void print_rows(const struct job *j) {
    char time[PERIOD_LOCAL_SIZE];
    struct table *t = table_new("dlt", "code", "from", "time", "message", NULL);
    for (size_t i = 0; i < j->row_count; i++) {
        const struct dlt_record *r = &j->rows[i];
        time_text(r->time_ms, time);
        table_format(t, "%d:%lld", r->partition, (long long)r->offset);
        table_text(t, *r->code ? r->code : NULL);
        table_format(t, "%s %lld:%lld%s", *r->topic ? r->topic : "?", (long long)r->original_partition,
                     (long long)r->original_offset, r->cut ? " (cut)" : "");
        table_text(t, time);
        table_text(t, r->message);
    }
    table_print(t, stdout);
    table_free(t);
}

static json_t *codes_json(const struct job *j) {
    json_t *codes = json_array();
    for (size_t i = 0; i < j->code_count; i++) {
        const struct code_count *c = &j->codes[i];
        json_t *one = json_pack("{s:o,s:I,s:o,s:o}", "code", bytes_json(c->code, strlen(c->code)), "records",
                                (json_int_t)c->records, "oldest", cli_time_json(c->oldest_ms), "newest",
                                cli_time_json(c->newest_ms));
        if (j->topic) {
            json_object_set_new(one, "rejectedAgain", json_integer((json_int_t)c->rejected_again));
            json_object_set_new(one, "cannotGo", json_integer((json_int_t)c->cannot));
        }
        json_array_append_new(codes, one);
    }
    return codes;
}

static json_t *record_json(const struct dlt_record *r) {
    return json_pack("{s:i,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "partition", r->partition, "offset",
                     (json_int_t)r->offset, "code", bytes_json(r->code, strlen(r->code)), "message",
                     bytes_json(r->message, strlen(r->message)), "originalTopic",
                     bytes_json(r->topic, strlen(r->topic)), "originalPartition",
                     number_json(r->original_partition), "originalOffset", number_json(r->original_offset),
                     "originalTime", cli_time_json(r->time_ms), "truncated", r->cut);
}

static json_t *job_json(const struct job *j) {
    json_t *rows = json_array(), *named = json_array();
    for (size_t i = 0; i < j->row_count; i++)
        json_array_append_new(rows, record_json(&j->rows[i]));
    for (size_t i = 0; i < j->named_count; i++)
        json_array_append_new(named, json_pack("{s:i,s:I,s:s}", "partition", j->named[i].partition, "offset",
                                               (json_int_t)j->named[i].offset, "why", j->named[i].why));
    json_t *all =
        json_pack("{s:I,s:o,s:o}", "records", (json_int_t)j->records, "codes", codes_json(j), "rows", rows);
    if (j->topic) {
        json_object_set_new(all, "topic", json_string(j->topic));
        json_object_set_new(all, "rejectedAgain", json_integer((json_int_t)j->rejected_again));
        json_object_set_new(all, "cannotGo", json_integer((json_int_t)j->cannot));
        json_object_set(all, "named", named);
    }
    json_decref(named);
    return all;
}

/* ---- the commands ---- */

static void sort_found(struct job *j) {
    if (j->code_count)
        qsort(j->codes, j->code_count, sizeof *j->codes, by_code);
    if (j->row_count)
        qsort(j->rows, j->row_count, sizeof *j->rows, by_time);
}

static void job_free(struct job *j) {
    redrive_free(j->redrive);
    event_memory_free(&j->memory);
    free(j->rows);
}

static const char *plural(int64_t n) {
    return n == 1 ? "" : "s";
}

static int list(rd_kafka_t *rk, const struct config *cfg, const struct options *o) {
    struct error err = {0};
    struct job j = {.o = o, .cfg = cfg};
    bool ok = dlt_read(rk, cfg, &o->sel, take_record, &j, &err);
    sort_found(&j);
    if (ok && o->json) {
        table_print_json(job_json(&j), stdout);
    } else if (ok) {
        print_codes(&j);
        printf("%lld record%s%s\n", (long long)j.records, plural(j.records), j.row_count ? "\n" : "");
        print_rows(&j);
        if ((int64_t)j.row_count < j.records)
            printf("the newest %zu of them (--limit)\n", j.row_count);
    }
    job_free(&j);
    return ok ? EXIT_OK : cli_failed(COMMAND, &err);
}

/* The months that are closed, which the parser minds; without MySQL it only minds the rest. */
static void read_limits(struct job *j) {
    struct error err = {0};
    struct db *db = db_new(j->cfg, DB_READ_COMMITTED);
    j->limits = event_limits_of(j->cfg, 0);
    if (!ledger_floor(db, &j->limits.closed_before, &err))
        j->limits.closed_before = 0;
    db_free(db);
}

static void print_redrive(const struct job *j) {
    print_codes(j);
    for (size_t i = 0; i < j->named_count; i++)
        printf("%d:%lld can't go: %s\n", j->named[i].partition, (long long)j->named[i].offset,
               j->named[i].why);
    int64_t refused = j->redrive ? redrive_refused(j->redrive) : 0, others = j->cannot + refused;
    if (others > (int64_t)j->named_count)
        printf("and %lld more\n", (long long)others - (int64_t)j->named_count);
    if (j->redrive)
        printf("%lld of %lld record%s sent to %s; %lld can't go, %lld were refused\n",
               (long long)redrive_sent(j->redrive), (long long)j->records, plural(j->records), j->topic,
               (long long)j->cannot, (long long)refused);
    else
        printf("%lld of %lld record%s would go to %s; nothing is sent without --yes\n",
               (long long)(j->records - j->cannot), (long long)j->records, plural(j->records), j->topic);
    if (j->rejected_again)
        printf("%lld of them %s rejected again: the event itself is wrong, or too old\n",
               (long long)j->rejected_again, j->redrive ? "are" : "would be");
}

static void print_redrive_json(const struct job *j, bool ok) {
    int32_t partition;
    int64_t offset;
    json_t *all = job_json(j);
    json_object_set_new(all, "dryRun", json_boolean(!j->redrive));
    if (j->redrive) {
        json_object_set_new(all, "sent", json_integer((json_int_t)redrive_sent(j->redrive)));
        json_object_set_new(all, "refused", json_integer((json_int_t)redrive_refused(j->redrive)));
        bool stopped = !ok && redrive_position(j->redrive, &partition, &offset);
        json_object_set_new(all, "resumeFrom",
                            stopped ? json_sprintf("%d:%lld", partition, (long long)offset) : json_null());
    }
    table_print_json(all, stdout);
}

/* With where to go on, if something was left unsent. */
static int redrive_failed(const struct job *j, const struct error *err) {
    char hint[160];
    int32_t partition;
    int64_t offset;
    if (!j->redrive || !redrive_position(j->redrive, &partition, &offset))
        return cli_failed(COMMAND, err);
    snprintf(hint, sizeof hint, "go on with the same options and --from %d:%lld", partition,
             (long long)offset);
    cli_error(COMMAND, error_area_name(err->area), err->text, hint);
    return cli_exit_code(err);
}

static int redrive_ends(struct job *j, bool ok, const struct error *err) {
    const struct options *o = j->o;
    sort_found(j);
    if (o->json)
        print_redrive_json(j, ok);
    else
        print_redrive(j);
    if (j->redrive)
        LOG(LOG_INFO, "dlt_redriven", LOG_I("records", j->records), LOG_I("sent", redrive_sent(j->redrive)),
            LOG_I("cannot_go", j->cannot), LOG_I("refused", redrive_refused(j->redrive)),
            LOG_S("topic", j->topic), LOG_S("code", o->sel.code));
    if (!ok)
        return redrive_failed(j, err);
    int64_t left = j->cannot + (j->redrive ? redrive_refused(j->redrive) : 0);
    if (!j->redrive || left == 0)
        return EXIT_OK;
    char what[64];
    snprintf(what, sizeof what, "%lld of %lld records", (long long)left, (long long)j->records);
    cli_error(COMMAND, what, "not sent", "the output says why");
    return EXIT_NOT_DONE;
}

static int redrive(rd_kafka_t *rk, const struct config *cfg, const struct options *o) {
    struct error err = {0};
    struct job *j = mem_zero(1, sizeof *j);
    *j = (struct job){.o = o, .cfg = cfg, .topic = o->topic ? o->topic : cfg->kafka.usage_topic};
    int code;
    read_limits(j);
    if (o->yes && !(j->redrive = redrive_new(cfg, j->topic, name_one, j, &err))) {
        code = cli_failed(COMMAND, &err);
    } else {
        bool ok = dlt_read(rk, cfg, &o->sel, take_record, j, &err) &&
                  (!j->redrive || redrive_flush(j->redrive, &err));
        code = redrive_ends(j, ok, &err);
    }
    job_free(j);
    free(j);
    return code;
}

/* ---- one record ---- */

struct shown {
    const struct options *o;
    bool found;
};

static void add_bytes(struct table *t, const char *name, const void *data, size_t len) {
    struct buf text = {0};
    escape(&text, data, len);
    table_text(t, name);
    table_text(t, data ? buf_cstr(&text) : NULL);
    buf_free(&text);
}

static json_t *headers_json(const rd_kafka_message_t *msg) {
    rd_kafka_headers_t *h = NULL;
    json_t *all = json_array();
    const char *name;
    const void *value;
    size_t len;
    if (rd_kafka_message_headers(msg, &h) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return all;
    for (size_t i = 0; rd_kafka_header_get_all(h, i, &name, &value, &len) == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        json_array_append_new(all, json_pack("{s:o,s:o}", "name", bytes_json(name, strlen(name)), "value",
                                             bytes_json(value, len)));
    return all;
}

static void print_record(const rd_kafka_message_t *msg, const struct dlt_record *r) {
    char time[PERIOD_LOCAL_SIZE];
    rd_kafka_headers_t *h = NULL;
    const char *name;
    const void *value;
    size_t len;
    struct table *t = table_new("what", "value", NULL);
    time_text(r->time_ms, time);
    table_text(t, "time");
    table_text(t, time);
    add_bytes(t, "key", msg->key, msg->key_len);
    bool any = rd_kafka_message_headers(msg, &h) == RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0;
         any && rd_kafka_header_get_all(h, i, &name, &value, &len) == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        add_bytes(t, name, value, len);
    add_bytes(t, "value", msg->payload, msg->len);
    table_print(t, stdout);
    table_free(t);
}

static bool show_record(void *ctx, rd_kafka_message_t **msg, const struct dlt_record *r, struct error *err) {
    struct shown *s = ctx;
    const rd_kafka_message_t *m = *msg;
    (void)err;
    s->found = true;
    if (s->o->raw) {
        fwrite(m->payload ? m->payload : "", 1, m->len, stdout);
    } else if (s->o->json) {
        json_t *all = record_json(r);
        json_object_set_new(all, "key", bytes_json(m->key, m->key_len));
        json_object_set_new(all, "headers", headers_json(m));
        json_object_set_new(all, "value", bytes_json(m->payload, m->len));
        table_print_json(all, stdout);
    } else {
        print_record(m, r);
    }
    return true;
}

static int show(rd_kafka_t *rk, const struct config *cfg, const struct options *o) {
    struct error err = {0};
    struct shown s = {.o = o};
    if (!dlt_read(rk, cfg, &o->sel, show_record, &s, &err))
        return cli_failed(COMMAND, &err);
    if (s.found)
        return EXIT_OK;
    char why[80];
    snprintf(why, sizeof why, "the DLT has none at %.40s", o->place);
    cli_error(COMMAND, "record", why, "it may be older than what the topic keeps");
    return EXIT_NOT_DONE;
}

/* ---- arguments ---- */

static bool read_number(const char **s, int64_t most, int64_t *out) {
    size_t len = strspn(*s, "0123456789");
    *out = strtoll(*s, NULL, 10);
    *s += len;
    return len && len < 19 && *out <= most;
}

static bool read_place(const char *s, int32_t *partition, int64_t *offset) {
    int64_t number;
    if (!read_number(&s, INT32_MAX, &number) || *s++ != ':')
        return false;
    *partition = (int32_t)number;
    return read_number(&s, INT64_MAX - 1, offset) && *s == '\0';
}

static bool read_offsets(const char *s, struct dlt_selection *sel) {
    if (!read_number(&s, INT64_MAX - 1, &sel->first))
        return false;
    sel->last = sel->first;
    return *s == '\0' || (*s++ == '-' && read_number(&s, INT64_MAX - 1, &sel->last) && *s == '\0' &&
                          sel->last >= sel->first);
}

static bool read_partition(const char *s, struct dlt_selection *sel) {
    int64_t number;
    bool ok = read_number(&s, INT32_MAX, &number) && *s == '\0';
    sel->partition = (int32_t)number;
    return ok;
}

static bool is_code(const char *text) {
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    return len && len <= DLT_CODE_MAX && !text[len];
}

/* As Kafka has them. */
static bool is_topic(const char *text) {
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return len && len <= DLT_TOPIC_MAX && !text[len] && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

/* A day alone is its beginning. In the zone, which is known only once the configuration is read. */
static bool read_time(const char *text, int64_t *out) {
    char whole[40];
    snprintf(whole, sizeof whole, "%s%s", text, strlen(text) == 10 ? "T00:00" : "");
    return strlen(text) < 36 && period_parse(whole, strlen(whole), out);
}

struct times {
    const char *since, *until;
};

static int read_option(struct options *o, struct times *times, int c) {
    const char *limit = optarg;
    if (c == 'c')
        o->path = optarg;
    else if (c == 'C' && !is_code(o->sel.code = optarg))
        return cli_usage(COMMAND, "--code", "must be a code such as UNKNOWN_FAMILY");
    else if (c == 'S')
        times->since = optarg;
    else if (c == 'U')
        times->until = optarg;
    else if (c == 'T' && !is_topic(o->topic = optarg))
        return cli_usage(COMMAND, "--topic", "must be a topic's name");
    else if (c == 'p' && !read_partition(optarg, &o->sel))
        return cli_usage(COMMAND, "--partition", "must be a partition's number");
    else if (c == 'o' && !read_offsets(optarg, &o->sel))
        return cli_usage(COMMAND, "--offset", "must be an offset, or the first and the last as A-B");
    else if (c == 'l' && (!read_number(&limit, ROWS_MAX, &o->limit) || *limit))
        return cli_usage(COMMAND, "--limit", "must be a whole number, 0 … 100000");
    else if (c == 'f' && !read_place(optarg, &o->sel.from_partition, &o->sel.from_offset))
        return cli_usage(COMMAND, "--from", "must be PARTITION:OFFSET");
    o->selects = o->selects || strchr("CSUpo", c);
    o->limited = o->limited || c == 'l';
    o->from = o->from || c == 'f';
    o->json = o->json || c == 'j';
    o->raw = o->raw || c == 'r';
    o->yes = o->yes || c == 'y';
    return c == '?' ? EXIT_USAGE : EXIT_OK;
}

static int check_verb(struct options *o, int rest) {
    bool redrives = strcmp(o->verb, "redrive") == 0, lists = strcmp(o->verb, "list") == 0;
    if (strcmp(o->verb, "show") == 0) {
        if (rest != 1 || !read_place(o->place, &o->sel.partition, &o->sel.first))
            return cli_usage(COMMAND, "show", "takes one PARTITION:OFFSET");
        if (o->selects || o->limited || o->from || o->yes || o->topic || (o->raw && o->json))
            return cli_usage(COMMAND, "show", "takes either --raw or --json, and no other option");
        o->sel.last = o->sel.first;
        return EXIT_OK;
    }
    if (!redrives && !lists)
        return cli_usage(COMMAND, cli_shown(o->verb, "the verb"), "must be list, show or redrive");
    if (rest)
        return cli_usage(COMMAND, cli_shown(o->place, "an argument"), "isn't an option");
    if (o->raw || (lists && (o->yes || o->topic || o->from)))
        return cli_usage(COMMAND, o->verb,
                         lists ? "takes no --raw, --yes, --from or --topic" : "takes no --raw");
    if (o->yes && o->limited) /* must not pass for so many that are sent */
        return cli_usage(COMMAND, "--limit", "goes with no --yes, which sends all that are chosen");
    if (o->sel.last != INT64_MAX && o->sel.partition < 0)
        return cli_usage(COMMAND, "--offset", "needs --partition");
    return EXIT_OK;
}

static int read_options(int argc, char **argv, struct options *o, struct times *times) {
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"code", required_argument, NULL, 'C'},
                                          {"since", required_argument, NULL, 'S'},
                                          {"until", required_argument, NULL, 'U'},
                                          {"partition", required_argument, NULL, 'p'},
                                          {"offset", required_argument, NULL, 'o'},
                                          {"limit", required_argument, NULL, 'l'},
                                          {"raw", no_argument, NULL, 'r'},
                                          {"yes", no_argument, NULL, 'y'},
                                          {"from", required_argument, NULL, 'f'},
                                          {"topic", required_argument, NULL, 'T'},
                                          {0}};
    int c, code = EXIT_OK;
    while (code == EXIT_OK && (c = cli_option(argc, argv, ":c:", longs)) != -1)
        code = read_option(o, times, c);
    if (code != EXIT_OK)
        return code;
    if (!o->path)
        return cli_usage(COMMAND, "-c FILE", "is missing");
    if (optind == argc)
        return cli_usage(COMMAND, "list, show or redrive", "is missing");
    o->verb = argv[optind];
    o->place = optind + 1 < argc ? argv[optind + 1] : NULL;
    return check_verb(o, argc - optind - 1);
}

static int read_times(const struct times *times, struct options *o) {
    static const char must[] = "must be a time such as 2026-11-30T12:00 or 2026-11-30";
    if (times->since && !read_time(times->since, &o->sel.since_ms))
        return cli_usage(COMMAND, "--since", must);
    if (times->until && !read_time(times->until, &o->sel.until_ms))
        return cli_usage(COMMAND, "--until", must);
    return EXIT_OK;
}

static int run_verb(const struct config *cfg, const struct options *o) {
    struct error err = {0};
    rd_kafka_t *rk = kafka_reader_new(cfg, &err);
    if (!rk)
        return cli_failed(COMMAND, &err);
    int code = strcmp(o->verb, "list") == 0   ? list(rk, cfg, o)
               : strcmp(o->verb, "show") == 0 ? show(rk, cfg, o)
                                              : redrive(rk, cfg, o);
    kafka_destroy(rk, DESTROY_MS);
    return code;
}

int cli_dlt(int argc, char **argv) {
    struct options o = {.verb = "", .sel = dlt_selection_all(), .limit = ROWS_SHOWN};
    struct times times = {0};
    int code = read_options(argc, argv, &o, &times);
    if (code != EXIT_OK)
        return code;
    log_init(2, LOG_ERROR);
    struct config *cfg = cli_config(COMMAND, o.path);
    if (!cfg)
        return EXIT_CONFIG;
    code = read_times(&times, &o);
    if (code == EXIT_OK && o.yes)
        log_init(2, LOG_INFO);
    if (code == EXIT_OK)
        code = run_verb(cfg, &o);
    config_free(cfg);
    return code;
}
