/* hub/hub.h - public header of hub/: fetches models from the Hugging Face hub into the model folder.
 *
 * In: a name and options whose fields are all set. Out: the folder of the model, complete, checked, opened once.
 * Invariants: nothing appears under the model's name before all of it is verified; an incomplete transfer is kept
 * beside it, and only ever resumed for a file with the same SHA-256. */
#ifndef MX_HUB_H
#define MX_HUB_H
#include "base/str.h"

/* path: its weights. E_STATE if another process is fetching it. */
mxw_status mx_hub_fetch(const char *name, const mxw_fetch_options *options, mx_str *path);
#endif
