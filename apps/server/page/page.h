/* server/page/page.h - the page at /: its files, which are part of the program, and the headers they are sent with.
 *
 * Paths are those of requests, without a query: "/" is index.html, "/page/app.js" one of the files that it loads. Bytes
 * live as long as the program. */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include <stddef.h>

typedef struct page_asset {
    const char *path;
    const char *type;              /* Content-Type */
    const char *etag;              /* strong, quotes included; changes with the bytes */
    const unsigned char *bytes;
    size_t n_bytes;
} page_asset;

typedef struct page_header {
    const char *name, *value;
} page_header;

/* NULL: there is no such file */
const page_asset *page_find(const char *path);

/* All files, for tests: the i-th, NULL after the last */
const page_asset *page_at(size_t i);

/* The headers that every file is sent with, besides Content-Type and ETag; the last has the name NULL. */
const page_header *page_headers(void);

/* Whether a browser that sent If-None-Match has this file already: "*", or a list that holds its tag, weak or not */
int page_is_known(const page_asset *asset, const char *if_none_match);

#endif
