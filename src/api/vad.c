/* api/vad.c - the public functions of speech detection, over weights/ and vad/. */
#include <stdio.h>

#include "api/api.h"
#include "base/base.h"
#include "weights/weights.h"

const char *mxw_vad_location(const char *model, const char *model_dir) {
    static _Thread_local char found[4096];
    mx_str path = {0};
    int there = mx_silero_locate(model, model_dir, &path) == MXW_OK && path.n < sizeof(found);
    if (there)
        snprintf(found, sizeof(found), "%s", mx_str_get(&path));
    mx_str_free(&path);
    return there ? found : NULL;
}
