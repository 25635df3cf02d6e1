/* server/http/tls.c - see tls.h. */
#include "http/tls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_CHAIN = 16 };

typedef struct tls_pair {
    struct tls_pair *older;
    gnutls_pcert_st chain[MAX_CHAIN];
    unsigned n;
    gnutls_privkey_t key;
} tls_pair;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tls_pair *newest;

static void free_pair(tls_pair *pair) {
    for (unsigned i = 0; i < pair->n; i++)
        gnutls_pcert_deinit(&pair->chain[i]);
    if (pair->key)
        gnutls_privkey_deinit(pair->key);
    free(pair);
}

static int read_chain(tls_pair *pair, const char *path, char *message, size_t size) {
    gnutls_datum_t file = {NULL, 0};
    pair->n = MAX_CHAIN;
    int problem = gnutls_load_file(path, &file);
    if (!problem)
        problem = gnutls_pcert_list_import_x509_raw(pair->chain, &pair->n, &file, GNUTLS_X509_FMT_PEM,
                                                    GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    gnutls_free(file.data);
    if (!problem)
        return 1;
    pair->n = 0;
    snprintf(message, size, "--tls-cert: %s: %s", path, gnutls_strerror(problem));
    return 0;
}

static int read_key(tls_pair *pair, const char *path, char *message, size_t size) {
    gnutls_datum_t file = {NULL, 0};
    int problem = gnutls_load_file(path, &file);
    if (!problem)
        problem = gnutls_privkey_init(&pair->key);
    if (!problem)
        problem = gnutls_privkey_import_x509_raw(pair->key, &file, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (file.data)
        gnutls_memset(file.data, 0, file.size);
    gnutls_free(file.data);
    if (!problem)
        return 1;
    snprintf(message, size, "--tls-key: %s: %s", path, gnutls_strerror(problem));
    return 0;
}

static int key_id(gnutls_pubkey_t public, unsigned char id[64], size_t *n) {
    *n = 64;
    return gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, id, n);
}

static int fits(const tls_pair *pair) {
    unsigned char a[64], b[64];
    size_t n_a = 0, n_b = 1;
    gnutls_pubkey_t public = NULL;
    if (!gnutls_pubkey_init(&public) && !gnutls_pubkey_import_privkey(public, pair->key, 0, 0) &&
        !key_id(public, a, &n_a) && key_id(pair->chain[0].pubkey, b, &n_b))
        n_b = n_a + 1;
    if (public)
        gnutls_pubkey_deinit(public);
    int same = n_a == n_b;
    for (size_t i = 0; same && i < n_a; i++)
        same = a[i] == b[i];
    return same;
}

int tls_open(const server_options *o, char *message, size_t size) {
    tls_pair *pair = calloc(1, sizeof(*pair));
    int good = pair && read_chain(pair, o->tls_cert, message, size) && read_key(pair, o->tls_key, message, size);
    if (good && !fits(pair)) {
        snprintf(message, size, "--tls-key: %s does not belong to %s", o->tls_key, o->tls_cert);
        good = 0;
    }
    if (!good) {
        if (pair)
            free_pair(pair);
        return 0;
    }
    pthread_mutex_lock(&lock);
    pair->older = newest;
    newest = pair;
    pthread_mutex_unlock(&lock);
    return 1;
}

void tls_close(void) {
    while (newest) {
        tls_pair *older = newest->older;
        free_pair(newest);
        newest = older;
    }
}

ssize_t tls_send(struct MHD_Connection *connection, const void *bytes, size_t n) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info && info->tls_session ? gnutls_record_send(info->tls_session, bytes, n) : -1;
}

int tls_certificate(gnutls_session_t session, const gnutls_datum_t *names, int n_names,
                    const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **certificates,
                    unsigned int *n_certificates, gnutls_privkey_t *key) {
    (void)session;
    (void)names;
    (void)n_names;
    (void)algorithms;
    (void)n_algorithms;
    pthread_mutex_lock(&lock);
    tls_pair *pair = newest;
    pthread_mutex_unlock(&lock);
    if (!pair)
        return -1;
    *certificates = pair->chain;
    *n_certificates = pair->n;
    *key = pair->key;
    return 0;
}
