/* SPDX-License-Identifier: MIT */
/*
 * freeport COUNT: prints COUNT different TCP ports that are free on 127.0.0.1.
 *
 * They lie below the kernel's range for outgoing connections. A port inside it can be taken, while its server
 * is being restarted, by any client, even by one that connects to that very port and so to itself.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

enum { LOWEST = 10000, MAX_PORTS = 16, MAX_TRIES = 2000 };

/* The end of the range to pick from, or 0 where too little is left below the kernel's own. */
static unsigned range_end(void) {
    unsigned low = 0;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
    if (f != NULL) {
        if (fscanf(f, "%u", &low) != 1)
            low = 0;
        fclose(f);
    }
    return low > LOWEST + 2000 && low <= 65535 ? low : 0;
}

static unsigned pick(unsigned end) {
    unsigned r;
    if (end == 0 || getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
        return 0;
    return LOWEST + r % (end - LOWEST);
}

/* Binds a socket and leaves it open, so that the next one gets another port. Returns the port, or 0 when it's
 * taken. */
static unsigned hold(unsigned port) {
    struct sockaddr_in a;
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(&a, 0, sizeof(a));
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons((unsigned short)port);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return 0;
    return ntohs(a.sin_port);
}

int main(int argc, char **argv) {
    int count = argc == 2 ? atoi(argv[1]) : 0;
    unsigned end = range_end();
    int found = 0;
    if (count < 1 || count > MAX_PORTS) {
        fprintf(stderr, "usage: freeport 1-%d\n", MAX_PORTS);
        return 2;
    }
    for (int i = 0; i < MAX_TRIES && found < count; i++) {
        unsigned port = hold(pick(end));
        if (port != 0) {
            printf("%u\n", port);
            found++;
        }
    }
    return found == count ? 0 : 1;
}
