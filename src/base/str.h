/* base/str.h - a byte string that grows. Zero-initialise; data is always 0-terminated once anything was added.
 * A failed addition is remembered: check mx_str_status once at the end. */
#ifndef MX_STR_H
#define MX_STR_H
#include "base/status.h"

typedef struct mx_str {
    char *data;
    size_t n, capacity;
    mxw_status status;
} mx_str;

void mx_str_add(mx_str *s, const void *bytes, size_t n);
void mx_str_text(mx_str *s, const char *text);
void mx_str_print(mx_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mx_str_clear(mx_str *s);                  /* keeps the memory */
void mx_str_cut(mx_str *s, size_t n);          /* leaves the first n bytes, if there are more */
void mx_str_free(mx_str *s);
char *mx_str_take(mx_str *s);                  /* the bytes, owned by the caller (mx_free); NULL after a failure */
mxw_status mx_str_status(const mx_str *s);
const char *mx_str_get(const mx_str *s);       /* never NULL */

/* The shortest decimal that reads back as the same double, written as Python's repr does ("0.6000000000000001",
 * "1e-05", "3.0", "nan"); out holds at least 32 bytes. */
void mx_format_double(double value, char out[32]);
/* strtod with a decimal point whatever the process's locale. */
double mx_parse_double(const char *text, char **end);
#endif
