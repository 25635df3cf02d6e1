/* hub/login.c - the user's access token, where it is sent, and error messages for refused requests.
 * Invariants: a token is sent only to the hub, never to servers it redirects to (ensured by modules/curl), over plain
 * http only to this machine; a token stored by other programs only to the hub that it was stored for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "hub/internal.h"

static int is_local(const char *host) {
    size_t n = strcspn(host, ":/");
    return (n == 9 && memcmp(host, "localhost", 9) == 0) || (n == 9 && memcmp(host, "127.0.0.1", 9) == 0) ||
           strncmp(host, "[::1]", 5) == 0;
}

/* Where `hf auth login` stores it, by the variables that Hugging Face's libraries read; "" if there is none. */
static void stored_path(char *path, size_t size) {
    const char *own = getenv("HF_TOKEN_PATH"), *home = getenv("HF_HOME"), *cache = getenv("XDG_CACHE_HOME");
    const char *user = getenv("HOME");
    int n = own && *own        ? snprintf(path, size, "%s", own)
            : home && *home    ? snprintf(path, size, "%s/token", home)
            : cache && *cache == '/' ? snprintf(path, size, "%s/huggingface/token", cache)
            : user && *user    ? snprintf(path, size, "%s/.cache/huggingface/token", user)
                               : -1;
    if (n < 0 || (size_t)n >= size)
        path[0] = 0;
}

static void read_stored(char *token, size_t size) {
    char path[4096];
    stored_path(path, sizeof(path));
    FILE *file = path[0] ? fopen(path, "rb") : NULL;
    if (!file)
        return;
    size_t n = fread(token, 1, size - 1, file);
    fclose(file);
    while (n && (unsigned char)token[n - 1] <= ' ')
        n--;
    token[n] = 0;
}

static int is_plain(const char *token) {
    for (const char *p = token; *p; p++)
        if (*p <= ' ' || *p > '~')
            return 0;
    return strlen(token) < MX_HUB_TOKEN_BYTES - 1;
}

mxw_status mx_hub_login(const char *hub, char token[MX_HUB_TOKEN_BYTES]) {
    const char *given = getenv("HF_TOKEN");
    int secure = strncmp(hub, "https://", 8) == 0;
    token[0] = 0;
    if (given && *given) {
        snprintf(token, MX_HUB_TOKEN_BYTES, "%s", given);
    } else if (strcmp(hub, MX_HUB_ADDRESS) == 0) {
        read_stored(token, MX_HUB_TOKEN_BYTES);
        given = NULL;
    }
    if (!is_plain(token)) {
        token[0] = 0;
        return mx_fail(MXW_E_ARGUMENT, "the access token %s is invalid: too long, or with characters besides letters, "
                       "digits and punctuation", given ? "in HF_TOKEN" : "that was stored by hf auth login");
    }
    if (token[0] && !secure && !is_local(hub + strlen("http://"))) {
        mx_log(MXW_LOG_WARN, "hub", "HF_TOKEN is not sent to %s, which is not https", hub);
        token[0] = 0;
    }
    return MXW_OK;
}

mxw_status mx_hub_refused(const mx_hub_job *job, const char *what, const mx_http_response *response) {
    long code = response->code;
    int gated = strcmp(response->error, "GatedRepo") == 0;
    if (code != 401 && code != 403)
        return mx_fail(code == 404 ? MXW_E_NOT_FOUND : MXW_E_IO, "%s: the hub responded with HTTP %ld%s", what, code,
                       code == 404 ? ", not found" : "");
    if (!job->token[0])
        return mx_fail(MXW_E_UNSUPPORTED, "%s: the hub refuses it without a login (HTTP %ld): %s create an access "
                       "token at " MX_HUB_ADDRESS "/settings/tokens and set HF_TOKEN to it", what, code,
                       gated ? "the repository is gated: accept its terms on its page, then"
                             : "there is no such repository, or it is private or gated; if it is there,");
    if (gated || code == 403)
        return mx_fail(MXW_E_UNSUPPORTED, "%s: the hub refuses it to your access token (HTTP %ld): accept the "
                       "repository's terms on its page with that account, and let the token read gated repositories",
                       what, code);
    return mx_fail(MXW_E_UNSUPPORTED, "%s: the hub refuses your access token (HTTP %ld): there is no such repository, "
                   "or the token (HF_TOKEN, or that of hf auth login) is wrong or has expired", what, code);
}
