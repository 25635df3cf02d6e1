/* lab/suspect.c - recomputes the ops of Whisper's stages correctly and with each known fault. A stage's name tells
 * which op computes it, from which stages and with which weights (docs/model.md). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "lab/suspect.h"

typedef enum kind { LINEAR, CONV, GELU, NORM, ATTENTION, ADD, POSITIONS, OTHER } kind;

/* One line per stage of a block: its op, inputs and weight; names are relative to the block. */
typedef struct recipe {
    const char *stage;
    kind kind;
    const char *input, *other;   /* "^": the block's input */
    const char *weight;
} recipe;

static const recipe encoder_block[] = {
    {"attn_ln", NORM, "^", NULL, "attn_ln"},
    {"attn.q", LINEAR, "attn_ln", NULL, "attn.query"},
    {"attn.k", LINEAR, "attn_ln", NULL, "attn.key"},
    {"attn.v", LINEAR, "attn_ln", NULL, "attn.value"},
    {"attn.heads", ATTENTION, "attn", NULL, NULL},
    {"attn", LINEAR, "attn.heads", NULL, "attn.out"},
    {"attn.residual", ADD, "^", "attn", NULL},
    {"mlp_ln", NORM, "attn.residual", NULL, "mlp_ln"},
    {"mlp.fc1", LINEAR, "mlp_ln", NULL, "mlp.0"},
    {"mlp.gelu", GELU, "mlp.fc1", NULL, NULL},
    {"mlp", LINEAR, "mlp.gelu", NULL, "mlp.2"},
    {"mlp.residual", ADD, "attn.residual", "mlp", NULL},
};
static const recipe decoder_block[] = {
    {"attn_ln", NORM, "^", NULL, "attn_ln"},
    {"attn.q", LINEAR, "attn_ln", NULL, "attn.query"},
    {"attn", LINEAR, "attn.heads", NULL, "attn.out"},
    {"attn.residual", ADD, "^", "attn", NULL},
    {"cross_attn_ln", NORM, "attn.residual", NULL, "cross_attn_ln"},
    {"cross_attn.q", LINEAR, "cross_attn_ln", NULL, "cross_attn.query"},
    {"cross_attn.heads", ATTENTION, "cross_attn", NULL, NULL},
    {"cross_attn", LINEAR, "cross_attn.heads", NULL, "cross_attn.out"},
    {"cross_attn.residual", ADD, "attn.residual", "cross_attn", NULL},
    {"mlp_ln", NORM, "cross_attn.residual", NULL, "mlp_ln"},
    {"mlp.fc1", LINEAR, "mlp_ln", NULL, "mlp.0"},
    {"mlp.gelu", GELU, "mlp.fc1", NULL, NULL},
    {"mlp", LINEAR, "mlp.gelu", NULL, "mlp.2"},
    {"mlp.residual", ADD, "cross_attn.residual", "mlp", NULL},
};

/* The inputs of a stage, by full names. */
typedef struct source {
    kind kind;
    char input[96], other[96], weight[96];
    char q[96], k[96], v[96];
    int heads;
} source;

static void name_in(char *out, const char *side, int block, const char *part) {
    if (strcmp(part, "^") != 0)
        snprintf(out, 96, "%s.blocks.%d.%s", side, block, part);
    else if (block > 0)
        snprintf(out, 96, "%s.blocks.%d.mlp.residual", side, block - 1);
    else
        snprintf(out, 96, "%s", strcmp(side, "encoder") == 0 ? "encoder.positions" : "decoder.embedding");
}

/* heads: "encoder decoder", of the run's notes. */
static int heads_of(const mx_features *f, int decoder) {
    int heads[2] = {0, 0};
    const char *told = mx_features_get_note(f, "heads");
    if (told)
        sscanf(told, "%d %d", &heads[0], &heads[1]);
    return heads[decoder];
}

static int find_block(const mx_suspect *s, source *out) {
    int block = -1, used = 0, decoder = strncmp(s->name, "decoder.", 8) == 0;
    const char *side = decoder ? "decoder" : "encoder";
    if (sscanf(s->name + 8, "blocks.%d.%n", &block, &used) < 1 || used == 0)
        return 0;
    const char *part = s->name + 8 + used;
    const recipe *table = decoder ? decoder_block : encoder_block;
    size_t n = decoder ? MX_COUNT(decoder_block) : MX_COUNT(encoder_block);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(table[i].stage, part) != 0)
            continue;
        char base[96];
        out->kind = table[i].kind;
        out->heads = heads_of(s->a, decoder);
        name_in(out->input, side, block, table[i].input);
        if (table[i].other)
            name_in(out->other, side, block, table[i].other);
        if (table[i].weight)
            name_in(out->weight, side, block, table[i].weight);
        name_in(base, side, block, table[i].input);
        if (out->kind == ATTENTION) {
            snprintf(out->q, sizeof(out->q), "%.90s.q", base);
            snprintf(out->k, sizeof(out->k), "%.90s.k", base);
            snprintf(out->v, sizeof(out->v), "%.90s.v", base);
        }
        return 1;
    }
    int keys = strcmp(part, "cross_attn.k") == 0;
    if (!decoder || (!keys && strcmp(part, "cross_attn.v") != 0))
        return 0;
    out->kind = LINEAR;
    snprintf(out->input, sizeof(out->input), "encoder.ln_post");
    name_in(out->weight, side, block, keys ? "cross_attn.key" : "cross_attn.value");
    return 1;
}

static int last_block(const mx_features *f, const char *side) {
    int n = 0;
    char name[96];
    for (;; n++) {
        snprintf(name, sizeof(name), "%s.blocks.%d.mlp.residual", side, n);
        if (!mx_features_find(f, name))
            return n - 1;
    }
}

static int find_source(const mx_suspect *s, source *out) {
    static const struct {
        const char *stage, *input, *weight;
        kind kind;
    } stem[] = {{"encoder.conv1", "mel", "encoder.conv1", CONV},
                {"encoder.gelu1", "encoder.conv1", "", GELU},
                {"encoder.conv2", "encoder.gelu1", "encoder.conv2", CONV},
                {"encoder.gelu2", "encoder.conv2", "", GELU},
                {"encoder.positions", "encoder.gelu2", "encoder.positional_embedding", POSITIONS},
                {"decoder.logits", "decoder.ln", "decoder.token_embedding", LINEAR}};
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < MX_COUNT(stem); i++)
        if (strcmp(stem[i].stage, s->name) == 0) {
            out->kind = stem[i].kind;
            snprintf(out->input, sizeof(out->input), "%s", stem[i].input);
            snprintf(out->weight, sizeof(out->weight), "%s", stem[i].weight);
            return 1;
        }
    if (strcmp(s->name, "encoder.ln_post") == 0) {
        out->kind = NORM;
        name_in(out->input, "encoder", last_block(s->a, "encoder"), "mlp.residual");
        snprintf(out->weight, sizeof(out->weight), "encoder.ln_post");
        return 1;
    }
    return strlen(s->name) > 8 && find_block(s, out);
}

/* ---- weights and rows -------------------------------------------------------------------------------------------- */

mx_stage_rows mx_stage_rows_of(const mx_features *f, const char *name) {
    const mx_stage *stage = mx_features_find(f, name);
    if (!stage || stage->tensor.dtype != MXW_F32 || stage->tensor.rank != 2)
        return (mx_stage_rows){0};
    return (mx_stage_rows){stage->tensor.data, stage->tensor.dims[0], stage->tensor.dims[1]};
}

static const float *weight_of(const mx_suspect *s, const char *name, const char *suffix, int64_t count) {
    char whole[128];
    mx_tensor t;
    snprintf(whole, sizeof(whole), "%s%s", name, suffix);
    int64_t i = s->weights ? mx_weights_index(s->weights, whole) : -1;
    if (i < 0 || mx_weights_tensor(s->weights, i, NULL, &t) < 0 || mx_tensor_count(&t) != count)
        return NULL;
    float *out = mx_arena_alloc(s->arena, (size_t)count * sizeof(*out));
    return out && mx_weights_read_f32(s->weights, i, out) >= 0 ? out : NULL;
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

/* guess = scale (x W^T, or x W read as its transpose) + bias_times b */
static void linear(mx_suspect *s, const mx_stage_rows *x, const float *w, const float *b, int transposed,
                   double bias_times) {
    int64_t in = x->width, out = s->right.width;
    for (int r = 0; r < s->n_rows; r++) {
        const float *row = x->data + s->rows[r] * in;
        for (int64_t o = 0; o < out; o++) {
            double sum = b ? bias_times * b[o] : 0;
            for (int64_t i = 0; i < in; i++)
                sum += (double)row[i] * w[transposed ? i * out + o : o * in + i];
            s->guess[r * out + o] = sum;
        }
    }
}

/* The cosine of the guess and the run's rows, without the bias if there is one. */
static double against(const mx_suspect *s, const float *bias) {
    double gg = 0, gw = 0, ww = 0;
    for (int r = 0; r < s->n_rows; r++)
        for (int64_t i = 0; i < s->right.width; i++) {
            double g = s->guess[r * s->right.width + i];
            double w = (double)s->wrong.data[s->rows[r] * s->right.width + i] - (bias ? (double)bias[i] : 0);
            gg += g * g, gw += g * w, ww += w * w;
        }
    return gg > 0 && ww > 0 ? gw / sqrt(gg * ww) : 0;
}

static void suspect_linear(mx_suspect *s, const source *from, const mx_stage_rows *x) {
    const float *w = weight_of(s, from->weight, ".weight", x->width * s->right.width);
    const float *b = weight_of(s, from->weight, ".bias", s->right.width);
    if (!w || x->n != s->right.n)
        return;
    linear(s, x, w, b, 1, 1);
    mx_suspect_offer(s, "transposed weight", "%s.weight was used as its transpose", from->weight);
    if (b) {
        linear(s, x, w, b, 0, 0);
        mx_suspect_offer(s, "missing bias", "%s.bias was left out", from->weight);
        linear(s, x, w, b, 0, 2);
        mx_suspect_offer(s, "bias", "%s.bias was added twice", from->weight);
    }
    linear(s, x, w, b, 0, 0);   /* the bias is the same in every row and would make any two runs similar */
    double cosine = against(s, b);
    if (s->error > 0.05 && fabs(cosine) < 0.5) {
        s->error = 0.05;
        s->fault = "foreign weight";
        snprintf(s->words, sizeof(s->words), "what comes out has little to do with what %s.weight gives (cosine %.3f), "
                 "in any order: other or random values stand in its place", from->weight, cosine);
    }
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

enum { AVERAGED, FLIPPED, SHIFTED };

static void convolve(mx_suspect *s, const mx_stage_rows *x, const float *w, const float *b, int64_t stride, int how) {
    int64_t in = x->width, out = s->right.width;
    for (int r = 0; r < s->n_rows; r++)
        for (int64_t o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (int tap = 0; tap < 3; tap++) {
                int64_t t = s->rows[r] * stride + tap - 1 + (how == SHIFTED);
                if (t < 0 || t >= x->n || (how == AVERAGED && tap != 1))
                    continue;
                for (int64_t i = 0; i < in; i++) {
                    const float *taps = w + (o * in + i) * 3;
                    double weight = how == AVERAGED ? ((double)taps[0] + taps[1] + taps[2]) / 3
                                  : how == FLIPPED  ? taps[2 - tap] : taps[tap];
                    sum += weight * x->data[t * in + i];
                }
            }
            s->guess[r * out + o] = sum;
        }
}

static void suspect_conv(mx_suspect *s, const source *from, const mx_stage_rows *x) {
    int64_t stride = s->right.n ? x->n / s->right.n : 0;
    const float *w = weight_of(s, from->weight, ".weight", x->width * s->right.width * 3);
    const float *b = weight_of(s, from->weight, ".bias", s->right.width);
    if (!w || stride < 1)
        return;
    convolve(s, x, w, b, stride, AVERAGED);
    mx_suspect_offer(s, "averaged kernel", "the three taps of %s.weight were averaged instead of convolved",
                     from->weight);
    convolve(s, x, w, b, stride, FLIPPED);
    mx_suspect_offer(s, "flipped kernel", "the taps of %s.weight run backwards", from->weight);
    convolve(s, x, w, b, stride, SHIFTED);
    mx_suspect_offer(s, "shift in time", "%s looks one frame too late: its padding is wrong", from->weight);
    if (b) {
        convolve(s, x, w, NULL, stride, -1);
        mx_suspect_offer(s, "missing bias", "%s.bias was left out", from->weight);
    }
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static void suspect_gelu(mx_suspect *s, const mx_stage_rows *x) {
    for (int tanh_form = 1; tanh_form >= 0; tanh_form--) {
        for (int r = 0; r < s->n_rows; r++)
            for (int64_t i = 0; i < x->width; i++) {
                double v = x->data[s->rows[r] * x->width + i];
                s->guess[r * x->width + i] =
                    tanh_form ? 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))) : fmax(v, 0);
            }
        if (tanh_form)
            mx_suspect_offer(s, "tanh GELU", "the tanh approximation of GELU stands where erf belongs");
        else
            mx_suspect_offer(s, "other activation", "ReLU stands where GELU belongs");
    }
}

static void suspect_norm(mx_suspect *s, const source *from, const mx_stage_rows *x) {
    const float *g = weight_of(s, from->weight, ".weight", x->width);
    const float *b = weight_of(s, from->weight, ".bias", x->width);
    for (int plain = 1; plain >= 0; plain--) {
        if (!plain && (!g || !b))
            return;
        for (int r = 0; r < s->n_rows; r++) {
            const float *row = x->data + s->rows[r] * x->width;
            double mean = 0, square = 0;
            for (int64_t i = 0; i < x->width; i++)
                mean += row[i] / (double)x->width;
            for (int64_t i = 0; i < x->width; i++)
                square += (plain ? (row[i] - mean) * (row[i] - mean) : (double)row[i] * row[i]) / (double)x->width;
            for (int64_t i = 0; i < x->width; i++)
                s->guess[r * x->width + i] = plain ? (row[i] - mean) / sqrt(square + 1e-5)
                                                   : row[i] / sqrt(square + 1e-5) * g[i] + b[i];
        }
        if (plain)
            mx_suspect_offer(s, "missing weight", "normalised, but without its weight and bias");
        else
            mx_suspect_offer(s, "other norm", "the mean was not taken away before the norm");
    }
}

/* softmax(q k^T scale) v of a sampled row, all heads. */
static void attend(mx_suspect *s, const mx_stage_rows *q, const mx_stage_rows *k, const mx_stage_rows *v, int heads,
                   double scale, double *p) {
    int64_t width = q->width, each = width / heads;
    for (int r = 0; r < s->n_rows; r++)
        for (int h = 0; h < heads; h++) {
            double top = -INFINITY, sum = 0, *out = s->guess + r * width + h * each;
            for (int64_t j = 0; j < k->n; j++) {
                p[j] = 0;
                for (int64_t i = h * each; i < (h + 1) * each; i++)
                    p[j] += (double)q->data[s->rows[r] * width + i] * k->data[j * width + i];
                p[j] *= scale;
                top = fmax(top, p[j]);
            }
            memset(out, 0, (size_t)each * sizeof(*out));
            for (int64_t j = 0; j < k->n; j++) {
                double e = exp(p[j] - top);
                sum += e;
                for (int64_t i = 0; i < each; i++)
                    out[i] += e * v->data[j * width + h * each + i];
            }
            for (int64_t i = 0; i < each; i++)
                out[i] /= sum;
        }
}

/* Searches the scale that explains the run best: powers of two, then finer. */
static void suspect_attention(mx_suspect *s, const source *from) {
    mx_stage_rows q = mx_stage_rows_of(s->a, from->q), k = mx_stage_rows_of(s->a, from->k);
    mx_stage_rows v = mx_stage_rows_of(s->a, from->v);
    double *p = mx_arena_alloc(s->arena, (size_t)MX_MAX(k.n, 1) * sizeof(*p));
    if (!q.data || !k.data || !v.data || !p || from->heads < 1 || q.width % from->heads || q.n != s->right.n ||
        k.width != q.width || v.width != q.width || v.n != k.n)
        return;
    double right = 1 / sqrt((double)(q.width / from->heads)), best = 0, least = INFINITY, step = 1;
    int n_rows = s->n_rows;
    s->n_rows = MX_MIN(n_rows, 6);   /* a search: a few rows are enough */
    for (double power = -6; power <= 6; power++) {
        attend(s, &q, &k, &v, from->heads, right * exp2(power), p);
        double e = mx_suspect_error(s);
        if (e < least)
            least = e, best = power;
    }
    for (int i = 0; i < 10; i++) {
        step /= 2;
        for (int sign = -1; sign <= 1; sign += 2) {
            attend(s, &q, &k, &v, from->heads, right * exp2(best + sign * step), p);
            double e = mx_suspect_error(s);
            if (e < least)
                least = e, best += sign * step, sign = 2;
        }
    }
    attend(s, &q, &k, &v, from->heads, right * exp2(best), p);
    if (fabs(best) > 0.01)
        mx_suspect_offer(s, "scale", "attention scores are scaled by %.6g instead of %.6g", right * exp2(best), right);
    s->n_rows = n_rows;
}

static void suspect_add(mx_suspect *s, const mx_stage_rows *x, const mx_stage_rows *y) {
    for (int which = 0; which < 2; which++) {
        const mx_stage_rows *only = which ? y : x;
        if (!only->data || only->width != s->right.width || only->n != s->right.n)
            continue;
        for (int r = 0; r < s->n_rows; r++)
            for (int64_t i = 0; i < only->width; i++)
                s->guess[r * only->width + i] = only->data[s->rows[r] * only->width + i];
        mx_suspect_offer(s, "missing operation", which ? "the residual was left out: only the branch came through"
                                                       : "the branch was left out: what went in came out");
    }
}

mxw_status mx_suspect_op(mx_suspect *s) {
    source from;
    mx_stage_rows none = {0};
    if (!find_source(s, &from)) {
        mx_suspect_fit(s, &none);
        return MXW_OK;
    }
    mx_stage_rows x = mx_stage_rows_of(s->a, from.input), y = mx_stage_rows_of(s->a, from.other);
    if (x.data && from.kind != ATTENTION) {
        switch (from.kind) {
        case LINEAR: suspect_linear(s, &from, &x); break;
        case CONV: suspect_conv(s, &from, &x); break;
        case GELU: suspect_gelu(s, &x); break;
        case NORM: suspect_norm(s, &from, &x); break;
        case ADD: suspect_add(s, &x, &y); break;
        default: break;
        }
    }
    if (from.kind == ATTENTION)
        suspect_attention(s, &from);
    mx_suspect_fit(s, &x);
    return MXW_OK;
}
