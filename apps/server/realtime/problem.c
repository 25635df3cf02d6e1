/* realtime/problem.c - see the header. */
#include "realtime/problem.h"

#include <stdarg.h>
#include <stdio.h>

/* Bytes of the UTF-8 character at p; 0: it is none. */
static int character(const unsigned char *p) {
    int n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
            : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

static void clean(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p;) {
        int n = character(p);
        if (n == 0)
            *p = '?';
        p += n ? n : 1;
    }
}

int rt_problem_set(rt_problem *p, const char *code, const char *param, const char *format, ...) {
    va_list list;
    p->type = "invalid_request_error";
    p->code = code;
    snprintf(p->param, sizeof(p->param), "%s", param ? param : "");
    va_start(list, format);
    vsnprintf(p->message, sizeof(p->message), format, list);
    va_end(list);
    clean(p->param);
    clean(p->message);
    return 0;
}
