/* hub/hub.h - the door of hub/: models from the Hugging Face hub into the model folder.
 *
 * In: a name and options whose fields are all set. Out: the folder of the model, whole, checked, opened once. What
 * holds: nothing appears under the model's name before all of it is right; what a broken transfer brought is kept
 * beside it, and only ever used again for a file with the same SHA-256. */
#ifndef MX_HUB_H
#define MX_HUB_H
#include "base/str.h"

/* path: where its weights lie now. E_STATE if another process is fetching it. */
mxw_status mx_hub_fetch(const char *name, const mxw_fetch_options *options, mx_str *path);
#endif
