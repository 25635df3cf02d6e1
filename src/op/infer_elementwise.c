/* op/infer_elementwise.c - inference of the ops of elementwise.def: an f32 of any shape, and another one like it. */
#include "op/infer.h"

#include <float.h>
#include <math.h>

static mxw_status infer(mx_infer *f, const char *parameter) {
    mxw_status status = mx_infer_want_dtype(f, 0, "x", MXW_F32);
    if (status < 0)
        return status;
    if (parameter && !(fabs(f->attrs->parameter) <= FLT_MAX))
        return mx_infer_bad(f, "%s is %g: expected a finite number", parameter, f->attrs->parameter);
    f->out[0] = *f->in[0];
    return MXW_OK;
}

#define MX_ELEMENTWISE(id, name, ...)                                                                                  \
    mxw_status mx_infer_##id(mx_infer *f) { return infer(f, NULL); }
#define MX_ELEMENTWISE_WITH(id, name, parameter, ...)                                                                  \
    mxw_status mx_infer_##id(mx_infer *f) { return infer(f, #parameter); }
#include "op/elementwise.def"
