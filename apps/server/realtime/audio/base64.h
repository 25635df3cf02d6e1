/* realtime/audio/base64.h - bytes as text (RFC 4648): the standard alphabet, padded, and nothing else. */
#ifndef REALTIME_AUDIO_BASE64_H
#define REALTIME_AUDIO_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Bytes written, at most n / 4 * 3; -1: this is not base64. In and out may be the same memory. */
int64_t base64_decode(const char *text, size_t n, uint8_t *out);
/* out: (n + 2) / 3 * 4 characters and the final 0. */
void base64_encode(const uint8_t *bytes, size_t n, char *out);

#endif
