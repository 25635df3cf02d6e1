/* lab/capture.c - captures a run: every named value of one window, and the transcript of the whole recording. */
#include <stdio.h>
#include <string.h>

#include "base/arrays.h"
#include "base/base.h"
#include "device/device.h"
#include "lab/lab.h"
#include "pipeline/inspect.h"

typedef struct capture {
    mx_features *features;
    mxw_status status;     /* the first failure */
} capture;

/* Inputs of the programs: bookkeeping, not stages. */
static int is_bookkeeping(const char *name) {
    static const char *const names[] = {"features", "slot", "token", "position", "sequence", "cell", "cells",
                                        "pick", "rules", "suppress"};
    for (size_t i = 0; i < MX_COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

/* One window and one sequence: drops a leading axis of 1. */
static mx_tensor without_batch(const mx_tensor *t) {
    mx_tensor out = *t;
    if (t->rank == 3 && t->dims[0] == 1) {
        out.rank = 2;
        memmove(out.dims, t->dims + 1, 2 * sizeof(*out.dims));
        memmove(out.strides, t->strides + 1, 2 * sizeof(*out.strides));
    }
    return out;
}

static void keep(void *context, const char *name, const mx_tensor *value) {
    static const struct {
        const char *from, *to;
    } names[] = {{"ids", "decoder.candidates.ids"}, {"logprobs", "decoder.candidates.logprobs"},
                 {"stats", "decoder.candidates.stats"}};
    capture *c = context;
    if (c->status < 0 || is_bookkeeping(name))
        return;
    for (size_t i = 0; i < MX_COUNT(names); i++)
        if (strcmp(names[i].from, name) == 0)
            name = names[i].to;
    mx_tensor stage = without_batch(value);
    c->status = mx_features_add(c->features, name, &stage);
}

/* The tokens to force: those of the other run. */
static mxw_status tokens_of(const mx_features *like, int32_t n_vocab, mx_inspection *i) {
    const mx_stage *stage = mx_features_find(like, "window.tokens");
    if (!stage)
        return mx_fail(MXW_E_MISSING, "the features to compare with have no window.tokens");
    if (stage->tensor.dtype != MXW_I32)
        return mx_fail(MXW_E_FORMAT, "window.tokens: expected i32");
    i->forced = stage->tensor.data;
    i->n_forced = (size_t)mx_tensor_count(&stage->tensor);
    for (size_t j = 0; j < i->n_forced; j++)
        if (i->forced[j] < 0 || i->forced[j] >= n_vocab)
            return mx_fail(MXW_E_FORMAT, "window.tokens: %d is not a token of this model", (int)i->forced[j]);
    return MXW_OK;
}

static mxw_status add_numbers(mx_features *f, const char *name, const int32_t *items, size_t n) {
    int64_t count = (int64_t)n;
    mx_tensor t = mx_tensor_of_const(MXW_I32, 1, &count, items);
    return mx_features_add(f, name, &t);
}

/* The whole recording as a session transcribes it: first frames of its windows, tokens, text. */
static mxw_status transcribe(mx_session *s, mx_features *f) {
    const mxw_segment *segment;
    mxw_status status;
    int32_t *tokens = NULL, *windows = NULL;
    size_t n_tokens = 0, n = 0;
    while ((status = mx_session_next(s, &segment)) == MXW_OK)
        n_tokens += segment->n_tokens, n++;
    if (status < 0)
        return status;
    const mxw_result *result = mx_session_result(s);
    tokens = mx_alloc_array(n_tokens + 1, sizeof(*tokens));
    windows = mx_alloc_array(n + 1, sizeof(*windows));
    status = result && tokens && windows ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    size_t n_windows = n_tokens = 0;
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *g = &mx_segments(result)[i];
        if (n_windows == 0 || windows[n_windows - 1] != (int32_t)g->seek)
            windows[n_windows++] = (int32_t)g->seek;
        memcpy(tokens + n_tokens, g->tokens, g->n_tokens * sizeof(*tokens));
        n_tokens += g->n_tokens;
    }
    int32_t frames = (int32_t)(result->duration_s * 100);
    MX_TRY(add_numbers(f, "recording.frames", &frames, 1));
    MX_TRY(add_numbers(f, "recording.windows", windows, n_windows));
    MX_TRY(add_numbers(f, "recording.tokens", tokens, n_tokens));
    MX_TRY(mx_features_set_note(f, "text", result->text));
out:
    mx_free(tokens);
    mx_free(windows);
    return status;
}

static mxw_status add_notes(const mx_recognizer *r, const char *language, mx_features *f) {
    static const char *const engines[] = {"cpu", "gpu", "max"};
    mxw_status status;
    mxw_model_info info;
    char heads[32];
    mx_recognizer_info(r, &info);
    snprintf(heads, sizeof(heads), "%d %d", info.checkpoint->dims->n_audio_head, info.checkpoint->dims->n_text_head);
    MX_TRY(mx_features_set_note(f, "made_by", "max-whisper " MXW_VERSION));
    MX_TRY(mx_features_set_note(f, "model", info.checkpoint->size_name));
    MX_TRY(mx_features_set_note(f, "engine", engines[info.engine]));
    MX_TRY(mx_features_set_note(f, "device", info.device));
    MX_TRY(mx_features_set_note(f, "precision", mx_precision_name(info.precision)));
    MX_TRY(mx_features_set_note(f, "heads", heads));
    MX_TRY(mx_features_set_note(f, "language", language));
    MX_TRY(mx_features_set_note(f, "injected", mx_recognizer_fault(r)));
out:
    return status;
}

mxw_status mx_features_capture(mx_recognizer *r, const float *samples, size_t n, const mxw_features_options *options,
                               mx_features **out) {
    mxw_status status;
    mxw_model_info info;
    mx_session *session = NULL;
    capture c = {mx_alloc_zero(1, sizeof(*c.features)), MXW_OK};
    mx_inspection inspection = {.seek = options->seek, .tap = keep, .context = &c};
    if (!c.features)
        return MXW_E_MEMORY;
    mx_recognizer_info(r, &info);
    if (options->like)
        MX_TRY(tokens_of(options->like, info.checkpoint->dims->n_vocab, &inspection));
    MX_TRY(mx_session_open(r, options->session, &session));
    MX_TRY(mx_session_feed(session, samples, n));
    MX_TRY(mx_session_finish(session));
    MX_TRY(mx_session_inspect(session, &inspection));
    MX_TRY(c.status);
    MX_TRY(add_numbers(c.features, "window.tokens", inspection.tokens, inspection.n_tokens));
    MX_TRY(add_notes(r, inspection.language, c.features));
    if (options->whole)
        MX_TRY(transcribe(session, c.features));
    *out = c.features;
    c.features = NULL;
out:
    mx_session_close(session);
    mx_features_close(c.features);
    return status;
}
