/* modules/curl/curl.c - HTTP through libcurl: one GET, its headers understood, its body passed on as it arrives.
 * Invariants: only http and https are spoken, and an https address never leads to a plain one. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hub/curl_module.h"

#define MAX_REDIRECTS 10
#define CONNECT_S 20

typedef struct transfer {
    const mx_http_request *request;
    mx_http_response *response;
    int stopped;
} transfer;

/* ---- headers ---------------------------------------------------------------------------------------------- */

/* The value of "name: value" in a line of n bytes, without blanks around it; NULL if it is another header. */
static const char *value_of(const char *line, size_t n, const char *name, size_t *value_n) {
    size_t m = strlen(name);
    if (n <= m || strncasecmp(line, name, m) != 0 || line[m] != ':')
        return NULL;
    const char *value = line + m + 1, *end = line + n;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (unsigned char)end[-1] <= ' ')
        end--;
    *value_n = (size_t)(end - value);
    return value;
}

static void copy_value(char *to, size_t size, const char *value, size_t n) {
    if (n >= size)
        n = 0;   /* too long to be one of ours */
    memcpy(to, value, n);
    to[n] = 0;
}

/* "bytes 100-199/200" */
static void read_range(mx_http_response *a, const char *value, size_t n) {
    char text[96];
    long long from, to, total;
    copy_value(text, sizeof(text), value, n);
    if (sscanf(text, "bytes %lld-%lld/%lld", &from, &to, &total) == 3 && from >= 0 && to >= from && total > to) {
        a->from = from;
        a->total = total;
    }
}

static size_t on_header(char *line, size_t size, size_t n, void *user) {
    mx_http_response *a = ((transfer *)user)->response;
    size_t value_n;
    const char *value;
    n *= size;
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0) {   /* of the next response on the way: what the last said is gone */
        a->length = a->from = a->total = -1;
        a->etag[0] = a->error[0] = 0;
    } else if ((value = value_of(line, n, "etag", &value_n))) {
        copy_value(a->etag, sizeof(a->etag), value, value_n && *value == '"' ? value_n : 0);
    } else if ((value = value_of(line, n, "x-linked-etag", &value_n))) {
        int quoted = value_n > 2 && *value == '"';
        copy_value(a->linked, sizeof(a->linked), value + quoted, value_n - 2 * (size_t)quoted);
    } else if ((value = value_of(line, n, "x-error-code", &value_n))) {
        copy_value(a->error, sizeof(a->error), value, value_n);
    } else if ((value = value_of(line, n, "content-range", &value_n))) {
        read_range(a, value, value_n);
    }
    return n;
}

/* ---- body ------------------------------------------------------------------------------------------------- */

static void note_head(transfer *t, CURL *curl) {
    curl_off_t length = -1;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &t->response->code);
    if (curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length) == CURLE_OK)
        t->response->length = length;
}

typedef struct body_state {
    transfer *transfer;
    CURL *curl;
} body_state;

static size_t on_body(char *bytes, size_t size, size_t n, void *user) {
    body_state *b = user;
    transfer *t = b->transfer;
    n *= size;
    note_head(t, b->curl);
    if (t->response->code != 200 && t->response->code != 206)
        return n;
    t->stopped = t->stopped || t->request->body(t->request->user, t->response, bytes, n) != 0;
    return t->stopped ? 0 : n;
}

static int on_tick(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up) {
    transfer *t = user;
    (void)total, (void)now, (void)up_total, (void)up;
    t->stopped = t->stopped || (t->request->tick && t->request->tick(t->request->user) != 0);
    return t->stopped;
}

/* ---- the request -------------------------------------------------------------------------------------------- */

static void set_protocols(CURL *curl, const char *url) {
    int secure = strncasecmp(url, "https:", 6) == 0;
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTPS | (secure ? 0 : CURLPROTO_HTTP)));
#endif
}

/* A list with one more line; the old one is freed if there is no memory, and *failed set. */
static struct curl_slist *add_header(struct curl_slist *list, const char *line, int *failed) {
    struct curl_slist *more = curl_slist_append(list, line);
    if (!more) {
        curl_slist_free_all(list);
        *failed = 1;
    }
    return more;
}

/* libcurl shows an Authorization line to the first host alone (since 7.58; to its port alone since 7.83). */
static struct curl_slist *set_headers(CURL *curl, const mx_http_request *request, int *failed) {
    char text[1024];
    struct curl_slist *headers = NULL;
    if (request->token && *request->token) {
        snprintf(text, sizeof(text), "Authorization: Bearer %s", request->token);
        headers = add_header(headers, text, failed);
    }
    if (request->from > 0) {
        snprintf(text, sizeof(text), "%lld-", (long long)request->from);
        curl_easy_setopt(curl, CURLOPT_RANGE, text);
    }
    if (request->from > 0 && request->if_range && *request->if_range && !*failed) {
        snprintf(text, sizeof(text), "If-Range: %s", request->if_range);
        headers = add_header(headers, text, failed);
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    return headers;
}

static void set_options(CURL *curl, const mx_http_request *request, transfer *t, body_state *body) {
    long stall = request->stall_s > 0 ? request->stall_s : 30;
    set_protocols(curl, request->url);
    curl_easy_setopt(curl, CURLOPT_URL, request->url);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "max-whisper/" MXW_VERSION);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, stall < CONNECT_S ? stall : (long)CONNECT_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, stall);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_tick);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
}

static mxw_status get(const mx_http_request *request, mx_http_response *response) {
    char words[CURL_ERROR_SIZE] = "";
    transfer t = {.request = request, .response = response};
    CURL *curl = curl_easy_init();
    body_state body = {&t, curl};
    *response = (mx_http_response){.length = -1, .from = -1, .total = -1};
    if (!curl) {
        snprintf(response->why, sizeof(response->why), "libcurl cannot be started");
        return MXW_E_IO;
    }
    set_options(curl, request, &t, &body);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
    int failed = 0;
    struct curl_slist *headers = set_headers(curl, request, &failed);
    CURLcode code = failed ? CURLE_OUT_OF_MEMORY : curl_easy_perform(curl);
    note_head(&t, curl);
    if (code != CURLE_OK)
        snprintf(response->why, sizeof(response->why), "%.250s", words[0] ? words : curl_easy_strerror(code));
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return t.stopped ? MXW_E_ABORTED : code == CURLE_OK ? MXW_OK : MXW_E_IO;
}

static const mx_curl_table table = {get};

const void *mx_module_open(const mx_host *services, uint32_t abi);

__attribute__((visibility("default"))) const void *mx_module_open(const mx_host *services, uint32_t abi) {
    (void)services;
    if (abi != MX_MODULE_ABI || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return NULL;
    return &table;
}
