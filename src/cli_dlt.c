/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "cli.h"
#include "cli_dlt.h"
#include "dlt_reader.h"
#include "dlt_survey.h"
#include "event.h"
#include "kafka.h"
#include "ledger.h"
#include "log.h"
#include "period.h"
#include "redrive.h"
#include "table.h"

#define COMMAND "dlt"
#define DESTROY_MS 5000

/* ---- taking records ---- */

/* One reading. */
struct job {
    const struct cli_dlt_options *o;
    const struct config *cfg;
    const char *topic; /* that records go back to; NULL: they're only looked at */
    struct dlt_survey found;
    struct event_limits limits;
    struct event_memory memory;
    struct redrive *redrive; /* NULL: nothing is sent */
};

static struct job job_of(const struct cli_dlt_options *o, const struct config *cfg, const char *topic) {
    struct job j = {.o = o, .cfg = cfg, .topic = topic};
    dlt_survey_init(&j.found, (size_t)o->limit);
    return j;
}

static bool parser_rejects(struct job *j, const rd_kafka_message_t *msg, const struct dlt_record *r) {
    struct usage_event event;
    struct event_reason why;
    arena_reset(&j->memory.texts);
    return event_parse(msg->payload, msg->len, r->time_ms, &j->limits, &j->memory, &event, &why) ==
           EVENT_REJECTED;
}

static bool take_record(void *ctx, rd_kafka_message_t **msg, const struct dlt_record *r, struct error *err) {
    struct job *j = ctx;
    const char *obstacle = j->topic ? redrive_obstacle(r, j->topic) : NULL;
    bool again = j->topic && !obstacle && parser_rejects(j, *msg, r);
    dlt_survey_add(&j->found, r, again, obstacle);
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

static void print_codes(const struct job *j) {
    char oldest[PERIOD_LOCAL_SIZE], newest[PERIOD_LOCAL_SIZE];
    struct table *t =
        j->topic ? table_new("code", "records>", "rejected again>", "can't go>", "oldest", "newest", NULL)
                 : table_new("code", "records>", "oldest", "newest", NULL);
    for (size_t i = 0; i < j->found.code_count; i++) {
        const struct dlt_code_count *c = &j->found.codes[i];
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
    for (size_t i = 0; i < j->found.row_count; i++) {
        const struct dlt_record *r = &j->found.rows[i];
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
    for (size_t i = 0; i < j->found.code_count; i++) {
        const struct dlt_code_count *c = &j->found.codes[i];
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
    for (size_t i = 0; i < j->found.row_count; i++)
        json_array_append_new(rows, record_json(&j->found.rows[i]));
    for (size_t i = 0; i < j->found.named_count; i++)
        json_array_append_new(named,
                              json_pack("{s:i,s:I,s:s}", "partition", j->found.named[i].partition, "offset",
                                        (json_int_t)j->found.named[i].offset, "why", j->found.named[i].why));
    json_t *all = json_pack("{s:I,s:o,s:o}", "records", (json_int_t)j->found.records, "codes", codes_json(j),
                            "rows", rows);
    if (j->topic) {
        json_object_set_new(all, "topic", json_string(j->topic));
        json_object_set_new(all, "rejectedAgain", json_integer((json_int_t)j->found.rejected_again));
        json_object_set_new(all, "cannotGo", json_integer((json_int_t)j->found.cannot));
        json_object_set(all, "named", named);
    }
    json_decref(named);
    return all;
}

/* ---- the commands ---- */

static void job_free(struct job *j) {
    redrive_free(j->redrive);
    event_memory_free(&j->memory);
    dlt_survey_free(&j->found);
}

static const char *plural(int64_t n) {
    return n == 1 ? "" : "s";
}

static int list(rd_kafka_t *rk, const struct config *cfg, const struct cli_dlt_options *o) {
    struct error err = {0};
    struct job j = job_of(o, cfg, NULL);
    bool ok = dlt_read(rk, cfg, &o->sel, take_record, &j, &err);
    dlt_survey_sort(&j.found);
    if (ok && o->json) {
        table_print_json(job_json(&j), stdout);
    } else if (ok) {
        print_codes(&j);
        printf("%lld record%s%s\n", (long long)j.found.records, plural(j.found.records),
               j.found.row_count ? "\n" : "");
        print_rows(&j);
        if ((int64_t)j.found.row_count < j.found.records)
            printf("the newest %zu of them (--limit)\n", j.found.row_count);
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
    for (size_t i = 0; i < j->found.named_count; i++)
        printf("%d:%lld can't go: %s\n", j->found.named[i].partition, (long long)j->found.named[i].offset,
               j->found.named[i].why);
    int64_t refused = j->redrive ? redrive_refused(j->redrive) : 0, others = j->found.cannot + refused;
    if (others > (int64_t)j->found.named_count)
        printf("and %lld more\n", (long long)others - (int64_t)j->found.named_count);
    if (j->redrive)
        printf("%lld of %lld record%s sent to %s; %lld can't go, %lld were refused\n",
               (long long)redrive_sent(j->redrive), (long long)j->found.records, plural(j->found.records),
               j->topic, (long long)j->found.cannot, (long long)refused);
    else
        printf("%lld of %lld record%s would go to %s; nothing is sent without --yes\n",
               (long long)(j->found.records - j->found.cannot), (long long)j->found.records,
               plural(j->found.records), j->topic);
    if (j->found.rejected_again)
        printf("%lld of them %s rejected again: the event itself is wrong, or too old\n",
               (long long)j->found.rejected_again, j->redrive ? "are" : "would be");
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
    const struct cli_dlt_options *o = j->o;
    dlt_survey_sort(&j->found);
    if (o->json)
        print_redrive_json(j, ok);
    else
        print_redrive(j);
    if (j->redrive)
        LOG(LOG_INFO, "dlt_redriven", LOG_I("records", j->found.records),
            LOG_I("sent", redrive_sent(j->redrive)), LOG_I("cannot_go", j->found.cannot),
            LOG_I("refused", redrive_refused(j->redrive)), LOG_S("topic", j->topic),
            LOG_S("code", o->sel.code));
    if (!ok)
        return redrive_failed(j, err);
    int64_t left = j->found.cannot + (j->redrive ? redrive_refused(j->redrive) : 0);
    if (!j->redrive || left == 0)
        return EXIT_OK;
    char what[64];
    snprintf(what, sizeof what, "%lld of %lld records", (long long)left, (long long)j->found.records);
    cli_error(COMMAND, what, "not sent", "the output says why");
    return EXIT_NOT_DONE;
}

static int redrive(rd_kafka_t *rk, const struct config *cfg, const struct cli_dlt_options *o) {
    struct error err = {0};
    struct job *j = mem_zero(1, sizeof *j);
    *j = job_of(o, cfg, o->topic ? o->topic : cfg->kafka.usage_topic);
    int code;
    read_limits(j);
    if (o->yes && !(j->redrive = redrive_new(cfg, j->topic, dlt_survey_name, &j->found, &err))) {
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
    const struct cli_dlt_options *o;
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

static int show(rd_kafka_t *rk, const struct config *cfg, const struct cli_dlt_options *o) {
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

static int run_verb(const struct config *cfg, const struct cli_dlt_options *o) {
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
    struct cli_dlt_options o;
    int code = cli_dlt_read_options(argc, argv, &o);
    if (code != EXIT_OK)
        return code;
    log_init(2, LOG_ERROR);
    struct config *cfg = cli_config(COMMAND, o.path);
    if (!cfg)
        return EXIT_CONFIG;
    code = cli_dlt_read_times(&o);
    if (code == EXIT_OK && o.yes)
        log_init(2, LOG_INFO);
    if (code == EXIT_OK)
        code = run_verb(cfg, &o);
    config_free(cfg);
    return code;
}
