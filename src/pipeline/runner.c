/* pipeline/runner.c - packs decode steps into the programs' inputs and hands candidates back. */
#include "pipeline/runner.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define N_COLUMNS 5
static const char *const column_names[N_COLUMNS] = {"token", "position", "sequence", "cell", "slot"};

/* The caches of one window: self-attention cells for all its sequences, cross keys and values in one slot. */
static mxw_status add_states(mx_runner *runner) {
    const mxw_dims *dims = &runner->recognizer->checkpoint.dims;
    static const char *const suffixes[] = {"k", "v"};
    for (int i = 0; i < dims->n_text_layer; i++)
        for (size_t j = 0; j < MX_COUNT(suffixes); j++) {
            char name[96];
            int64_t self[] = {runner->plan->n_cells, dims->n_text_state};
            int64_t cross[] = {1, dims->n_audio_ctx, dims->n_text_state};
            snprintf(name, sizeof(name), "decoder.blocks.%d.attn.%s", i, suffixes[j]);
            mxw_status status = mx_state_add(runner->state, name, MXW_F32, 2, self);
            if (status < 0)
                return status;
            snprintf(name, sizeof(name), "decoder.blocks.%d.cross_attn.%s", i, suffixes[j]);
            status = mx_state_add(runner->state, name, MXW_F32, 3, cross);
            if (status < 0)
                return status;
        }
    return MXW_OK;
}

mxw_status mx_runner_open(mx_runner *runner, const mx_recognizer *r, const mx_decode_plan *plan) {
    mxw_status status;
    memset(runner, 0, sizeof(*runner));
    runner->recognizer = r;
    runner->plan = plan;
    runner->max_rows = MX_MAX(plan->n_initial_max + plan->options.sample_len, plan->n_group);
    runner->columns = mx_alloc_zero((size_t)N_COLUMNS * (size_t)runner->max_rows, sizeof(*runner->columns));
    if (!runner->columns)
        return MXW_E_MEMORY;
    MX_TRY(mx_state_open(r->programs[MX_PART_DECODER], &runner->state));
    MX_TRY(add_states(runner));
    for (int i = 0; i < MX_PART_COUNT; i++)
        MX_TRY(mx_run_open(r->programs[i], runner->state, &runner->runs[i]));
    MX_TRY(mx_run_pipe(runner->runs[MX_PART_CROSS], "features", runner->runs[MX_PART_ENCODER], "features"));
    status = MXW_OK;
out:
    return status;
}

void mx_runner_close(mx_runner *runner) {
    for (int i = 0; i < MX_PART_COUNT; i++)
        mx_run_close(runner->runs[i]);
    mx_state_close(runner->state);
    mx_free(runner->columns);
    memset(runner, 0, sizeof(*runner));
}

static mxw_status bind(mx_run *run, const char *name, mxw_dtype dtype, int64_t n, int64_t width, const void *data) {
    int64_t dims[] = {n, width};
    mx_tensor t = mx_tensor_of(dtype, width ? 2 : 1, dims, (void *)(uintptr_t)data);
    return mx_run_input(run, name, &t);
}

mxw_status mx_runner_encode(mx_runner *runner, const float *mel) {
    mxw_status status;
    const mxw_dims *dims = &runner->recognizer->checkpoint.dims;
    mx_run *encoder = runner->runs[MX_PART_ENCODER], *cross = runner->runs[MX_PART_CROSS];
    int64_t shape[] = {1, 2 * dims->n_audio_ctx, dims->n_mels};
    mx_tensor t = mx_tensor_of(MXW_F32, 3, shape, (void *)(uintptr_t)mel);
    static const int32_t slot = 0;
    MX_TRY(mx_run_input(encoder, "mel", &t));
    MX_TRY(mx_run_execute(encoder));
    MX_TRY(bind(cross, "slot", MXW_I32, 1, 0, &slot));
    MX_TRY(mx_run_execute(cross));
    status = MXW_OK;
out:
    return status;
}

mxw_status mx_runner_features(mx_runner *runner, const float **features) {
    mx_tensor t;
    mxw_status status = mx_run_output(runner->runs[MX_PART_ENCODER], "features", &t);
    *features = status < 0 ? NULL : t.data;
    return status;
}

void mx_runner_tap(mx_runner *runner, mx_tap_fn tap, void *context) {
    for (int i = 0; i < MX_PART_COUNT; i++)
        mx_run_tap(runner->runs[i], tap, context);
}

static void fill_columns(mx_runner *runner, const mx_decode_step *step) {
    size_t stride = (size_t)runner->max_rows;
    for (int i = 0; i < step->n_rows; i++) {
        const mx_decode_row *row = &step->rows[i];
        const int32_t values[N_COLUMNS] = {row->token, row->position, row->sequence, row->cell, 0};
        for (size_t c = 0; c < N_COLUMNS; c++)
            runner->columns[c * stride + (size_t)i] = values[c];
    }
}

mxw_status mx_runner_step(mx_runner *runner, const mx_decode_step *step, int k, mx_candidates *out) {
    mxw_status status;
    const mx_decode_plan *plan = runner->plan;
    mx_run *run = runner->runs[MX_PART_DECODER];
    mx_tensor ids, logprobs, stats;
    if (step->n_rows > runner->max_rows)
        return mx_fail(MXW_E_INTERNAL, "decoder: %d rows, room for %d", step->n_rows, runner->max_rows);
    fill_columns(runner, step);
    for (size_t c = 0; c < N_COLUMNS; c++)
        MX_TRY(bind(run, column_names[c], MXW_I32, step->n_rows, 0, runner->columns + c * (size_t)runner->max_rows));
    MX_TRY(bind(run, "cells", MXW_I32, step->n_sequences, plan->options.n_text_ctx, step->cells));
    MX_TRY(bind(run, "pick", MXW_I32, step->n_picks, 0, step->picks));
    MX_TRY(bind(run, "rules", MXW_I32, step->n_picks, MX_RULE_WORDS, step->rules));
    MX_TRY(bind(run, "suppress", MXW_U8, MX_SET_COUNT, plan->special.n_vocab, plan->suppress));
    MX_TRY(mx_run_size(run, "candidates", k));
    MX_TRY(mx_run_execute(run));
    MX_TRY(mx_run_output(run, "ids", &ids));
    MX_TRY(mx_run_output(run, "logprobs", &logprobs));
    MX_TRY(mx_run_output(run, "stats", &stats));
    *out = (mx_candidates){ids.data, logprobs.data, stats.data, k};
    status = MXW_OK;
out:
    return status;
}
