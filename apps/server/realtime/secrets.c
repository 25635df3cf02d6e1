/* realtime/secrets.c - see the header. */
#include "realtime/secrets.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "http/reply.h"
#include "models/registry.h"
#include "realtime/audio/base64.h"

enum { MOST_SECRETS = 4096, LEAST_S = 10, MOST_S = 7200, USUAL_S = 600 };

typedef struct secret {
    char value[SECRET_SIZE];
    int64_t expires_at;
    rt_config config;
} secret;

struct secret_list {
    pthread_mutex_t lock;
    secret **items;
    int n, room;
};

secret_list *secrets_open(void) {
    secret_list *list = calloc(1, sizeof(*list));
    if (list)
        pthread_mutex_init(&list->lock, NULL);
    return list;
}

void secrets_close(secret_list *list) {
    if (!list)
        return;
    for (int i = 0; i < list->n; i++)
        free(list->items[i]);
    free(list->items);
    pthread_mutex_destroy(&list->lock);
    free(list);
}

static void forget_expired(secret_list *list, int64_t now) {
    int kept = 0;
    for (int i = 0; i < list->n; i++)
        if (list->items[i]->expires_at > now)
            list->items[kept++] = list->items[i];
        else
            free(list->items[i]);
    list->n = kept;
}

/* 24 random bytes, in letters that need no escape in a header or a subprotocol. */
static int make_value(char value[SECRET_SIZE]) {
    unsigned char bytes[24];
    char text[40];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return 0;
    base64_encode(bytes, sizeof(bytes), text);
    for (char *c = text; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    snprintf(value, SECRET_SIZE, SECRET_PREFIX "%s", text);
    return 1;
}

int secrets_add(secret_list *list, const rt_config *config, int64_t expires_at, char value[SECRET_SIZE]) {
    secret *added = calloc(1, sizeof(*added));
    if (!added || !make_value(added->value)) {
        free(added);
        return 0;
    }
    added->expires_at = expires_at;
    added->config = *config;
    pthread_mutex_lock(&list->lock);
    forget_expired(list, (int64_t)time(NULL));
    int may = list->n < MOST_SECRETS;
    if (may && list->n == list->room) {
        secret **grown = realloc(list->items, (size_t)(2 * list->room + 8) * sizeof(*grown));
        may = grown != NULL;
        if (grown) {
            list->items = grown;
            list->room = 2 * list->room + 8;
        }
    }
    if (may) {
        list->items[list->n++] = added;
        memcpy(value, added->value, SECRET_SIZE);
    }
    pthread_mutex_unlock(&list->lock);
    if (!may)
        free(added);
    return may;
}

/* In a time that does not tell how much of one was right. */
int secrets_find(secret_list *list, const char *value, size_t n, rt_config *config) {
    char given[SECRET_SIZE] = {0};
    int found = 0;
    if (n >= sizeof(given))
        return 0;
    memcpy(given, value, n);
    pthread_mutex_lock(&list->lock);
    forget_expired(list, (int64_t)time(NULL));
    for (int i = 0; i < list->n; i++) {
        unsigned char difference = 0;
        for (int j = 0; j < SECRET_SIZE; j++)
            difference |= (unsigned char)(given[j] ^ list->items[i]->value[j]);
        if (difference == 0) {
            *config = list->items[i]->config;
            found = 1;
        }
    }
    pthread_mutex_unlock(&list->lock);
    return found;
}

/* ---- the routes -------------------------------------------------------------------------------------------------- */

static int has_model(void *user, const char *name) {
    return models_find(((server_context *)user)->models, name) >= 0;
}

/* The body as an object; NULL: answered. */
static json_t *body_of(http_request *r, enum MHD_Result *result) {
    json_error_t error;
    json_t *body = r->n_body ? json_loadb(r->body, r->n_body, JSON_REJECT_DUPLICATES, &error) : json_object();
    if (json_is_object(body))
        return body;
    json_decref(body);
    *result = reply_error(r, MHD_HTTP_BAD_REQUEST, NULL, "invalid_json", "the body is not a JSON object");
    return NULL;
}

static enum MHD_Result refuse(http_request *r, const rt_problem *problem) {
    return reply_refusal(r, !strcmp(problem->code, "model_not_found") ? MHD_HTTP_NOT_FOUND : MHD_HTTP_BAD_REQUEST,
                         RETRY_AS_STATUS, 0, problem->param, problem->code, problem->message);
}

/* A member that is neither is a misspelt one. */
static int has_only(json_t *object, const char *path, const char *one, const char *other, rt_problem *problem) {
    const char *key;
    json_t *value;
    char inner[160];
    json_object_foreach(object, key, value) {
        if (!strcmp(key, one) || !strcmp(key, other))
            continue;
        snprintf(inner, sizeof(inner), "%s%s%s", path, *path ? "." : "", key);
        return rt_problem_set(problem, "unknown_parameter", inner, "Unknown parameter: '%s'.", inner);
    }
    return 1;
}

/* {"anchor":"created_at","seconds":600}: 0, and what is wrong with the member of that path. */
static int lifetime_of(json_t *after, const char *path, int64_t *seconds, rt_problem *problem) {
    json_t *value = json_object_get(after, "seconds"), *anchor = json_object_get(after, "anchor");
    char inner[160];
    *seconds = USUAL_S;
    if (!after || json_is_null(after))
        return 1;
    if (!json_is_object(after))
        return rt_problem_set(problem, "invalid_value", path, "%s: must be an object", path);
    if (!has_only(after, path, "anchor", "seconds", problem))
        return 0;
    snprintf(inner, sizeof(inner), "%s.anchor", path);
    if (anchor && (!json_is_string(anchor) || strcmp(json_string_value(anchor), "created_at") != 0))
        return rt_problem_set(problem, "invalid_value", inner, "%s: must be \"created_at\"", inner);
    if (!value || json_is_null(value))
        return 1;
    *seconds = json_is_integer(value) ? json_integer_value(value) : 0;
    if (*seconds >= LEAST_S && *seconds <= MOST_S)
        return 1;
    snprintf(inner, sizeof(inner), "%s.seconds", path);
    return rt_problem_set(problem, "invalid_value", inner, "%s: must be a whole number from %d to %d", inner, LEAST_S,
                          MOST_S);
}

/* The beta has it within the session: {"client_secret":{"expires_at":{"anchor":"created_at","seconds":600}}}. */
static int beta_lifetime_of(json_t *body, int64_t *seconds, rt_problem *problem) {
    json_t *wanted = json_object_get(body, "client_secret");
    if (wanted && !json_is_null(wanted) && !json_is_object(wanted))
        return rt_problem_set(problem, "invalid_value", "client_secret", "client_secret: must be an object");
    return (!wanted || has_only(wanted, "client_secret", "expires_at", "expires_at", problem)) &&
           lifetime_of(json_object_get(wanted, "expires_at"), "client_secret.expires_at", seconds, problem);
}

static enum MHD_Result out_of_secrets(http_request *r) {
    return reply_refusal(r, MHD_HTTP_TOO_MANY_REQUESTS, RETRY_LATER, 60, NULL, "too_many_secrets",
                         "too many client secrets are valid at once");
}

static json_t *session_of(const http_request *r, const rt_config *config, rt_dialect dialect) {
    char id[REQUEST_ID_SIZE];
    snprintf(id, sizeof(id), "sess_%s", r->id + strlen("req_"));
    return rt_config_json(config, dialect, id, 0, models_id(r->server->models, 0));
}

static enum MHD_Result answer_client_secrets(http_request *r) {
    enum MHD_Result result = MHD_NO;
    rt_problem problem;
    rt_config config;
    int64_t seconds;
    char value[SECRET_SIZE];
    json_t *body = body_of(r, &result);
    if (!body)
        return result;
    json_t *session = json_object_get(body, "session");
    rt_config_default(&config);
    int good = has_only(body, "", "expires_after", "session", &problem) &&
               lifetime_of(json_object_get(body, "expires_after"), "expires_after", &seconds, &problem) &&
               (!session || rt_config_update(&config, session, RT_GA, has_model, r->server, &problem));
    json_decref(body);
    if (!good)
        return refuse(r, &problem);
    int64_t expires_at = (int64_t)time(NULL) + seconds;
    if (!secrets_add(r->server->secrets, &config, expires_at, value))
        return out_of_secrets(r);
    return reply_json(r, MHD_HTTP_OK, json_pack("{s:s, s:I, s:o}", "value", value, "expires_at", (json_int_t)expires_at,
                                                "session", session_of(r, &config, RT_GA)));
}

static enum MHD_Result answer_transcription_sessions(http_request *r) {
    enum MHD_Result result = MHD_NO;
    rt_problem problem;
    rt_config config;
    int64_t seconds;
    char value[SECRET_SIZE];
    json_t *body = body_of(r, &result);
    if (!body)
        return result;
    rt_config_default(&config);
    int good = rt_config_update(&config, body, RT_BETA, has_model, r->server, &problem);
    if (!good)   /* the members are the body's own here */
        memmove(problem.param, problem.param + strlen("session."), strlen(problem.param) + 1 - strlen("session."));
    good = good && beta_lifetime_of(body, &seconds, &problem);
    json_decref(body);
    if (!good)
        return refuse(r, &problem);
    int64_t expires_at = (int64_t)time(NULL) + seconds;
    if (!secrets_add(r->server->secrets, &config, expires_at, value))
        return out_of_secrets(r);
    json_t *session = session_of(r, &config, RT_BETA);
    json_object_set_new(session, "client_secret", json_pack("{s:s, s:I}", "value", value, "expires_at",
                                                            (json_int_t)expires_at));
    return reply_json(r, MHD_HTTP_OK, session);
}

const route_handler handler_client_secrets = {.answer = answer_client_secrets};
const route_handler handler_transcription_sessions = {.answer = answer_transcription_sessions};
