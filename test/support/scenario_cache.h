/* SPDX-License-Identifier: MIT */
/* Redis for the scenario tool. */
#ifndef SCENARIO_CACHE_H
#define SCENARIO_CACHE_H

#include <hiredis/hiredis.h>

/* Connects by the stack's environment. New, freed with redisFree. */
redisContext *sc_redis_open(void);
/* One command; sc_die when it fails. New, freed with freeReplyObject. */
redisReply *sc_redis_call(redisContext *redis, int argc, const char *const *argv);
/* Empties the whole server: it is a private one. */
void sc_redis_flush(void);

#endif
