/* op/infer_fused.c - inference of fused ops: that of the plain ops they replace, one after the other. */
#include "op/infer.h"

/* Infers the plain op on these inputs into *out. Messages name the fused op. */
static mxw_status part(mx_infer *f, mx_infer_fn infer, const mx_type *const *inputs, int n, mx_type *out) {
    mx_infer plain = {.op = f->op, .attrs = f->attrs, .n_inputs = n, .in = inputs, .out = out, .names = f->names};
    return infer(&plain);
}

static const mx_type *input(const mx_infer *f, int i) { return i < f->n_inputs ? f->in[i] : NULL; }

/* x, normed if there is a gamma. */
static mxw_status norm(mx_infer *f, int gamma, mx_type *x) {
    const mx_type *in[] = {f->in[0], input(f, gamma), input(f, gamma + 1)};
    *x = *f->in[0];
    if (!in[1] != !in[2])
        return mx_infer_bad(f, "gamma without beta: expected both or none");
    return in[1] ? part(f, mx_infer_LAYER_NORM, in, 3, x) : MXW_OK;
}

static mxw_status act_and_residual(mx_infer *f, const mx_type *residual) {
    const mx_type *out = f->out;
    int64_t agreed;
    if (f->attrs->act < MX_ACT_NONE || f->attrs->act > MX_ACT_GELU_TANH)
        return mx_infer_bad(f, "act is %d: expected none, gelu erf or gelu tanh", f->attrs->act);
    if (!residual)
        return MXW_OK;
    int fits = residual->dtype == MXW_F32 && residual->rank >= 1 && residual->rank <= out->rank;
    for (int i = 1; fits && i <= residual->rank; i++)
        fits = mx_infer_same(residual->dims[residual->rank - i], out->dims[out->rank - i], &agreed);
    if (!fits)
        return mx_infer_bad(f, "residual is %s: expected the last axes of %s", mx_infer_type(f, residual),
                            mx_infer_type(f, out));
    return MXW_OK;
}

mxw_status mx_infer_FUSED_LINEAR(mx_infer *f) {
    mxw_status status;
    mx_type x;
    MX_TRY(norm(f, 4, &x));
    const mx_type *in[] = {&x, f->in[1], input(f, 2)};
    MX_TRY(part(f, mx_infer_LINEAR, in, 3, f->out));
    status = act_and_residual(f, input(f, 3));
out:
    return status;
}

mxw_status mx_infer_FUSED_CONV1D(mx_infer *f) {
    const mx_type *in[] = {f->in[0], f->in[1], input(f, 2)};
    mxw_status status = part(f, mx_infer_CONV1D, in, 3, f->out);
    return status < 0 ? status : act_and_residual(f, input(f, 3));
}

mxw_status mx_infer_FUSED_SELECT(mx_infer *f) {
    mxw_status status;
    mx_type x, logits;
    MX_TRY(norm(f, 4, &x));
    const mx_type *in[] = {&x, f->in[1]};
    MX_TRY(part(f, mx_infer_LINEAR, in, 2, &logits));
    const mx_type *of_select[] = {&logits, f->in[2], f->in[3]};
    status = part(f, mx_infer_SELECT, of_select, 3, f->out);
out:
    return status;
}
