/* SPDX-License-Identifier: MIT */
/* A run's folder: what others write into MySQL, a change a line, and the
 * records to be delivered.
 *
 *   phase-K.changes   one of these lines a change, made at rest before phase K's records (phase 0: the
 * population): family F NAME | member F C | unmember F C | quota F YYYY-MM TOTAL | floor YYYY-MM | refuse
 * BYTES | rule ID F C TYPE ACTIVE UPDATED_MS RULES     (C -1: every member) phase-K.sql       the same for
 * MySQL; population.sql for phase 0 phase-K.warm      families to be warmed after the changes, one a line
 *   phase-K.records   "record INDEX PARTITION TIMESTAMP KEYLEN VALUELEN HEADERS\n", key, value, then for each
 * header "NAMELEN VALUELEN\n", name, value; a newline ends it. Partition -1: by key. Length -1: none. places
 * "K INDEX PARTITION OFFSET": where each landed, once it was acknowledged */
#ifndef MODEL_WORLD_H
#define MODEL_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "buf.h"
#include "scenario_topic.h"

/* Every record carries this header, "K/INDEX", by which it's known again on a topic. */
#define MODEL_HEADER "model"

/* The statement of one line of changes. */
void model_world_sql(const char *line, struct buf *sql);

/* DIR/phase-K.EXTENSION; new. */
char *model_world_path(const char *dir, int phase, const char *extension);
/* How many phases the folder has. */
int model_world_phases(const char *dir);
/* Calls `each` with every line of phase K's changes. */
void model_world_changes(const char *dir, int phase, void (*each)(void *arg, const char *line), void *arg);

/* In sc_record: partition as wanted, offset = index, timestamp, key, value, headers. */
void model_record_write(FILE *f, const struct sc_record *record);
struct sc_records model_records_read(const char *dir, int phase);

/* Writes phase K's records number `from` to `to` (not included; -1: all) to the
 * topic, at most `rate` a second (0: as fast as it goes). Those that lie there
 * already, because this was begun and killed, are left out. SIGTERM ends it early:
 * what was sent is acknowledged first. */
void model_produce(const char *dir, int phase, const char *topic, long rate, int64_t from, int64_t to);

/* A record's "K/INDEX"; false when it has none. */
bool model_header_of(const struct sc_record *record, int *phase, int64_t *index);

#endif
