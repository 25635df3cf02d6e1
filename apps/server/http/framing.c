/* server/http/framing.c - see framing.h. */
#include "http/framing.h"

#include <string.h>
#include <strings.h>

typedef struct framing {
    int n_hosts, n_lengths, n_codings, odd_name;
    const char *length, *coding;
} framing;

static enum MHD_Result look(void *any, enum MHD_ValueKind kind, const char *name, const char *value) {
    framing *f = any;
    (void)kind;
    if (!strcasecmp(name, MHD_HTTP_HEADER_HOST))
        f->n_hosts++;
    if (!strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
        f->n_lengths++;
        f->length = value;
    }
    if (!strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        f->n_codings++;
        f->coding = value;
    }
    f->odd_name |= !*name || strpbrk(name, " \t") != NULL;
    return MHD_YES;
}

const char *framing_problem(const http_request *r, int64_t *length) {
    framing f = {0};
    *length = 0;
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, look, &f);
    if (f.odd_name)
        return "the name of a header holds a blank";
    if (f.n_hosts > 1)
        return "the header Host is there more than once";
    if (f.n_lengths > 1)
        return "the header Content-Length is there more than once";
    if (f.n_codings > 1 || (f.n_codings && strcasecmp(f.coding, "chunked")))
        return "the only Transfer-Encoding that is understood is chunked";
    if (f.n_codings && f.n_lengths)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (f.n_codings) {
        *length = -1;
        return NULL;
    }
    if (!f.n_lengths)
        return NULL;
    if (!*f.length || strspn(f.length, "0123456789") != strlen(f.length) || strlen(f.length) > 18)
        return "Content-Length is not a number";
    for (const char *p = f.length; *p; p++)
        *length = *length * 10 + (*p - '0');
    return NULL;
}
