/* SPDX-License-Identifier: MIT */
/* FNV-1a: tells things apart that nobody made alike on purpose. */
#ifndef TALLYD_DIGEST_H
#define TALLYD_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_START UINT64_C(14695981039346656037)

static inline uint64_t digest_number(uint64_t digest, uint64_t n) {
    return (digest ^ n) * UINT64_C(1099511628211);
}

static inline uint64_t digest_bytes(uint64_t digest, const void *data, size_t len) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        digest = digest_number(digest, bytes[i]);
    return digest;
}

#endif
