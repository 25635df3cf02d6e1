/* server/transcriptions/chunking.c - see chunking.h. */
#include "transcriptions/chunking.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD "chunking_strategy"

void chunking_init(chunking_strategy *c) {
    *c = (chunking_strategy){.threshold = MXW_NONE, .prefix_padding_ms = MXW_NONE, .silence_duration_ms = MXW_NONE};
}

int chunking_is_field(const char *name) {
    size_t n = sizeof(FIELD) - 1;
    return !strncmp(name, FIELD, n) && (!name[n] || name[n] == '[');
}

static int set_type(chunking_strategy *c, const char *type, form_problem *problem) {
    if (!strcmp(type, "auto"))
        c->is_auto = 1;
    else if (!strcmp(type, "server_vad"))
        c->is_server_vad = 1;
    else
        form_refuse(problem, 400, FIELD, "invalid_value", FIELD ": '%.60s' is not auto or server_vad", type);
    return !problem->status;
}

static int set_number(chunking_strategy *c, const char *key, double value, form_problem *problem) {
    struct {
        const char *key;
        double *target, low, high;
    } rows[] = {{"threshold", &c->threshold, 0.01, 1},
                {"prefix_padding_ms", &c->prefix_padding_ms, 0, 1e5},
                {"silence_duration_ms", &c->silence_duration_ms, 0, 1e6}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        if (strcmp(rows[i].key, key))
            continue;
        if (isfinite(value) && value >= rows[i].low && value <= rows[i].high) {
            *rows[i].target = value;
            return 1;
        }
        form_refuse(problem, 400, FIELD, "invalid_value", FIELD ": %s is not a number from %g to %g", key, rows[i].low,
                    rows[i].high);
        return 0;
    }
    form_refuse(problem, 400, FIELD, "unknown_field", FIELD ": has no '%.60s'; it has type, threshold, "
                "prefix_padding_ms and silence_duration_ms", key);
    return 0;
}

static int take_key(chunking_strategy *c, const char *key, const char *value, form_problem *problem) {
    char *end;
    if (!strcmp(key, "type"))
        return set_type(c, value, problem);
    int plain = value[0] && strspn(value, "+-.eE0123456789") == strlen(value);
    double number = plain ? strtod(value, &end) : NAN;
    return set_number(c, key, plain && !*end ? number : NAN, problem);
}

static int take_json(chunking_strategy *c, const char *text, form_problem *problem) {
    json_error_t error;
    const char *key;
    json_t *value, *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object)) {
        form_refuse(problem, 400, FIELD, "invalid_value", FIELD ": is neither auto nor a JSON object");
        json_decref(object);
        return 0;
    }
    json_object_foreach(object, key, value) {
        if (json_is_null(value))
            continue;
        if (!strcmp(key, "type") && json_is_string(value))
            set_type(c, json_string_value(value), problem);
        else
            set_number(c, key, json_is_number(value) ? json_number_value(value) : NAN, problem);
        if (problem->status)
            break;
    }
    json_decref(object);
    return !problem->status;
}

int chunking_take(chunking_strategy *c, const char *name, const char *value, form_problem *problem) {
    char key[FORM_NAME];
    size_t n = strlen(name);
    if (!*value || !strcmp(value, "null"))
        return 1;
    if (n == sizeof(FIELD) - 1)
        return value[strspn(value, " \t\r\n")] == '{' ? take_json(c, value, problem) : set_type(c, value, problem);
    if (name[n - 1] != ']') {
        form_refuse(problem, 400, name, "unknown_field", "unknown field '%.100s'", name);
        return 0;
    }
    snprintf(key, sizeof(key), "%.*s", (int)(n - sizeof(FIELD) - 1), name + sizeof(FIELD));
    return take_key(c, key, value, problem);
}

int chunking_check(const chunking_strategy *c, form_problem *problem) {
    int has_numbers = c->threshold != MXW_NONE || c->prefix_padding_ms != MXW_NONE ||
                      c->silence_duration_ms != MXW_NONE;
    if (!has_numbers || c->is_server_vad)
        return 1;
    form_refuse(problem, 400, FIELD, "invalid_value", FIELD ": its numbers need the type server_vad");
    return 0;
}
