/* weights/format/json.h - internal to weights/: parses untrusted JSON with jansson, with an error line. */
#ifndef MX_WEIGHTS_JSON_H
#define MX_WEIGHTS_JSON_H
#include <jansson.h>

#include "base/status.h"

/* flags: jansson's, besides JSON_ALLOW_NUL. *root is NULL on failure; release it with json_decref. */
mxw_status mx_json_load(const uint8_t *bytes, size_t n, size_t flags, json_t **root);
/* An object of at most max bytes. */
mxw_status mx_json_load_object(const uint8_t *bytes, size_t n, size_t max, size_t flags, json_t **root);
#endif
