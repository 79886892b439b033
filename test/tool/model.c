/* SPDX-License-Identifier: MIT */
/* The reference model as a tool: makes a run from a seed, produces its records
 * and holds what tallyd made of them against the model.
 *
 *   model make DIR --seed N [--families N] [--events N] [--phases N] [--partitions N] [--base SECONDS]
 * [--floor] [--refuse] model produce DIR PHASE TOPIC [--rate N] [--from N] [--to N] model check DIR --group G
 * --usage-topic T --notification-topic T --dlt-topic T [--crashes] [--cache] model scenario DIR...      runs
 * scenario folders through the model alone
 *
 * Exit codes: 0 as it must be, 1 something differs, 2 it couldn't be found out. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model_check.h"
#include "model_make.h"
#include "model_world.h"
#include "scenario_base.h"

static int usage(void) {
    fputs(
        "usage: model make DIR --seed N [--families N] [--events N] [--phases N] [--partitions N] [--base SECONDS] [--floor] [--refuse]\n"
        "       model produce DIR PHASE TOPIC [--rate N] [--from N] [--to N]\n"
        "       model check DIR --group G --usage-topic T --notification-topic T --dlt-topic T [--crashes] [--cache]\n"
        "       model scenario DIR...\n",
        stderr);
    return 2;
}

/* An option with a value and where it goes; of a text or of a number. */
struct option {
    const char *name;
    const char **text;
    int64_t *number;
    bool *flag;
};

static bool number_read(const char *text, int64_t *out) {
    char *end;
    *out = strtoll(text, &end, 10);
    return *text && !*end;
}

static bool options_read(int argc, char **argv, const struct option *options) {
    for (int i = 0; i < argc; i++) {
        const struct option *o = options;
        while (o->name && strcmp(o->name, argv[i]) != 0)
            o++;
        if (!o->name || (!o->flag && i + 1 == argc))
            return false;
        if (o->flag)
            *o->flag = true;
        else if (o->text)
            *o->text = argv[++i];
        else if (!number_read(argv[++i], o->number))
            return false;
    }
    return true;
}

static int make(int argc, char **argv) {
    int64_t seed = -1, families = 40, events = 2400, phases = 3, partitions = 6, base = (int64_t)time(NULL);
    bool floor = false, refuse = false;
    const struct option options[] = {{"--floor", .flag = &floor},
                                     {"--refuse", .flag = &refuse},
                                     {"--seed", .number = &seed},
                                     {"--families", .number = &families},
                                     {"--events", .number = &events},
                                     {"--phases", .number = &phases},
                                     {"--partitions", .number = &partitions},
                                     {"--base", .number = &base},
                                     {0}};
    if (argc < 1 || !options_read(argc - 1, argv + 1, options) || seed < 0 || families < 8 ||
        events < phases || phases < 1 || partitions < 1)
        return usage();
    const struct model_size size = {.seed = (uint64_t)seed,
                                    .families = (int)families,
                                    .events = (int)events,
                                    .phases = (int)phases,
                                    .partitions = (int)partitions,
                                    .base_ms = base * 1000,
                                    .floor = floor,
                                    .refuse = refuse};
    model_make(argv[0], &size);
    return 0;
}

static int produce(int argc, char **argv) {
    int64_t phase, rate = 0, from = 0, to = -1;
    const struct option options[] = {
        {"--rate", .number = &rate}, {"--from", .number = &from}, {"--to", .number = &to}, {0}};
    if (argc < 3 || !number_read(argv[1], &phase) || !options_read(argc - 3, argv + 3, options))
        return usage();
    model_produce(argv[0], (int)phase, argv[2], (long)rate, from, to);
    return 0;
}

static int check(int argc, char **argv) {
    struct model_question q = {0};
    const struct option options[] = {{"--group", .text = &q.group},
                                     {"--usage-topic", .text = &q.usage_topic},
                                     {"--notification-topic", .text = &q.notification_topic},
                                     {"--dlt-topic", .text = &q.dlt_topic},
                                     {"--crashes", .flag = &q.crashes},
                                     {"--cache", .flag = &q.cache},
                                     {0}};
    if (argc < 1 || !options_read(argc - 1, argv + 1, options) || !q.group || !q.usage_topic ||
        !q.notification_topic || !q.dlt_topic)
        return usage();
    q.dir = argv[0];
    return model_check(&q) ? 0 : 1;
}

static int scenarios(int argc, char **argv) {
    bool same = true;
    if (argc < 1)
        return usage();
    for (int i = 0; i < argc; i++)
        same = model_scenario(argv[i]) && same;
    return same ? 0 : 1;
}

int main(int argc, char **argv) {
    sc_program = "model";
    if (argc < 2)
        return usage();
    if (strcmp(argv[1], "make") == 0)
        return make(argc - 2, argv + 2);
    if (strcmp(argv[1], "produce") == 0)
        return produce(argc - 2, argv + 2);
    if (strcmp(argv[1], "check") == 0)
        return check(argc - 2, argv + 2);
    if (strcmp(argv[1], "scenario") == 0)
        return scenarios(argc - 2, argv + 2);
    return usage();
}
