/* weights/format/cursor.h - reads little-endian fields of untrusted input: every read is checked against the
 * end. */
#ifndef MX_WEIGHTS_CURSOR_H
#define MX_WEIGHTS_CURSOR_H
#include <stdio.h>
#include <string.h>

#include "base/status.h"

typedef struct mx_cursor {
    const uint8_t *data;
    size_t n, at;   /* at <= n always */
} mx_cursor;

static inline size_t mx_cursor_left(const mx_cursor *c) { return c->n - c->at; }

/* The next n bytes, or NULL if there are not that many (nothing is taken then). */
static inline const uint8_t *mx_cursor_take(mx_cursor *c, size_t n) {
    if (n > c->n - c->at)
        return NULL;
    const uint8_t *p = c->data + c->at;
    c->at += n;
    return p;
}

static inline uint64_t mx_little(const uint8_t *p, int bytes) {
    uint64_t x = 0;
    for (int i = bytes - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

/* An unsigned number of 1 to 8 bytes; 0 and *ok = 0 past the end. */
static inline uint64_t mx_cursor_number(mx_cursor *c, int bytes, int *ok) {
    const uint8_t *p = mx_cursor_take(c, (size_t)bytes);
    if (!p)
        *ok = 0;
    return p ? mx_little(p, bytes) : 0;
}

/* A name from a file, made safe for an error line: at most 100 bytes, '?' for what is not printable ASCII. */
typedef struct mx_shown {
    char text[104];
} mx_shown;

static inline mx_shown mx_show(const void *name, size_t n) {
    mx_shown s;
    const unsigned char *p = name;
    size_t m = n > 100 ? 97 : n;
    for (size_t i = 0; i < m; i++)
        s.text[i] = p[i] >= 32 && p[i] < 127 ? (char)p[i] : '?';
    snprintf(s.text + m, sizeof(s.text) - m, "%s", n > 100 ? "..." : "");
    return s;
}
#endif
