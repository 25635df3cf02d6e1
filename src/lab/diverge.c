/* lab/diverge.c - finds the first stage that diverges, and the fault that explains it.
 * Invariants: no finding without a stage beyond its bound; a fault is named only if it explains the values far better
 * than the correct op does. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "lab/suspect.h"

#define EXPLAINS 0.1       /* a good explanation leaves at most this fraction of the difference between the two runs */

double mx_suspect_error(const mx_suspect *s) {
    double left = 0, size = 0;
    for (int r = 0; r < s->n_rows; r++)
        for (int64_t i = 0; i < s->right.width; i++) {
            double w = s->wrong.data[s->rows[r] * s->right.width + i], d = s->guess[r * s->right.width + i] - w;
            left += d * d, size += w * w;
        }
    return size > 0 ? sqrt(left / size) : left > 0 ? INFINITY : 0;
}

void mx_suspect_offer(mx_suspect *s, const char *fault, const char *format, ...) {
    double error = mx_suspect_error(s);
    va_list args;
    if (!(error < s->error))
        return;
    s->error = error;
    s->fault = fault;
    va_start(args, format);
    int n = vsnprintf(s->words, sizeof(s->words), format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof(s->words))
        snprintf(s->words + n, sizeof(s->words) - (size_t)n, " (which leaves %.2g of it unexplained)", error);
}

/* Samples rows over the stage, among those that differ. */
static mxw_status open_suspect(mx_suspect *s) {
    s->n_rows = (int)MX_MIN(s->right.n, MX_SUSPECT_ROWS);
    for (int r = 0; r < s->n_rows; r++)
        s->rows[r] = (2 * r + 1) * s->right.n / (2 * s->n_rows);
    s->guess = mx_arena_alloc(s->arena, (size_t)(s->n_rows * s->right.width + 1) * sizeof(*s->guess));
    if (!s->guess)
        return MXW_E_MEMORY;
    for (int r = 0; r < s->n_rows; r++)
        for (int64_t i = 0; i < s->right.width; i++)
            s->guess[r * s->right.width + i] = s->right.data[s->rows[r] * s->right.width + i];
    return MXW_OK;
}

/* The recording: missing windows. */
static void suspect_windows(mx_suspect *s, const mx_features *a, const mx_features *b) {
    const mx_stage *x = mx_features_find(a, "recording.windows"), *y = mx_features_find(b, "recording.windows");
    int64_t n = x ? mx_tensor_count(&x->tensor) : 0, m = y ? mx_tensor_count(&y->tensor) : 0;
    int prefix = m < n && m > 0 && memcmp(x->tensor.data, y->tensor.data, (size_t)m * sizeof(int32_t)) == 0;
    s->fault = prefix && m == 1 ? "first window only" : prefix ? "missing windows" : "other windows";
    snprintf(s->words, sizeof(s->words), prefix ? "text comes from %lld of %lld windows: what was said after the first "
             "%.4g s is missing" : "text comes from %lld windows, not from the same %lld", (long long)m, (long long)n,
             prefix ? ((const int32_t *)x->tensor.data)[m] / 100.0 : 0.0);
}

static void suspect_not_finite(mx_suspect *s, const mx_stage *y) {
    s->fault = "not finite";
    snprintf(s->words, sizeof(s->words), "%lld of %lld values are not finite: an overflow, or memory never written",
             (long long)y->info.n_not_finite, (long long)mx_tensor_count(&y->tensor));
}

/* No explanation: small and everywhere, or large. */
static void conclude(mx_suspect *s, double apart, double cosine) {
    if (s->fault && s->error <= EXPLAINS * apart)
        return;
    if (s->fault && strcmp(s->fault, "foreign weight") == 0)
        return;
    if (apart < 0.02) {
        s->fault = "precision";
        snprintf(s->words, sizeof(s->words), "the same values less exactly (relative error %.3g, cosine %.9f), with no "
                 "scale, offset or shift in it: fewer bits, or an op that rounds more", apart, cosine);
        return;
    }
    s->fault = "unknown";
    snprintf(s->words, sizeof(s->words), "neither a scale, an offset, a shift, a transposition, a permutation nor a "
             "missing operation explains it (relative error %.3g, cosine %.4f)", apart, cosine);
}

static mxw_status explain(mx_comparison *c, const mxw_difference *d, const mx_weights *weights, mx_suspect *s) {
    const mx_stage *x = mx_features_find(c->a, d->name), *y = mx_features_find(c->b, d->name);
    mxw_status status;
    *s = (mx_suspect){.name = d->name, .right = mx_stage_rows_of(c->a, d->name),
                      .wrong = mx_stage_rows_of(c->b, d->name),
                      .a = c->a, .b = c->b, .weights = weights, .arena = &c->arena, .error = INFINITY};
    if (strncmp(d->name, "recording.", 10) == 0) {
        suspect_windows(s, c->a, c->b);
    } else if (y && x && y->info.n_not_finite > x->info.n_not_finite) {
        suspect_not_finite(s, y);
    } else if (strcmp(d->name, "window.tokens") == 0 || strncmp(d->name, "decoder.candidates", 18) == 0) {
        s->fault = "decoding";
        snprintf(s->words, sizeof(s->words), "the same logits became other tokens: rules, search or ties");
    } else if (d->apart) {
        if (!mx_suspect_stride(s)) {
            s->fault = "other sizes";
            snprintf(s->words, sizeof(s->words), "%s", d->apart);
        }
    } else if (s->right.data && s->wrong.data) {
        MX_TRY(open_suspect(s));
        if (strcmp(d->name, "mel") == 0)
            mx_suspect_mel(s);
        else
            MX_TRY(mx_suspect_op(s));
        if (!s->fault || strcmp(s->fault, "other mel") != 0)
            conclude(s, d->relative, d->cosine);
    } else {
        s->fault = "unknown";
        snprintf(s->words, sizeof(s->words), "relative error %.3g", d->relative);
    }
    status = MXW_OK;
out:
    return status;
}

mxw_status mx_comparison_diagnose(mx_comparison *c, const mx_weights *weights, mxw_finding *finding) {
    *finding = (mxw_finding){.index = -1};
    for (size_t i = 0; i < c->n; i++) {
        mx_suspect s;
        if (!c->rows[i].bad)
            continue;
        mxw_status status = explain(c, &c->rows[i], weights, &s);
        if (status < 0)
            return status;
        finding->index = (int64_t)i;
        finding->stage = c->rows[i].name;
        finding->fault = s.fault;
        finding->explanation = mx_arena_strdup(&c->arena, s.words);
        return finding->explanation ? MXW_OK : MXW_E_MEMORY;
    }
    return MXW_OK;
}
