/* server/http/auth.c - see auth.h. */
#include "http/auth.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_KEY = 512, MAX_KEYS = 10000 };

typedef struct key_list {
    char (*keys)[MAX_KEY + 1];
    int n;
} key_list;

struct auth_keys {
    const server_options *options;
    pthread_rwlock_t lock;
    key_list list;
};

static int add_key(key_list *list, const char *key, size_t n, const char *from, char *message, size_t size) {
    int printable = n > 0 && n <= MAX_KEY;
    for (size_t i = 0; printable && i < n; i++)
        printable = key[i] > ' ' && key[i] < 127;
    if (!printable) {
        snprintf(message, size, "%s: a key has 1 to %d characters of printable ASCII, without blanks", from, MAX_KEY);
        return 0;
    }
    char(*grown)[MAX_KEY + 1] =
        list->n < MAX_KEYS ? realloc(list->keys, (size_t)(list->n + 1) * sizeof(*grown)) : NULL;
    if (!grown) {
        snprintf(message, size, "%s: too many keys", from);
        return 0;
    }
    list->keys = grown;
    memset(grown[list->n], 0, sizeof(*grown));
    memcpy(grown[list->n++], key, n);
    return 1;
}

/* A key a line; empty lines and those that begin with # are skipped. */
static int read_file(key_list *list, const char *path, char *message, size_t size) {
    char line[4096];
    int good = 1, before = list->n;
    FILE *file = fopen(path, "re");
    if (!file) {
        snprintf(message, size, "--api-key-file: cannot read %s: %s", path, strerror(errno));
        return 0;
    }
    while (good && fgets(line, sizeof(line), file)) {
        size_t n = strcspn(line, "\r\n");
        while (n && (line[n - 1] == ' ' || line[n - 1] == '\t'))
            n--;
        if (n && line[0] != '#')
            good = add_key(list, line, n, "--api-key-file", message, size);
    }
    if (good && ferror(file)) {
        snprintf(message, size, "--api-key-file: cannot read %s: %s", path, strerror(errno));
        good = 0;
    } else if (good && list->n == before) {
        snprintf(message, size, "--api-key-file: %s has no key", path);
        good = 0;
    }
    fclose(file);
    return good;
}

static void free_list(key_list *list) {
    if (list->keys)
        explicit_bzero(list->keys, (size_t)list->n * sizeof(*list->keys));
    free(list->keys);
    *list = (key_list){NULL, 0};
}

static int read_all(const server_options *o, key_list *list, char *message, size_t size) {
    int good = 1;
    for (int i = 0; good && i < o->api_keys.n; i++)
        good = add_key(list, o->api_keys.items[i], strlen(o->api_keys.items[i]), "--api-key", message, size);
    if (good && o->api_key_file)
        good = read_file(list, o->api_key_file, message, size);
    if (!good)
        free_list(list);
    return good;
}

auth_keys *auth_open(const server_options *options, char *message, size_t size) {
    key_list list = {NULL, 0};
    if (!read_all(options, &list, message, size))
        return NULL;
    auth_keys *keys = calloc(1, sizeof(*keys));
    if (!keys) {
        free_list(&list);
        snprintf(message, size, "out of memory: keys");
        return NULL;
    }
    *keys = (auth_keys){.options = options, .list = list};
    pthread_rwlock_init(&keys->lock, NULL);
    return keys;
}

void auth_close(auth_keys *keys) {
    if (!keys)
        return;
    free_list(&keys->list);
    pthread_rwlock_destroy(&keys->lock);
    free(keys);
}

int auth_reload(auth_keys *keys, char *message, size_t size) {
    key_list list = {NULL, 0};
    if (!read_all(keys->options, &list, message, size))
        return 0;
    pthread_rwlock_wrlock(&keys->lock);
    key_list old = keys->list;
    keys->list = list;
    pthread_rwlock_unlock(&keys->lock);
    free_list(&old);
    return 1;
}

int auth_is_needed(auth_keys *keys) {
    pthread_rwlock_rdlock(&keys->lock);
    int needed = keys->list.n > 0;
    pthread_rwlock_unlock(&keys->lock);
    return needed;
}

int auth_has_key(auth_keys *keys, const char *key, size_t n) {
    char given[MAX_KEY + 1] = {0};
    int found = 0;
    if (n > MAX_KEY)
        return 0;
    memcpy(given, key, n);
    pthread_rwlock_rdlock(&keys->lock);
    for (int i = 0; i < keys->list.n; i++) { /* all of them, each to its end */
        unsigned char difference = 0;
        for (size_t j = 0; j < sizeof(given); j++)
            difference |= (unsigned char)(given[j] ^ keys->list.keys[i][j]);
        found |= difference == 0;
    }
    pthread_rwlock_unlock(&keys->lock);
    return found && n > 0;
}

int auth_check(const http_request *r) {
    if (!auth_is_needed(r->server->keys))
        return 1;
    const char *value = request_header(r, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!value || strncasecmp(value, "Bearer ", 7))
        return 0;
    value += 7 + strspn(value + 7, " ");
    return auth_has_key(r->server->keys, value, strcspn(value, " "));
}
