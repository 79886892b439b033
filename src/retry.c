/* SPDX-License-Identifier: MIT */
#include "retry.h"

#include "mysql_db.h"

void retry_count(struct metrics *m, const struct error *err) {
    if (db_error_is_lock(err))
        metrics_add(m, METRIC_RETRIES,
                    db_error_is_lock_wait(err) ? METRIC_RETRY_LOCK_WAIT : METRIC_RETRY_DEADLOCK, 1);
    else if (err->area == ERROR_MYSQL)
        metrics_add(m, METRIC_RETRIES, METRIC_RETRY_MYSQL, 1);
    else if (err->area == ERROR_REDIS)
        metrics_add(m, METRIC_RETRIES, METRIC_RETRY_REDIS, 1);
    else if (err->area == ERROR_KAFKA)
        metrics_add(m, METRIC_RETRIES, METRIC_RETRY_KAFKA, 1);
}
