/* base/utf8.c - decoding UTF-8 that may be invalid. */
#include "base/utf8.h"

int mx_utf8_read(const void *s, size_t n, uint32_t *point, size_t *used) {
    const uint8_t *b = s;
    uint32_t value = b[0];
    size_t length = value < 0x80 ? 1 : value < 0xC2 ? 0 : value < 0xE0 ? 2 : value < 0xF0 ? 3 : value < 0xF5 ? 4 : 0;
    *used = 1;
    if (length == 0)
        return 0;
    value &= length == 1 ? 0x7F : 0xFFu >> (length + 1);
    for (size_t i = 1; i < length; i++) {
        /* Only the second byte's range depends on the first: no overlong forms, no surrogates, none above 10FFFF. */
        uint8_t low = i == 1 && b[0] == 0xE0 ? 0xA0 : i == 1 && b[0] == 0xF0 ? 0x90 : 0x80;
        uint8_t high = i == 1 && b[0] == 0xED ? 0x9F : i == 1 && b[0] == 0xF4 ? 0x8F : 0xBF;
        if (i >= n || b[i] < low || b[i] > high) {
            *used = i;
            return 0;
        }
        value = value << 6 | (b[i] & 0x3F);
    }
    *point = value;
    *used = length;
    return 1;
}

void mx_utf8_clean(const void *bytes, size_t n, mx_str *out) {
    const uint8_t *b = bytes;
    uint32_t point;
    size_t used, good = 0; /* bytes [good, i) are valid and not yet added */
    for (size_t i = 0; i < n; i += used) {
        if (mx_utf8_read(b + i, n - i, &point, &used))
            continue;
        mx_str_add(out, b + good, i - good);
        mx_str_add(out, "\xEF\xBF\xBD", 3);
        good = i + used;
    }
    if (good < n)
        mx_str_add(out, b + good, n - good);
}

size_t mx_utf8_check(const void *bytes, size_t n) {
    const uint8_t *b = bytes;
    uint32_t point;
    size_t used, i = 0;
    while (i < n && mx_utf8_read(b + i, n - i, &point, &used))
        i += used;
    return i;
}

/* As Python's str.isspace(): White_Space and the four ASCII separators. */
static int is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

const char *mx_utf8_strip(const char *text, size_t *n) {
    size_t total = *n, begin = total, end = total, used;
    for (size_t i = 0; i < total; i += used) {
        uint32_t point = 0xFFFD;
        mx_utf8_read(text + i, total - i, &point, &used);
        if (is_space(point))
            continue;
        if (begin == total)
            begin = i;
        end = i + used;
    }
    *n = end - begin;
    return text + begin;
}
