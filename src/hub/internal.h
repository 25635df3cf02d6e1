/* hub/internal.h - internal to hub/: shared by its files. */
#ifndef MX_HUB_INTERNAL_H
#define MX_HUB_INTERNAL_H
#include "base/mem.h"
#include "base/str.h"
#include "hub/curl_module.h"

typedef struct mx_hub_file {
    const char *name;
    uint64_t size;
    int sized;              /* the hub states the size */
    const char *sha256;     /* 64 digits, or NULL for a small file, for which the hub states none */
} mx_hub_file;

typedef struct mx_hub_list {
    char commit[64];        /* "" if the hub does not state it */
    mx_hub_file *files;     /* in the arena: the ones to fetch, in the hub's order */
    size_t n;
    uint64_t bytes;         /* total of those that are stated */
} mx_hub_list;

/* listing.c: the files to fetch, from the hub's JSON about a repository; model_bin: the CTranslate2 format is
 * wanted. */
mxw_status mx_hub_list_parse(const uint8_t *bytes, size_t n, int model_bin, mx_arena *arena, mx_hub_list *list);

#define MX_HUB_ADDRESS "https://huggingface.co"
#define MX_GITHUB_ADDRESS "https://github.com"
#define MX_HUB_TOKEN_BYTES 512

typedef struct mx_hub_job {
    const mx_curl_table *curl;
    char token[MX_HUB_TOKEN_BYTES];   /* sent to the hub; "" without a login */
    const mxw_fetch_options *options;
    const char *file;       /* the current one; NULL: the list */
    uint64_t done, total;   /* bytes: of complete files, of all files */
    int stopped;            /* by the caller's progress function */
} mx_hub_job;

/* login.c: the access token for this hub: $HF_TOKEN, else, for the public hub, that of hf auth login. */
mxw_status mx_hub_login(const char *hub, char token[MX_HUB_TOKEN_BYTES]);
/* Fails with the reason of an unsuccessful response, and what to do if a login is needed (E_UNSUPPORTED). */
mxw_status mx_hub_refused(const mx_hub_job *job, const char *what, const mx_http_response *response);

/* Reports progress; non-zero: stop. */
int mx_hub_report(mx_hub_job *job, uint64_t of_this_file);

/* transfer.c: downloads one file: resumes, retries, verifies. */
mxw_status mx_hub_get_file(mx_hub_job *job, const char *url, const mx_hub_file *file, const char *folder);
/* A small response into memory. */
mxw_status mx_hub_get_text(mx_hub_job *job, const char *url, mx_str *text);
#endif
