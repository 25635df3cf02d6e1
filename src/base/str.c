/* base/str.c - growing byte strings, and floats as Python prints them. */
#include "base/str.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void mx_str_add(mx_str *s, const void *bytes, size_t n) {
    if (s->status < 0)
        return;
    s->status = mx_grow(&s->data, &s->capacity, s->n + n + 1, 1);
    if (s->status < 0)
        return;
    if (n)
        memcpy(s->data + s->n, bytes, n);
    s->n += n;
    s->data[s->n] = 0;
}

void mx_str_text(mx_str *s, const char *text) { mx_str_add(s, text, strlen(text)); }

void mx_str_print(mx_str *s, const char *format, ...) {
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof(small), format, args);
    if (n >= 0 && (size_t)n < sizeof(small)) {
        mx_str_add(s, small, (size_t)n);
    } else if (n >= 0 && s->status >= 0) {
        s->status = mx_grow(&s->data, &s->capacity, s->n + (size_t)n + 1, 1);
        if (s->status >= 0) {
            vsnprintf(s->data + s->n, (size_t)n + 1, format, again);
            s->n += (size_t)n;
        }
    }
    va_end(again);
    va_end(args);
}

void mx_str_clear(mx_str *s) {
    s->n = 0;
    if (s->data)
        s->data[0] = 0;
}

void mx_str_free(mx_str *s) {
    mx_free(s->data);
    memset(s, 0, sizeof(*s));
}

char *mx_str_take(mx_str *s) {
    mx_str_add(s, "", 0);
    char *data = s->data;
    if (s->status < 0) {
        mx_free(data);
        data = NULL;
    }
    memset(s, 0, sizeof(*s));
    return data;
}

mxw_status mx_str_status(const mx_str *s) { return s->status; }

const char *mx_str_get(const mx_str *s) { return s->data ? s->data : ""; }

/* Python's repr: the shortest digits that round-trip; plain notation when -4 <= exponent < 16. */
void mx_format_double(double value, char out[32]) {
    if (isnan(value) || isinf(value)) {
        snprintf(out, 32, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    char digits[32];
    int precision = 1;
    for (; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*e", precision - 1, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int decimals = MX_MAX(precision - 1 - exponent, 1);
        snprintf(out, 32, "%.*f", decimals, value);
    } else {
        char *e = strchr(digits, 'e');
        snprintf(out, 32, "%.*se%c%02d", (int)(e - digits), digits, exponent < 0 ? '-' : '+', abs(exponent));
    }
}
