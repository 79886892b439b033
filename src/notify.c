/* SPDX-License-Identifier: MIT */
#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "buf.h"
#include "log.h"

#define STATUS_MAX 400

struct notify {
    int fd; /* -1: nobody to tell */
    struct sockaddr_un address;
    socklen_t address_len;
    int64_t watchdog_ms;
};

/* "/path", or "@name" for an abstract one; the protocol's other families aren't for services on a host. */
static bool take_address(struct notify *n, const char *text) {
    size_t len = strlen(text);
    if ((text[0] != '/' && text[0] != '@') || len < 2 || len > sizeof n->address.sun_path - 1)
        return false;
    n->address.sun_family = AF_UNIX;
    memcpy(n->address.sun_path, text, len);
    n->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (text[0] == '/'));
    if (text[0] == '@')
        n->address.sun_path[0] = '\0';
    return true;
}

static int64_t watchdog_of(const char *usec, const char *pid) {
    if (!usec || (pid && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    int64_t ms = strtoll(usec, NULL, 10) / 2000;
    return ms > 0 ? ms : 0;
}

struct notify *notify_open(void) {
    const char *socket_name = getenv("NOTIFY_SOCKET");
    struct notify *n = mem_zero(1, sizeof *n);
    n->fd = -1;
    n->watchdog_ms = watchdog_of(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
    if (socket_name && !take_address(n, socket_name))
        LOG(LOG_WARN, "notify_impossible",
            LOG_S("reason", "NOTIFY_SOCKET is neither a path nor an abstract name"));
    else if (socket_name && (n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        LOG(LOG_WARN, "notify_impossible", LOG_S("reason", strerror(errno)));
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return n;
}

void notify_close(struct notify *n) {
    if (!n)
        return;
    if (n->fd >= 0)
        close(n->fd);
    free(n);
}

bool notify_send(struct notify *n, const char *lines) {
    size_t len = strlen(lines);
    if (n->fd < 0)
        return false;
    ssize_t sent = sendto(n->fd, lines, len, MSG_NOSIGNAL | MSG_DONTWAIT,
                          (const struct sockaddr *)&n->address, n->address_len);
    return sent == (ssize_t)len;
}

void notify_status(struct notify *n, const char *text) {
    char line[STATUS_MAX];
    snprintf(line, sizeof line, "STATUS=%s", text);
    for (char *c = line; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = ' ';
    }
    notify_send(n, line);
}

int64_t notify_watchdog_ms(const struct notify *n) {
    return n->fd >= 0 ? n->watchdog_ms : 0;
}
