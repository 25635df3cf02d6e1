/* server/http/tls.h - the server's certificate and key, which can be read again while it runs.
 *
 * Invariants: a handshake uses a pair that belongs together; pairs that were replaced stay until the server ends, as a
 * handshake may still look at one.
 */
#ifndef SERVER_HTTP_TLS_H
#define SERVER_HTTP_TLS_H

#include <gnutls/abstract.h>
#include <microhttpd.h>

#include "server.h"

/* 0 with a line in message; what was read before stays in use. */
int tls_open(const server_options *options, char *message, size_t size);
void tls_close(void);
/* As gnutls_certificate_retrieve_function2. */
int tls_certificate(gnutls_session_t session, const gnutls_datum_t *names, int n_names,
                    const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **certificates,
                    unsigned int *n_certificates, gnutls_privkey_t *key);
/* Bytes that were sent, or less than 0; from the thread of the connection only. */
ssize_t tls_send(struct MHD_Connection *connection, const void *bytes, size_t n);

#endif
