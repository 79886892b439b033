/* SPDX-License-Identifier: MIT */
/* What systemd, or any supervisor with its protocol, is told: sd_notify(3) without
 * its library. Datagrams to the socket in NOTIFY_SOCKET, a path or an abstract
 * name; without one nothing is sent. */
#ifndef TALLYD_NOTIFY_H
#define TALLYD_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct notify; /* opaque; owned by whoever opened it */

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and takes them out of the environment, so that no child
 * speaks for this process. Before any thread starts. A socket that can't be used is said in the log. */
struct notify *notify_open(void);
void notify_close(struct notify *n);

/* Sends lines like "READY=1\nSTATUS=ready". Never waits. False: it wasn't taken, or there's nobody to tell.
 */
bool notify_send(struct notify *n, const char *lines);
/* STATUS= with what's printable of a text. */
void notify_status(struct notify *n, const char *text);
/* How often the supervisor wants a sign of life, in ms: half of what it waits for. 0: not at all. */
int64_t notify_watchdog_ms(const struct notify *n);

#endif
