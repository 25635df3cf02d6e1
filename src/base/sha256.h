/* base/sha256.h - SHA-256 of bytes that come piece by piece. */
#ifndef MX_SHA256_H
#define MX_SHA256_H
#include <stddef.h>
#include <stdint.h>

typedef struct mx_sha256 {
    uint32_t h[8];
    uint8_t block[64];
    uint64_t n;   /* bytes so far */
} mx_sha256;

void mx_sha256_start(mx_sha256 *s);
void mx_sha256_add(mx_sha256 *s, const void *bytes, size_t n);
void mx_sha256_hex(mx_sha256 *s, char out[65]);   /* the end: 64 digits */
#endif
