/* api/hub.c - the public functions that find and fetch models, over weights/ and hub/. */
#include <stdio.h>

#include "api/api.h"
#include "base/base.h"
#include "hub/hub.h"
#include "weights/weights.h"

const char *mxw_model_dir(const char *option) { return mx_model_dir(option); }

const char *mxw_model_location(int index, const char *model_dir, int which, const char **source) {
    static _Thread_local char found[4096];
    const mx_released *r = mx_released_get(index);
    const char *whose = NULL, *place = NULL;
    mx_str path = {0};
    if (r && which >= 0 && mx_model_find(r, model_dir, which, &path, &whose) == MXW_OK && path.n < sizeof(found)) {
        snprintf(found, sizeof(found), "%s", mx_str_get(&path));
        place = found;
    }
    mx_str_free(&path);
    if (source)
        *source = place ? whose : NULL;
    return place;
}

const char *mxw_model_name(int index, const char *model_dir, const char **path) {
    const mx_released *r = mx_released_get(index);
    if (path)
        *path = r ? mxw_model_location(index, model_dir, 0, NULL) : NULL;
    return r ? r->name : NULL;
}

void (mxw_fetch_options_default)(mxw_fetch_options *options, size_t struct_size) {
    const mxw_fetch_options full = {0};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

mxw_status mxw_model_fetch(const char *name, const mxw_fetch_options *options, char *path, size_t n) {
    MX_NEED(name, MXW_E_ARGUMENT);
    mxw_fetch_options full;
    mx_str where = {0};
    mxw_fetch_options_default(&full);
    if (options) {
        mxw_status status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_fetch_options");
        if (status < 0)
            return status;
    }
    mxw_status status = mx_hub_fetch(name, &full, &where);
    if (status == MXW_OK && path && where.n >= n)
        status = mx_fail(MXW_E_ARGUMENT, "%s: the path has %zu bytes, room was given for %zu", __func__, where.n + 1,
                         n);
    else if (status == MXW_OK && path)
        memcpy(path, mx_str_get(&where), where.n + 1);
    mx_str_free(&where);
    return status;
}
