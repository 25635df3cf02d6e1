/* realtime/problem.h - what is wrong with something that a client sent: the error object of the protocol, less its
 * event_id. */
#ifndef REALTIME_PROBLEM_H
#define REALTIME_PROBLEM_H

typedef struct rt_problem {
    const char *type;     /* "invalid_request_error", "server_error" */
    const char *code;     /* "invalid_value", "unknown_parameter", ...; or NULL */
    char param[160];      /* the member; "": none */
    char message[600];
} rt_problem;

/* Returns 0. What is not UTF-8, because it was cut or came so, becomes '?'. */
int rt_problem_set(rt_problem *p, const char *code, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
