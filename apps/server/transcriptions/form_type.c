/* server/transcriptions/form_type.c - see form_type.h. */
#include "transcriptions/form_type.h"

#include <string.h>
#include <strings.h>

#define FORM_TYPE "multipart/form-data"
#define BOUNDARY "boundary"

typedef struct parameter {
    const char *name, *value;
    size_t n_name, n;
} parameter;

/* The next of "; name=value; name=\"value\""; 0: there is none. A value that does not end is none. */
static int next_parameter(const char **at, parameter *p) {
    const char *from = *at + strcspn(*at, ";");
    if (!*from)
        return 0;
    p->name = from + 1 + strspn(from + 1, " \t");
    p->n_name = strcspn(p->name, "=; \t");
    p->value = p->name + p->n_name;
    p->n = 0;
    *at = p->value;
    if (*p->value != '=')
        return 1;
    p->value++;
    if (*p->value != '"') {
        p->n = strcspn(p->value, "; \t");
        *at = p->value + p->n;
        return 1;
    }
    const char *end = ++p->value;
    while (*end && *end != '"')
        end += *end == '\\' && end[1] ? 2 : 1;
    p->n = *end ? (size_t)(end - p->value) : 0;
    *at = end;
    return 1;
}

int form_type_plain(char *type) {
    const char *at = type + strlen(FORM_TYPE);
    parameter p;
    if (strncasecmp(type, FORM_TYPE, strlen(FORM_TYPE)) || (*at && !strchr(" \t;", *at)))
        return 0;
    size_t n = 0;
    while (!n && next_parameter(&at, &p))
        if (p.n_name == strlen(BOUNDARY) && !strncasecmp(p.name, BOUNDARY, p.n_name))
            n = p.n;
    if (!n || memchr(p.value, '\\', n) || memchr(p.value, '"', n)) {
        type[strlen(FORM_TYPE)] = 0;
        return 1;
    }
    memmove(type + strlen(FORM_TYPE ";" BOUNDARY "="), p.value, n);
    memcpy(type, FORM_TYPE ";" BOUNDARY "=", strlen(FORM_TYPE ";" BOUNDARY "="));
    type[strlen(FORM_TYPE ";" BOUNDARY "=") + n] = 0;
    return 1;
}
