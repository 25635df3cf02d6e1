/* realtime/secrets.h - keys for a while: a page gets one from a server that has the real key, and opens sockets with
 * it.
 *
 * Invariants: a secret opens any number of sockets until it expires, with the session that it was made for; they are
 * bounded in number, and expired ones are forgotten.
 */
#ifndef REALTIME_SECRETS_H
#define REALTIME_SECRETS_H

#include "http/request.h"
#include "realtime/config.h"

#define SECRET_PREFIX "ek_"
enum { SECRET_SIZE = 48 };

typedef struct secret_list secret_list;

secret_list *secrets_open(void);
void secrets_close(secret_list *list);
/* 1: value is the new key; 0: there are too many, or no memory. */
int secrets_add(secret_list *list, const rt_config *config, int64_t expires_at, char value[SECRET_SIZE]);
/* 1: it is valid, and config what it was made for. */
int secrets_find(secret_list *list, const char *value, size_t n, rt_config *config);

/* POST /v1/realtime/client_secrets and, of the beta, transcription_sessions. */
extern const route_handler handler_client_secrets, handler_transcription_sessions;

#endif
