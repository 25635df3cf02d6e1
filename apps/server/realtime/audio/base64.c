/* realtime/audio/base64.c - see the header. Strict: a stray character, missing padding or bits after the last byte
 * mean that the sender and we disagree about what was sent. */
#include "realtime/audio/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The value of a character; -1: it has none. */
static int value_of(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

int64_t base64_decode(const char *text, size_t n, uint8_t *out) {
    uint8_t *start = out;
    if (n % 4 != 0)
        return -1;
    for (size_t at = 0; at < n; at += 4) {
        int last = at + 4 == n, n_bytes = last && text[at + 3] == '=' ? (text[at + 2] == '=' ? 1 : 2) : 3;
        uint32_t bits = 0;
        for (int i = 0; i < 4; i++) {
            int value = i > n_bytes ? 0 : value_of(text[at + (size_t)i]);
            if (value < 0)
                return -1;
            bits = bits << 6 | (uint32_t)value;
        }
        if (n_bytes < 3 && (bits & ((1u << (24 - 8 * n_bytes)) - 1)) != 0)
            return -1;
        for (int i = 0; i < n_bytes; i++)
            *out++ = (uint8_t)(bits >> (16 - 8 * i));
    }
    return out - start;
}

void base64_encode(const uint8_t *bytes, size_t n, char *out) {
    for (size_t at = 0; at < n; at += 3) {
        size_t left = n - at;
        uint32_t bits = (uint32_t)bytes[at] << 16 | (left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0) |
                        (left > 2 ? bytes[at + 2] : 0);
        *out++ = alphabet[bits >> 18];
        *out++ = alphabet[bits >> 12 & 63];
        *out++ = left > 1 ? alphabet[bits >> 6 & 63] : '=';
        *out++ = left > 2 ? alphabet[bits & 63] : '=';
    }
    *out = 0;
}
