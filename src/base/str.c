/* base/str.c - growing byte strings, and floats as Python prints them. */
#include "base/str.h"

#include <locale.h>
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

void mx_str_cut(mx_str *s, size_t n) {
    if (n >= s->n)
        return;
    s->n = n;
    s->data[n] = 0;
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

/* "d.ddde-05": the next decimal of as many digits, further from zero. 0 if they are all nines. */
static int next_decimal(char *digits) {
    for (char *p = strchr(digits, 'e') - 1; p >= digits; p--) {
        if (*p >= '0' && *p < '9') {
            ++*p;
            return 1;
        }
        if (*p == '9')
            *p = '0';
    }
    return 0;
}

/* The fewest digits that read back as value, in "%e" form. The nearest decimal of that length may fail where the
 * next one above succeeds, but only at a power of two, where the spacing of doubles changes. */
static void shortest_digits(double value, char digits[40]) {
    for (int precision = 0; precision < 17; precision++) {
        snprintf(digits, 40, "%.*e", precision, value);
        if (strtod(digits, NULL) == value || (next_decimal(digits) && strtod(digits, NULL) == value))
            return;
    }
}

/* Python's repr: plain notation when -4 <= exponent < 16. Written digit by digit, so that the locale does not
 * matter. */
void mx_format_double(double value, char out[32]) {
    if (isnan(value) || isinf(value)) {
        snprintf(out, 32, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    char text[40], digits[20], *p = out;
    shortest_digits(value, text);
    int n = 0, exponent = atoi(strchr(text, 'e') + 1);
    for (const char *t = text; *t != 'e'; t++)
        if (*t >= '0' && *t <= '9')
            digits[n++] = *t;
    if (signbit(value))
        *p++ = '-';
    if (exponent >= -4 && exponent < 16) {
        int first = MX_MIN(exponent, 0), last = MX_MAX(n - 1, exponent + 1); /* at least one decimal place */
        for (int i = first; i <= last; i++) {
            *p++ = i >= 0 && i < n ? digits[i] : '0';
            if (i == MX_MAX(exponent, 0) + MX_MIN(exponent, 0))
                *p++ = '.';
        }
        *p = 0;
    } else {
        *p++ = digits[0];
        if (n > 1)
            *p++ = '.';
        memcpy(p, digits + 1, (size_t)n - 1);
        snprintf(p + n - 1, (size_t)(out + 32 - (p + n - 1)), "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
}

double mx_parse_double(const char *text, char **end) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);   /* of this thread alone */
    double value = strtod(text, end);
    uselocale(before);
    if (plain)
        freelocale(plain);
    return value;
}
