/* server/page/page.c - files of the page by path, and their headers; the bytes are in page_data.c, made by embed.py. */
#include "page/page.h"

#include <string.h>

#include "page/page_data.h"

/* Nothing from elsewhere, nothing inline, no markup from strings: text that a model made up can never become script.
 * Sounds are played from blobs. The page is not to be framed, and asks for no device but the microphone. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

static const page_header headers[] = {
    {"Content-Security-Policy", policy},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "same-origin"},
    {"Permissions-Policy", "microphone=(self), camera=(), geolocation=()"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-cache"},      /* kept, but asked about each time: a new program has new files */
    {NULL, NULL},
};

const page_header *page_headers(void) {
    return headers;
}

const page_asset *page_at(size_t i) {
    return i < page_n_assets ? &page_assets[i] : NULL;
}

const page_asset *page_find(const char *path) {
    for (size_t i = 0; i < page_n_assets; i++)
        if (strcmp(page_assets[i].path, path) == 0)
            return &page_assets[i];
    return NULL;
}

int page_is_known(const page_asset *asset, const char *if_none_match) {
    size_t n = strlen(asset->etag);
    if (!if_none_match)
        return 0;
    for (const char *at = if_none_match; *at;) {
        at += strspn(at, " \t,");
        if (*at == '*')
            return 1;
        const char *tag = strncmp(at, "W/", 2) == 0 ? at + 2 : at;
        if (strncmp(tag, asset->etag, n) == 0)
            return 1;
        at += strcspn(at, ",");
    }
    return 0;
}
