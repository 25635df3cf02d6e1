/* vad/network.c - Silero's network as a graph: magnitudes of an STFT, four convolutions with relu, an LSTM, a sigmoid.
 *
 * A chunk is so short that many taps of the convolutions meet only padding: they are written as products of the frames
 * that are there. Constants are laid out here, once. */
#include "vad/network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "vad/stft.h"

/* ---- constants from weights ------------------------------------------------------------------------------------- */

enum { MAX_WEIGHTS = 16 };

/* A weight in f32. */
typedef struct loaded {
    const char *name;
    mx_tensor shape;         /* its data is elsewhere */
    float *values;
} loaded;

typedef struct builder {
    mx_graph *g;
    const mx_vad_network *network;
    int64_t bins;
    loaded weights[MAX_WEIGHTS];
    int n_weights;
    mxw_status status;       /* E_MEMORY outside of the graph, which keeps its own */
} builder;

static mxw_status load(loaded *to, const mx_weights *weights, int64_t i) {
    mxw_tensor_info info;
    mxw_status status = mx_weights_tensor(weights, i, &info, &to->shape);
    if (status < 0)
        return status;
    to->name = info.name;
    to->values = mx_alloc_array((size_t)mx_tensor_count(&to->shape), sizeof(*to->values));
    if (!to->values)
        return MXW_E_MEMORY;
    mx_tensor_to_f32(&to->shape, to->values);
    for (int64_t k = 0; k < mx_tensor_count(&to->shape); k++)
        if (!isfinite(to->values[k]))
            return mx_fail(MXW_E_FORMAT, "tensor %s: element %lld is not finite", to->name, (long long)k);
    return MXW_OK;
}

static const loaded *find(const builder *b, const char *name) {
    int i = 0;
    while (strcmp(b->weights[i].name, name) != 0)   /* the names of silero.def are all there once it is open */
        i++;
    return &b->weights[i];
}

static mx_value constant(builder *b, const char *name, int rank, const int64_t *dims, float *values) {
    mx_tensor t = mx_tensor_of(MXW_F32, rank, dims, values);
    return mx_graph_constant(b->g, name, &t);
}

/* A weight as it is, under other sizes. */
static mx_value whole(builder *b, const char *name, int rank, const int64_t *dims) {
    return constant(b, name, rank, dims, find(b, name)->values);
}

static float *room_for(builder *b, int64_t n) {
    float *values = mx_alloc_array((size_t)n, sizeof(*values));
    if (!values)
        b->status = MXW_E_MEMORY;
    return values;
}

/* Taps first .. first + taps of the first convolution, as the weight of a linear over frames side by side: [out][tap]
 * [in], its channels in the order of the STFT's results. */
static mx_value taps_of(builder *b, const char *as, int64_t first, int64_t taps, const int32_t *channels) {
    const loaded *w = find(b, "conv1.weight");
    int64_t out = w->shape.dims[0], in = w->shape.dims[1];
    float *to = room_for(b, out * in * taps);
    for (int64_t o = 0; o < out && to; o++)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t i = 0; i < in; i++)
                to[(o * taps + t) * in + i] = w->values[(o * in + channels[i]) * 3 + first + t];
    mx_value v = to ? constant(b, as, 2, (int64_t[]){out, taps * in}, to) : 0;
    mx_free(to);
    return v;
}

/* Another convolution, of width 3 and padded by 1, as the weight of a linear over all its frames: [out * frames_out]
 * [in * frames], frames of a channel side by side. Its sums then run over the weights as they lie in the file, which is
 * the order of onnxruntime: where large terms cancel, as they do in the second one, rounding alone would be 1e-5 of a
 * probability. */
static mx_value dense(builder *b, const char *name, int64_t frames, int64_t stride) {
    const loaded *w = find(b, name);
    int64_t out = w->shape.dims[0], in = w->shape.dims[1], frames_out = (frames - 1) / stride + 1;
    float *to = room_for(b, out * frames_out * in * frames), *at = to;
    for (int64_t row = 0; row < out * frames_out && to; row++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t f = 0; f < frames; f++) {
                int64_t tap = f - row % frames_out * stride + 1;
                *at++ = tap >= 0 && tap < 3 ? w->values[(row / frames_out * in + i) * 3 + tap] : 0;
            }
    mx_value v = to ? constant(b, name, 2, (int64_t[]){out * frames_out, in * frames}, to) : 0;
    mx_free(to);
    return v;
}

/* Its bias, for each frame of a channel. */
static mx_value dense_bias(builder *b, const char *name, int64_t frames) {
    const loaded *w = find(b, name);
    int64_t out = w->shape.dims[0];
    float *to = room_for(b, out * frames);
    for (int64_t i = 0; i < out * frames && to; i++)
        to[i] = w->values[i / frames];
    mx_value v = to ? constant(b, name, 1, (int64_t[]){out * frames}, to) : 0;
    mx_free(to);
    return v;
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static mx_value magnitude(mx_graph *g, mx_value re, mx_value im) {
    return mx_graph_sqrt(g, mx_graph_add(g, mx_graph_mul(g, re, re), mx_graph_mul(g, im, im)));
}

static mx_value frames_input(builder *b, int64_t chunks, int i) {
    const mx_vad_input *in = &b->network->inputs[i];
    return mx_graph_input(b->g, in->name, MXW_F32, 3, (int64_t[]){chunks, MX_VAD_FRAMES, in->width});
}

/* The basis as it is: [chunks, frames, bins]. */
static mx_value plain_stft(builder *b, int64_t chunks) {
    int64_t window = b->network->window;
    mx_value basis = whole(b, "stft.weight", 2, (int64_t[]){2 * b->bins, window});
    mx_value y = mx_graph_linear(b->g, frames_input(b, chunks, 0), basis, 0);
    return magnitude(b->g, mx_graph_slice(b->g, y, 2, 0, b->bins, 1),
                     mx_graph_slice(b->g, y, 2, b->bins, 2 * b->bins, 1));
}

/* The same from folded frames, even frequencies before odd ones. */
static mx_value folded_stft(builder *b, int64_t chunks) {
    mx_value part[MX_VAD_MAX_INPUTS];
    for (int i = 0; i < MX_VAD_MAX_INPUTS; i++) {
        const mx_vad_input *in = &b->network->inputs[i];
        int64_t outputs = mx_vad_fold_outputs(b->network->window, i);
        float *basis = room_for(b, outputs * in->width);
        if (!basis)
            return 0;
        mx_vad_fold_basis(b->network->window, i, basis);
        char name[32];
        snprintf(name, sizeof(name), "stft.%s", in->name);
        mx_value weight = constant(b, name, 2, (int64_t[]){outputs, in->width}, basis);
        part[i] = mx_graph_linear(b->g, frames_input(b, chunks, i), weight, 0);
        mx_free(basis);
    }
    mx_value both[] = {magnitude(b->g, part[MX_FOLD_COS_EVEN], part[MX_FOLD_SIN_EVEN]),
                       magnitude(b->g, part[MX_FOLD_COS_ODD], part[MX_FOLD_SIN_ODD])};
    return mx_graph_concat(b->g, both, 2, 2);
}

/* relu(linear(frames first .. first + n of x)), frames side by side in x */
static mx_value layer(builder *b, mx_value x, int64_t first, int64_t n, mx_value weight, mx_value bias) {
    mx_value part = mx_graph_slice(b->g, x, 1, first * b->bins, (first + n) * b->bins, 1);
    return mx_graph_relu(b->g, mx_graph_linear(b->g, part, weight, bias));
}

/* [chunks, frames * bins] -> [chunks, 128]. Convolutions of width 3, padded by 1: strides 1, 2, 2, 1 leave 4, 2, 1 and
 * 1 frames. The first one, half of all products, multiplies only the frames that it needs. */
static mx_value encoder(builder *b, mx_value x, int64_t chunks, const int32_t *channels) {
    static const struct {
        const char *weight, *bias;
        int64_t frames, stride;
    } rest[] = {{"conv2.weight", "conv2.bias", 4, 2}, {"conv3.weight", "conv3.bias", 2, 2},
                {"conv4.weight", "conv4.bias", 1, 1}};
    mx_value bias = whole(b, "conv1.bias", 1, (int64_t[]){128}), inner = taps_of(b, "conv1.inner", 0, 3, channels);
    mx_value first = taps_of(b, "conv1.first", 1, 2, channels), last = taps_of(b, "conv1.last", 0, 2, channels);
    mx_value one[] = {layer(b, x, 0, 2, first, bias), layer(b, x, 0, 3, inner, bias), layer(b, x, 1, 3, inner, bias),
                      layer(b, x, 2, 2, last, bias)};
    x = mx_graph_reshape(b->g, mx_graph_concat(b->g, one, 4, 1), 3, (int64_t[]){chunks, MX_VAD_FRAMES, 128});
    x = mx_graph_permute(b->g, x, (int[]){0, 2, 1});
    x = mx_graph_reshape(b->g, x, 2, (int64_t[]){chunks, MX_VAD_FRAMES * 128});
    for (size_t i = 0; i < MX_COUNT(rest); i++) {
        mx_value weight = dense(b, rest[i].weight, rest[i].frames, rest[i].stride);
        mx_value added = dense_bias(b, rest[i].bias, (rest[i].frames - 1) / rest[i].stride + 1);
        x = mx_graph_relu(b->g, mx_graph_linear(b->g, x, weight, added));
    }
    return x;
}

static mx_value decoder(builder *b, mx_value x, int64_t chunks, mx_value out[3]) {
    const int64_t hidden = MX_VAD_HIDDEN, gates = 4 * hidden;
    mx_value wi = whole(b, "lstm.weight_ih", 3, (int64_t[]){1, gates, 128});
    mx_value wh = whole(b, "lstm.weight_hh", 3, (int64_t[]){1, gates, hidden});
    mx_value bi = whole(b, "lstm.bias_ih", 2, (int64_t[]){1, gates});
    mx_value bh = whole(b, "lstm.bias_hh", 2, (int64_t[]){1, gates});
    mx_value h = mx_graph_input(b->g, "h", MXW_F32, 3, (int64_t[]){1, 1, hidden});
    mx_value c = mx_graph_input(b->g, "c", MXW_F32, 3, (int64_t[]){1, 1, hidden});
    if (mx_graph_lstm(b->g, x, wi, wh, bi, bh, h, c, MXW_LSTM_FORWARD, out) < 0)
        return 0;
    mx_value y = mx_graph_relu(b->g, mx_graph_reshape(b->g, out[0], 2, (int64_t[]){chunks, hidden}));
    mx_value weight = whole(b, "output.weight", 2, (int64_t[]){1, hidden});
    return mx_graph_sigmoid(b->g, mx_graph_linear(b->g, y, weight, whole(b, "output.bias", 1, (int64_t[]){1})));
}

static mxw_status build_encoder(builder *b) {
    mxw_status status;
    int32_t order[129];
    int64_t chunks = mx_graph_size(b->g, "chunks", MX_VAD_RUN_CHUNKS), bins = b->bins;
    for (int32_t i = 0; i < bins; i++)   /* even frequencies, then odd ones */
        order[i] = b->network->folded ? (i <= bins / 2 ? 2 * i : 2 * (i - (int32_t)bins / 2) - 1) : i;
    mx_value x = b->network->folded ? folded_stft(b, chunks) : plain_stft(b, chunks);
    x = mx_graph_reshape(b->g, x, 2, (int64_t[]){chunks, MX_VAD_FRAMES * bins});
    x = encoder(b, x, chunks, order);
    MX_TRY(b->status);
    MX_TRY(mx_graph_output(b->g, "features", x));
    status = mx_graph_status(b->g);
out:
    return status;
}

static mxw_status build_decoder(builder *b) {
    mxw_status status;
    mx_value lstm[3] = {0};
    int64_t chunks = mx_graph_size(b->g, "chunks", MX_VAD_RUN_CHUNKS);
    mx_value x = mx_graph_input(b->g, "features", MXW_F32, 3, (int64_t[]){chunks, 1, MX_VAD_HIDDEN});
    mx_value p = decoder(b, x, chunks, lstm);
    MX_TRY(b->status);
    MX_TRY(mx_graph_output(b->g, "probability", p));
    MX_TRY(mx_graph_output(b->g, "h_after", lstm[1]));
    MX_TRY(mx_graph_output(b->g, "c_after", lstm[2]));
    status = mx_graph_status(b->g);
out:
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void choose_stft(mx_vad_network *n, const builder *b) {
    n->folded = mx_vad_fold_applies(find(b, "stft.weight")->values, n->window);
    n->n_inputs = n->folded ? MX_VAD_MAX_INPUTS : 1;
    if (n->folded)
        mx_vad_fold_window(n->window, n->hann);
    for (int i = 0; i < n->n_inputs; i++) {
        n->inputs[i] = n->folded ? (mx_vad_input){mx_vad_fold_name(i), mx_vad_fold_inputs(n->window, i)}
                                 : (mx_vad_input){"frames", n->window};
        n->frame_floats += n->inputs[i].width;
    }
}

mxw_status mx_vad_network_open(const mx_weights *weights, int rate, mx_vad_network *n) {
    const int scale = rate == 16000 ? 2 : 1;
    mxw_status status = MXW_OK;
    *n = (mx_vad_network){.rate = rate, .chunk = 256 * scale, .context = 32 * scale, .window = 128 * scale};
    builder b = {.network = n, .bins = n->window / 2 + 1};
    mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = "cpu"};
    for (; b.n_weights < mx_weights_count(weights) && status == MXW_OK; b.n_weights++)
        status = load(&b.weights[b.n_weights], weights, b.n_weights);
    MX_TRY(status);
    choose_stft(n, &b);
    for (int i = 0; i < MX_VAD_PARTS; i++) {
        MX_TRY(mx_graph_create(i == MX_VAD_ENCODER ? "vad encoder" : "vad decoder", &n->graphs[i]));
        b.g = n->graphs[i];
        MX_TRY(i == MX_VAD_ENCODER ? build_encoder(&b) : build_decoder(&b));
        MX_TRY(mx_exec_load(n->graphs[i], &options, &n->programs[i]));
    }
out:
    for (int i = 0; i < b.n_weights; i++)
        mx_free(b.weights[i].values);
    if (status < 0)
        mx_vad_network_close(n);
    return status;
}

void mx_vad_network_close(mx_vad_network *n) {
    for (int i = 0; i < MX_VAD_PARTS; i++) {
        if (n->programs[i])
            mx_exec_unload(n->programs[i]);
        if (n->graphs[i])
            mx_graph_destroy(n->graphs[i]);
    }
    *n = (mx_vad_network){0};
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* The last frame reaches past the chunk, which is continued by its mirror image, the last sample not repeated. */
static const float *last_frame(const mx_vad_network *n, const float *chunk, float *made) {
    const int hop = n->window / 2, first = (MX_VAD_FRAMES - 1) * hop, there = n->context + n->chunk - first;
    memcpy(made, chunk + first, (size_t)there * sizeof(float));
    for (int i = there; i < n->window; i++)
        made[i] = made[2 * there - 2 - i];
    return made;
}

static void fill_frames(const mx_vad_network *n, const float *samples, int64_t chunks, float *to) {
    float made[256], *at[MX_VAD_MAX_INPUTS];
    for (int i = 0; i < n->n_inputs; to += chunks * MX_VAD_FRAMES * n->inputs[i++].width)
        at[i] = to;
    for (int64_t k = 0; k < chunks; k++, samples += n->chunk)
        for (int f = 0; f < MX_VAD_FRAMES; f++) {
            const float *x = f < MX_VAD_FRAMES - 1 ? samples + f * (n->window / 2) : last_frame(n, samples, made);
            if (n->folded)
                mx_vad_fold(n->window, n->hann, x, at);
            else
                memcpy(at[0], x, (size_t)n->window * sizeof(float));
            for (int i = 0; i < n->n_inputs; i++)
                at[i] += n->inputs[i].width;
        }
}

static mxw_status bind(mx_run *run, const char *name, int64_t a, int64_t b, int64_t c, const float *data) {
    mx_tensor t = mx_tensor_of_const(MXW_F32, 3, (int64_t[]){a, b, c}, data);
    return mx_run_input(run, name, &t);
}

static mxw_status copy_out(mx_run *run, const char *name, int64_t n, float *to) {
    mx_tensor t;
    mxw_status status = mx_run_output(run, name, &t);
    if (status == MXW_OK)
        memcpy(to, t.data, (size_t)n * sizeof(float));
    return status;
}

mxw_status mx_vad_network_encode(const mx_vad_network *n, mx_run *run, const float *samples, int64_t chunks,
                                 float *frames, float *features) {
    mxw_status status;
    fill_frames(n, samples, chunks, frames);
    for (int i = 0; i < n->n_inputs; frames += chunks * MX_VAD_FRAMES * n->inputs[i++].width)
        MX_TRY(bind(run, n->inputs[i].name, chunks, MX_VAD_FRAMES, n->inputs[i].width, frames));
    MX_TRY(mx_run_execute(run));
    MX_TRY(copy_out(run, "features", chunks * MX_VAD_HIDDEN, features));
out:
    return status;
}

mxw_status mx_vad_network_decode(const mx_vad_network *n, mx_run *run, const float *features, int64_t chunks, float *h,
                                 float *c, float *probabilities) {
    mxw_status status;
    MX_TRY(bind(run, "features", chunks, 1, MX_VAD_HIDDEN, features));
    MX_TRY(bind(run, "h", 1, 1, MX_VAD_HIDDEN, h));
    MX_TRY(bind(run, "c", 1, 1, MX_VAD_HIDDEN, c));
    MX_TRY(mx_run_execute(run));
    MX_TRY(copy_out(run, "probability", chunks, probabilities));
    MX_TRY(copy_out(run, "h_after", MX_VAD_HIDDEN, h));
    MX_TRY(copy_out(run, "c_after", MX_VAD_HIDDEN, c));
out:
    return status;
}
