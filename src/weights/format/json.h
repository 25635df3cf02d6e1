/* weights/format/json.h - inside weights/: a stranger's JSON into jansson's tree, with one line for what is wrong. */
#ifndef MX_WEIGHTS_JSON_H
#define MX_WEIGHTS_JSON_H
#include <jansson.h>

#include "base/status.h"

/* flags: jansson's, besides JSON_ALLOW_NUL. *root is NULL on failure; json_decref takes it back. */
mxw_status mx_json_load(const uint8_t *bytes, size_t n, size_t flags, json_t **root);
/* An object of at most max bytes. */
mxw_status mx_json_load_object(const uint8_t *bytes, size_t n, size_t max, size_t flags, json_t **root);
#endif
