/* lab/compare.c - compares two runs stage by stage: the difference, and whether rounding explains it.
 *
 * The bound. Both runs compute the same sums in f32 in different orders, so each stage adds a relative error of some
 * units of 2^-24 with random signs, and propagates those of earlier stages, which residuals and norms neither amplify
 * nor damp much: growth with the square root of the number of stages. We allow 128 units times that (measured: less
 * than a tenth of it, see docs/lab.md); in f16 4 units of 2^-11, in int8 8 of 2^-8, in f8 2 of 2^-4. Ids, windows,
 * tokens and text must be equal, except in 8 bits, where they are shown and not judged; candidates whose log
 * probabilities differ by less than the logits' own difference may be swapped. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "lab/lab.h"

#define MEL_BOUND 1e-4          /* error of another library's f32 log-mel */

typedef struct rounding {
    const char *precision;
    double unit;       /* what a factor is off at most, of its value; in int8, of the largest of its row */
    double a_stage;    /* units that a stage may add */
    int may_differ;    /* another token may win, and all after it follows */
} rounding;

static const rounding roundings[] = {
    {"exact", 0x1p-24, 128, 0},
    {"f16", 0x1p-11, 4, 0},
    {"int8", 0x1p-8, 8, 1},   /* to one of 255 or 256 steps */
    {"f8", 0x1p-4, 2, 1},     /* e4m3 */
};

/* Of the decoder's rows; cross keys and values belong to the window. */
static int is_decoder_stage(const char *name) {
    return strncmp(name, "decoder.", 8) == 0 && !strstr(name, "cross_attn.k") && !strstr(name, "cross_attn.v");
}

static const char *keep_text(mx_arena *arena, const char *text) {
    const char *copy = mx_arena_strdup(arena, text);
    return copy ? copy : "";
}

static int same_shape(const mx_tensor *a, const mx_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof(*a->dims)) == 0;
}

/* The differences of two f32 stages of the same shape. */
static void measure(const mx_stage *x, const mx_stage *y, mxw_difference *d) {
    const float *a = x->tensor.data, *b = y->tensor.data;
    int64_t n = mx_tensor_count(&x->tensor), n_odd = 0, n_used = 0;
    double ab = 0, aa = 0, bb = 0, dd = 0, abs_sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) {   /* -inf means no candidate */
            n_odd += !(a[i] == b[i]);
            continue;
        }
        double delta = (double)b[i] - a[i];
        ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
        dd += delta * delta;
        abs_sum += fabs(delta);
        d->max_abs = fmax(d->max_abs, fabs(delta));
        n_used++;
    }
    d->cosine = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa == bb;
    d->l2 = n_odd ? INFINITY : sqrt(dd);
    d->relative = n_odd ? INFINITY : aa > 0 ? sqrt(dd / aa) : dd > 0 ? INFINITY : 0;
    d->mean_abs = n_used ? abs_sum / (double)n_used : 0;
    d->mean_shift = y->info.mean - x->info.mean;
    d->std_ratio = x->info.std > 0 ? y->info.std / x->info.std : y->info.std > 0 ? INFINITY : 1;
}

/* Integers: the fraction that differs. */
static void count(const mx_stage *x, const mx_stage *y, mxw_difference *d) {
    size_t size = mx_dtype_bytes(x->tensor.dtype);
    int64_t n = mx_tensor_count(&x->tensor), n_other = 0;
    for (int64_t i = 0; i < n; i++)
        n_other += memcmp((const char *)x->tensor.data + (size_t)i * size,
                          (const char *)y->tensor.data + (size_t)i * size, size) != 0;
    d->relative = n ? (double)n_other / (double)n : 0;
    d->cosine = n_other ? 1 - d->relative : 1;
    d->mean_shift = y->info.mean - x->info.mean;
    d->std_ratio = x->info.std > 0 ? y->info.std / x->info.std : 1;
    d->max_abs = n_other ? 1 : 0;
}

/* Whether best ids differ although the best was ahead by more than the logits' error. */
static int candidates_differ(const mx_features *a, const mx_features *b, const mx_stage *x, const mx_stage *y) {
    const mx_stage *p = mx_features_find(a, "decoder.candidates.logprobs");
    const mx_stage *l = mx_features_find(a, "decoder.logits"), *m = mx_features_find(b, "decoder.logits");
    double slack = 1e-3;   /* if the logits of one run are missing */
    if (l && m && same_shape(&l->tensor, &m->tensor)) {
        mxw_difference d = {0};
        measure(l, m, &d);
        slack = 2 * d.max_abs;
    }
    if (!p || p->tensor.rank != 2 || x->tensor.rank != 2 || p->tensor.dims[0] != x->tensor.dims[0])
        return 1;
    int64_t k = x->tensor.dims[1], kp = p->tensor.dims[1];
    for (int64_t i = 0; i < x->tensor.dims[0] && k > 1 && kp > 1; i++) {
        const float *lp = (const float *)p->tensor.data + i * kp;
        if (((const int32_t *)x->tensor.data)[i * k] != ((const int32_t *)y->tensor.data)[i * k] &&
            lp[0] - lp[1] > slack)
            return 1;
    }
    return 0;
}

static const rounding *rounding_of(const mx_features *f) {
    const char *precision = mx_features_get_note(f, "precision");
    for (size_t i = 1; precision && i < MX_COUNT(roundings); i++)
        if (strcmp(precision, roundings[i].precision) == 0)
            return &roundings[i];
    return &roundings[0];
}

/* The bound of a stage with that many stages before it. */
static double bound_of(const mx_features *b, const char *name, size_t depth) {
    const rounding *of = rounding_of(b);
    return strcmp(name, "mel") == 0 ? MEL_BOUND : of->unit * of->a_stage * sqrt((double)(depth + 1));
}

/* What a run decides for itself. */
static int is_decoded(const char *name) {
    return strcmp(name, "decoder.candidates.ids") == 0 || strcmp(name, "window.tokens") == 0 ||
           strncmp(name, "recording.", 10) == 0;
}

static mxw_status compare_stage(mx_comparison *c, const mx_stage *x, size_t depth, int same_tokens) {
    mxw_difference *d = &c->rows[c->n++];
    const mx_stage *y = mx_features_find(c->b, x->name);
    *d = (mxw_difference){.name = x->name, .cosine = NAN, .l2 = NAN, .relative = NAN, .mean_abs = NAN, .max_abs = NAN,
                          .mean_shift = NAN, .std_ratio = NAN};
    if (!y) {
        d->apart = "only in the first";
        return MXW_OK;
    }
    if (!same_tokens && is_decoder_stage(x->name)) {
        d->apart = "forced over other tokens";
        return MXW_OK;
    }
    if (!same_shape(&x->tensor, &y->tensor)) {
        char text[240], p[96], q[96];
        mx_tensor_describe(&x->tensor, p, sizeof(p));
        mx_tensor_describe(&y->tensor, q, sizeof(q));
        snprintf(text, sizeof(text), "%s and %s", p, q);
        d->apart = keep_text(&c->arena, text);
        d->bad = !(rounding_of(c->b)->may_differ && is_decoded(x->name));
        return MXW_OK;
    }
    d->max_abs = d->mean_abs = d->l2 = 0;
    if (x->tensor.dtype == MXW_F32) {
        measure(x, y, d);
        d->bound = bound_of(c->b, x->name, depth);
    } else {
        count(x, y, d);
    }
    d->bad = !(d->relative <= d->bound) && !(rounding_of(c->b)->may_differ && is_decoded(x->name));
    if (d->bad && strcmp(x->name, "decoder.candidates.ids") == 0)   /* never in 8 bits */
        d->bad = candidates_differ(c->a, c->b, x, y);
    return MXW_OK;
}

static int tokens_agree(const mx_features *a, const mx_features *b) {
    const mx_stage *x = mx_features_find(a, "window.tokens"), *y = mx_features_find(b, "window.tokens");
    return !x || !y || (same_shape(&x->tensor, &y->tensor) &&
                        memcmp(x->tensor.data, y->tensor.data, mx_tensor_bytes(&x->tensor)) == 0);
}

mxw_status mx_comparison_open(const mx_features *a, const mx_features *b, mx_comparison **out) {
    mxw_status status = MXW_OK;
    mx_comparison *c = mx_alloc_zero(1, sizeof(*c));
    int same_tokens = tokens_agree(a, b);
    if (!c)
        return MXW_E_MEMORY;
    c->a = a;
    c->b = b;
    c->rows = mx_arena_alloc(&c->arena, (a->n + b->n + 1) * sizeof(*c->rows));
    if (!c->rows) {
        mx_comparison_close(c);
        return MXW_E_MEMORY;
    }
    for (size_t i = 0; i < a->n && status >= 0; i++)
        status = compare_stage(c, &a->stages[i], i, same_tokens);
    const char *p = mx_features_get_note(a, "text"), *q = mx_features_get_note(b, "text");
    if (p && q) {
        int equal = strcmp(p, q) == 0;
        c->rows[c->n++] = (mxw_difference){.name = "recording.text", .cosine = equal, .l2 = NAN, .mean_abs = NAN,
                                           .max_abs = NAN, .mean_shift = NAN, .std_ratio = 1,
                                           .relative = !equal, .bad = !equal && !rounding_of(b)->may_differ};
    }
    for (size_t i = 0; i < b->n && status >= 0; i++)
        if (!mx_features_find(a, b->stages[i].name))
            c->rows[c->n++] = (mxw_difference){.name = b->stages[i].name, .apart = "only in the second",
                                               .cosine = NAN, .l2 = NAN, .relative = NAN, .mean_abs = NAN,
                                               .max_abs = NAN, .mean_shift = NAN, .std_ratio = NAN};
    *out = c;
    return status;
}

void mx_comparison_close(mx_comparison *c) {
    if (!c)
        return;
    mx_arena_free(&c->arena);
    mx_free(c);
}
