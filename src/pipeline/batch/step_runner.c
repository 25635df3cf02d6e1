/* pipeline/batch/step_runner.c - packs windows and decoder steps of several slots into the inputs of the programs, and
 * gives each slot its candidates. */
#include "pipeline/batch/step_runner.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/inspect.h"

#define N_COLUMNS 5
static const char *const column_names[N_COLUMNS] = {"token", "position", "sequence", "cell", "slot"};

mx_slot_size mx_slot_size_of(const mx_decode_plan *plan, int forces) {
    int sample_len = plan->options.sample_len;
    return (mx_slot_size){.n_rows = MX_MAX(plan->n_initial_max + sample_len, plan->n_group),
                          .n_sequences = plan->n_group,
                          .n_picks = MX_MAX(sample_len, plan->n_group) + 1,
                          .n_cells = plan->n_cells,
                          .forces = forces,
                          .repetition = plan->has_repetition};
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

/* The caches of all slots: each has its range of self-attention cells and its entry of cross keys and values. */
static mxw_status add_states(mx_step_runner *runner) {
    const mxw_dims *dims = runner->recognizer->checkpoint.dims;
    static const char *const suffixes[] = {"k", "v"};
    for (int i = 0; i < dims->n_text_layer; i++)
        for (size_t j = 0; j < MX_COUNT(suffixes); j++) {
            char name[96];
            int64_t n_cells = (int64_t)runner->n_slots * runner->size.n_cells + 1;   /* 1: for padding */
            int64_t self[] = {n_cells, dims->n_text_state};
            int64_t cross[] = {runner->n_slots, dims->n_audio_ctx, dims->n_text_state};
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

/* Rounds up to few distinct sizes: with the steps of several slots in a run, exact sizes would hardly recur. */
static int rounded(int n) {
    int step = n <= 8 ? 1 : n <= 32 ? 8 : n <= 128 ? 32 : 64;
    return (n + step - 1) / step * step;
}

/* Room for one step of the largest size beside an ordinary step of every other slot, so that memory does not grow with
 * the prompts of many windows that happen to begin together. */
static mxw_status open_room(mx_step_runner *runner) {
    const mxw_dims *dims = runner->recognizer->checkpoint.dims;
    const mx_slot_size *size = &runner->size;
    size_t n = (size_t)runner->n_slots, others = n - 1;
    runner->max_rows = size->n_rows + (int)others * size->n_sequences;
    runner->max_sequences = (int)n * size->n_sequences;
    runner->max_picks = size->n_picks + (int)others * (size->n_sequences + 1);
    size_t rows = (size_t)rounded(runner->max_rows), sequences = (size_t)rounded(runner->max_sequences);
    size_t picks = (size_t)rounded(runner->max_picks);
    runner->columns = mx_alloc_zero(N_COLUMNS * rows, sizeof(*runner->columns));
    runner->cells = mx_alloc_zero(sequences * (size_t)dims->n_text_ctx, sizeof(*runner->cells));
    runner->picks = mx_alloc_zero(picks, sizeof(*runner->picks));
    runner->rules = mx_alloc_zero(picks, sizeof(*runner->rules));
    runner->wanted = mx_alloc_zero(picks, sizeof(*runner->wanted));
    runner->align_rows = mx_alloc_zero(rows, sizeof(*runner->align_rows));
    runner->align_slots = mx_alloc_zero(rows, sizeof(*runner->align_slots));
    runner->suppress = mx_alloc_zero(n * MX_SET_COUNT, (size_t)dims->n_vocab);
    runner->table_uses = mx_alloc_zero(n, sizeof(*runner->table_uses));
    runner->table_of = mx_alloc_zero(n, sizeof(*runner->table_of));
    runner->window_slots = mx_alloc_zero((size_t)runner->width, sizeof(*runner->window_slots));
    if (!runner->columns || !runner->cells || !runner->picks || !runner->rules || !runner->wanted ||
        !runner->align_rows || !runner->align_slots || !runner->suppress || !runner->table_uses || !runner->table_of ||
        !runner->window_slots)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        runner->table_of[i] = -1;
    if (runner->width == 1)
        return MXW_OK;
    size_t window = 2 * (size_t)dims->n_audio_ctx * (size_t)dims->n_mels;
    runner->mels = mx_alloc_zero((size_t)runner->width * window, sizeof(*runner->mels));
    return runner->mels ? MXW_OK : MXW_E_MEMORY;
}

/* The decoder keeps the suppression tables of all slots until they change. */
static mxw_status hold_tables(mx_step_runner *runner, mx_run *run, int n_tables) {
    int64_t shape[] = {n_tables * MX_SET_COUNT, runner->recognizer->checkpoint.dims->n_vocab};
    mx_tensor t = mx_tensor_of(MXW_U8, 2, shape, runner->suppress);
    return mx_run_hold(run, "suppress", &t);
}

/* For every number of windows that the part may get: a device may need less memory for many than for fewer. */
static mxw_status reserve_windows(mx_step_runner *runner, mx_part part) {
    mxw_status status = MXW_OK;
    for (int windows = runner->width; windows > 0 && status >= 0; windows--) {
        char sizes[64];
        int end = snprintf(sizes, sizeof(sizes), "windows=%d", windows);
        if (part == MX_PART_CROSS)
            snprintf(sizes + end, sizeof(sizes) - (size_t)end, ",slots=%d", runner->n_slots);
        status = mx_run_reserve(runner->runs[part], sizes);
    }
    return status;
}

/* Reserves memory of every compiled part for its largest run. Later runs take no more, so running out of memory is
 * found here or never, and a captured step stays valid after every prompt. */
static mxw_status reserve(mx_step_runner *runner) {
    char of_decoder[192], of_force[256];
    int rows = rounded(runner->max_rows);
    int most = MX_MAX(runner->size.n_sequences, MX_FORCE_CANDIDATES) + 1;   /* candidates for a pick */
    mxw_status status = MXW_OK;
    snprintf(of_decoder, sizeof(of_decoder), "rows=%d,sequences=%d,picks=%d,candidates=%d,sets=%d,slots=%d,cells=%d",
             rows, rounded(runner->max_sequences), rounded(runner->max_picks),
             MX_MIN(most, runner->recognizer->checkpoint.dims->n_vocab), runner->n_slots * MX_SET_COUNT,
             runner->n_slots, runner->n_slots * runner->size.n_cells + 1);
    snprintf(of_force, sizeof(of_force), "%s,aligned=%d", of_decoder, rows);
    if (!runner->split_devices)
        status = mx_run_pipe(runner->runs[MX_PART_CROSS], "features", runner->runs[MX_PART_ENCODER], "features");
    for (int i = MX_PART_ENCODER; i <= MX_PART_CROSS && status >= 0; i++)
        status = reserve_windows(runner, (mx_part)i);
    for (int i = MX_PART_DECODER; i <= (runner->size.forces ? MX_PART_FORCE : MX_PART_DECODER) && status >= 0; i++) {
        status = hold_tables(runner, runner->runs[i], runner->n_slots);
        if (status >= 0)
            status = mx_run_reserve(runner->runs[i], i == MX_PART_FORCE ? of_force : of_decoder);
    }
    return status;
}

/* The step in two halves, with room for the logits of every slot's sequences between them. */
static mxw_status open_halves(mx_step_runner *runner) {
    mxw_status status;
    const mx_recognizer *r = runner->recognizer;
    int picks = rounded(runner->n_slots * (runner->size.n_sequences + 1)), n_vocab = r->checkpoint.dims->n_vocab;
    char of_logits[160], of_choice[96];
    snprintf(of_logits, sizeof(of_logits), "rows=%d,sequences=%d,picks=%d,slots=%d,cells=%d",
             rounded(runner->max_rows), rounded(runner->max_sequences), picks, runner->n_slots,
             runner->n_slots * runner->size.n_cells + 1);
    snprintf(of_choice, sizeof(of_choice), "picks=%d,candidates=%d,sets=%d", picks,
             MX_MIN(runner->size.n_sequences + 1, n_vocab), runner->n_slots * MX_SET_COUNT);
    runner->logits = mx_alloc_zero((size_t)picks * (size_t)n_vocab, sizeof(*runner->logits));
    if (!runner->logits)
        return MXW_E_MEMORY;
    for (int i = 0; i < MX_HALF_COUNT; i++)
        MX_TRY(mx_run_open(r->halves.programs[i], i == MX_HALF_LOGITS ? runner->state : NULL, &runner->halves[i]));
    MX_TRY(hold_tables(runner, runner->halves[MX_HALF_CHOICE], runner->n_slots));
    MX_TRY(mx_run_reserve(runner->halves[MX_HALF_LOGITS], of_logits));
    MX_TRY(mx_run_reserve(runner->halves[MX_HALF_CHOICE], of_choice));
out:
    return status;
}

mxw_status mx_step_runner_open(mx_step_runner *runner, const mx_recognizer *r, const mx_slot_size *size, int n_slots,
                               int width) {
    mxw_status status;
    memset(runner, 0, sizeof(*runner));
    runner->recognizer = r;
    runner->size = *size;
    runner->n_slots = n_slots;
    runner->width = MX_MIN(width, n_slots);
    runner->padded = n_slots > 1 && mx_exec_captures(r->programs[MX_PART_DECODER]);
    MX_TRY(open_room(runner));
    MX_TRY(mx_state_open(r->programs[MX_PART_DECODER], &runner->state));
    MX_TRY(add_states(runner));
    for (int i = 0; i < MX_PART_COUNT; i++)
        MX_TRY(mx_run_open(r->programs[i], runner->state, &runner->runs[i]));
    runner->split_devices =
        strcmp(mx_exec_device(r->programs[MX_PART_ENCODER]), mx_exec_device(r->programs[MX_PART_CROSS])) != 0;
    MX_TRY(reserve(runner));
    status = size->repetition ? open_halves(runner) : MXW_OK;
out:
    return status;
}

void mx_step_runner_close(mx_step_runner *runner) {
    for (int i = 0; i < MX_HALF_COUNT; i++)
        mx_run_close(runner->halves[i]);
    mx_free(runner->logits);
    for (int i = 0; i < MX_PART_COUNT; i++)
        mx_run_close(runner->runs[i]);
    mx_state_close(runner->state);
    mx_free(runner->mels);
    mx_free(runner->window_slots);
    mx_free(runner->columns);
    mx_free(runner->cells);
    mx_free(runner->picks);
    mx_free(runner->rules);
    mx_free(runner->wanted);
    mx_free(runner->align_rows);
    mx_free(runner->align_slots);
    mx_free(runner->suppress);
    mx_free(runner->table_uses);
    mx_free(runner->table_of);
    memset(runner, 0, sizeof(*runner));
}

/* ---- suppression tables ------------------------------------------------------------------------------------------ */

void mx_step_runner_attach(mx_step_runner *runner, int slot, const mx_decode_plan *plan) {
    size_t bytes = MX_SET_COUNT * (size_t)plan->special.n_vocab;
    int table = -1, unused = -1;
    for (int i = 0; i < runner->n_slots && table < 0; i++) {
        if (!runner->table_uses[i])
            unused = unused < 0 ? i : unused;
        else if (!memcmp(runner->suppress + (size_t)i * bytes, plan->suppress, bytes))
            table = i;
    }
    if (table < 0) {
        table = unused;
        memset(runner->n_tables, 0, sizeof(runner->n_tables));
        memcpy(runner->suppress + (size_t)table * bytes, plan->suppress, bytes);
    }
    runner->table_uses[table]++;
    runner->table_of[slot] = table;
}

void mx_step_runner_detach(mx_step_runner *runner, int slot) {
    runner->table_uses[runner->table_of[slot]]--;
    runner->table_of[slot] = -1;
}

/* The number of tables up to the last one in use. */
static int tables_in_use(const mx_step_runner *runner) {
    int n = runner->n_slots;
    while (n > 1 && !runner->table_uses[n - 1])
        n--;
    return n;
}

/* ---- the encoder ------------------------------------------------------------------------------------------------- */

static mxw_status bind(mx_run *run, const char *name, mxw_dtype dtype, int64_t n, int64_t width, const void *data) {
    int64_t dims[] = {n, width};
    mx_tensor t = mx_tensor_of_const(dtype, width ? 2 : 1, dims, data);
    return mx_run_input(run, name, &t);
}

typedef struct gather_context {
    mx_step_runner *runner;
    const mx_request *requests;
    size_t window;   /* floats */
} gather_context;

static void gather_mel(void *context, int64_t i) {
    const gather_context *g = context;
    memcpy(g->runner->mels + (size_t)i * g->window, g->requests[i].mel, g->window * sizeof(*g->runner->mels));
}

/* Where cross gets its features: from the encoder directly, by way of the host, or from the caller. */
static mxw_status bind_features(mx_step_runner *runner, const mx_request *request, int n) {
    const mxw_dims *dims = runner->recognizer->checkpoint.dims;
    mx_run *encoder = runner->runs[MX_PART_ENCODER], *cross = runner->runs[MX_PART_CROSS];
    int64_t shape[] = {n, dims->n_audio_ctx, dims->n_audio_state};
    mx_tensor t = mx_tensor_of_const(MXW_F32, 3, shape, request->features);
    if (!request->features && !runner->split_devices)
        return mx_run_pipe(cross, "features", encoder, "features");
    mxw_status status = request->features ? MXW_OK : mx_run_output(encoder, "features", &t);
    return status < 0 ? status : mx_run_input(cross, "features", &t);
}

mxw_status mx_step_runner_encode(mx_step_runner *runner, const mx_request *requests, int n) {
    mxw_status status;
    const mxw_dims *dims = runner->recognizer->checkpoint.dims;
    mx_run *encoder = runner->runs[MX_PART_ENCODER], *cross = runner->runs[MX_PART_CROSS];
    int64_t shape[] = {n, 2 * dims->n_audio_ctx, dims->n_mels};
    const float *mel = requests[0].mel;
    if (n > runner->width)
        return mx_fail(MXW_E_INTERNAL, "encoder: %d windows, but at most %d fit in a run", n, runner->width);
    if (n > 1) {
        gather_context g = {runner, requests, (size_t)(shape[1] * shape[2])};
        mx_pool_for(runner->recognizer->pool, n, gather_mel, &g);
        mel = runner->mels;
    }
    for (int i = 0; i < n; i++)
        runner->window_slots[i] = requests[i].slot;
    mx_tensor t = mx_tensor_of_const(MXW_F32, 3, shape, mel);
    int64_t start = mx_now_ns();
    if (!requests[0].features) {
        MX_TRY(mx_run_input(encoder, "mel", &t));
        MX_TRY(mx_run_execute(encoder));
        mx_counters_add(runner->recognizer->counters, MX_COUNTER_ENCODE, n, 0, start);
    }
    start = mx_now_ns();
    MX_TRY(bind_features(runner, &requests[0], n));
    MX_TRY(bind(cross, "slot", MXW_I32, n, 0, runner->window_slots));
    MX_TRY(mx_run_execute(cross));
    mx_counters_add(runner->recognizer->counters, MX_COUNTER_CROSS, n, 0, start);
    status = MXW_OK;
out:
    return status;
}

mxw_status mx_step_runner_features(mx_step_runner *runner, const float **features) {
    mx_tensor t;
    mxw_status status = mx_run_output(runner->runs[MX_PART_ENCODER], "features", &t);
    *features = status < 0 ? NULL : t.data;
    return status;
}

void mx_step_runner_tap(mx_step_runner *runner, mx_tap_fn tap, void *context) {
    for (int i = 0; i < MX_PART_COUNT; i++)
        mx_run_tap(runner->runs[i], tap, context);
    for (int i = 0; i < MX_HALF_COUNT && runner->halves[i]; i++)
        mx_run_tap(runner->halves[i], tap, context);
}

void mx_step_runner_watch(mx_step_runner *runner, mx_watch_fn watch, void *context) {
    for (int i = 0; i < MX_PART_COUNT; i++)
        mx_run_watch(runner->runs[i], watch, context);
    for (int i = 0; i < MX_HALF_COUNT && runner->halves[i]; i++)
        mx_run_watch(runner->halves[i], watch, context);
}

/* ---- the decoder ------------------------------------------------------------------------------------------------- */

/* Sizes packed so far: where a run's next request begins. */
typedef struct packing {
    int n_rows, n_sequences, n_picks, k;
} packing;

static int fits(const mx_step_runner *runner, const packing *at, const mx_decode_step *step) {
    return at->n_rows + step->n_rows <= runner->max_rows &&
           at->n_sequences + step->n_sequences <= runner->max_sequences &&
           at->n_picks + step->n_picks <= runner->max_picks;
}

static void advance(packing *at, const mx_request *request) {
    at->n_rows += request->step->n_rows;
    at->n_sequences += request->step->n_sequences;
    at->n_picks += request->step->n_picks;
    at->k = MX_MAX(at->k, request->k);
}

int mx_step_runner_room(const mx_step_runner *runner, const mx_request *requests, int n) {
    packing at = {0};
    int i;
    for (i = 0; i < n && fits(runner, &at, requests[i].step); i++)
        advance(&at, &requests[i]);
    return MX_MAX(i, 1);
}

/* Translates a slot's row, sequence, cell and set numbers into those of the run. Cells past the last position of the
 * step are never read, so they are not copied. */
static void pack(mx_step_runner *runner, const packing *at, const mx_request *request) {
    const mx_decode_step *step = request->step;
    size_t stride = (size_t)rounded(runner->max_rows), ctx = (size_t)runner->recognizer->checkpoint.dims->n_text_ctx;
    int32_t first_cell = request->slot * runner->size.n_cells;
    int32_t first_set = runner->table_of[request->slot] * MX_SET_COUNT;
    size_t n_positions = 0;
    for (int i = 0; i < step->n_rows; i++) {
        const mx_decode_row *row = &step->rows[i];
        const int32_t values[N_COLUMNS] = {row->token, row->position, at->n_sequences + row->sequence,
                                           first_cell + row->cell, request->slot};
        for (size_t c = 0; c < N_COLUMNS; c++)
            runner->columns[c * stride + (size_t)(at->n_rows + i)] = values[c];
        n_positions = MX_MAX(n_positions, (size_t)row->position + 1);
    }
    for (size_t s = 0; s < (size_t)step->n_sequences; s++) {
        const int32_t *from = step->cells + s * ctx;
        int32_t *to = runner->cells + ((size_t)at->n_sequences + s) * ctx;
        for (size_t p = 0; p < n_positions; p++)
            to[p] = first_cell + from[p];
    }
    for (int i = 0; i < step->n_picks; i++) {
        runner->picks[at->n_picks + i] = at->n_rows + step->picks[i];
        runner->rules[at->n_picks + i] = step->rules[i];
        runner->rules[at->n_picks + i].set += first_set;
    }
}

/* Pads rows and picks up to sizes that recur. A padding row writes to a cell that belongs to no slot; its results are
 * computed but not used. */
static void pad(mx_step_runner *runner, packing *all, int slot) {
    packing to = {rounded(all->n_rows), rounded(all->n_sequences), rounded(all->n_picks), all->k};
    size_t stride = (size_t)rounded(runner->max_rows);
    const int32_t values[N_COLUMNS] = {0, 0, 0, runner->n_slots * runner->size.n_cells, slot};
    for (size_t c = 0; c < N_COLUMNS; c++)
        for (int i = all->n_rows; i < to.n_rows; i++)
            runner->columns[c * stride + (size_t)i] = values[c];
    for (int i = all->n_picks; i < to.n_picks; i++) {
        runner->picks[i] = 0;
        runner->rules[i] = runner->rules[0];
        runner->rules[i].temperature = 0;
        runner->rules[i].no_speech = -1;
    }
    *all = to;
}

/* The rows of the decoder, its forced form or its first half. */
static mxw_status bind_rows(mx_step_runner *runner, mx_run *run, const packing *all) {
    mxw_status status;
    const mxw_dims *dims = runner->recognizer->checkpoint.dims;
    for (size_t c = 0; c < N_COLUMNS; c++)
        MX_TRY(bind(run, column_names[c], MXW_I32, all->n_rows, 0,
                    runner->columns + c * (size_t)rounded(runner->max_rows)));
    MX_TRY(bind(run, "cells", MXW_I32, all->n_sequences, dims->n_text_ctx, runner->cells));
    MX_TRY(bind(run, "pick", MXW_I32, all->n_picks, 0, runner->picks));
    status = MXW_OK;
out:
    return status;
}

/* What candidates are chosen by, of the decoder, its forced form or the choice. */
static mxw_status bind_rules(mx_step_runner *runner, mx_run *run, const packing *all) {
    mxw_status status;
    MX_TRY(bind(run, "rules", MXW_I32, all->n_picks, MX_RULE_WORDS, runner->rules));
    int n_tables = tables_in_use(runner);
    int holder = run == runner->runs[MX_PART_DECODER] ? 0 : run == runner->runs[MX_PART_FORCE] ? 1 : 2;
    int *sent = &runner->n_tables[holder];
    if (n_tables != *sent) {
        MX_TRY(hold_tables(runner, run, n_tables));
        *sent = n_tables;
    }
    status = mx_run_size(run, "candidates", all->k);
out:
    return status;
}

/* A run in which some window begins counts as a prompt; every other one as a step. */
static void count_step(const mx_step_runner *runner, const mx_request *requests, int n, int64_t start_ns) {
    int64_t rows = 0, cells = 0;
    mx_counter_kind kind = MX_COUNTER_STEP;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < requests[i].step->n_rows; j++, rows++) {
            cells += requests[i].step->rows[j].position + 1;
            if (requests[i].step->rows[j].position == 0)
                kind = MX_COUNTER_PROMPT;
        }
    mx_counters_add(runner->recognizer->counters, kind, rows, cells, start_ns);
}

static mxw_status pack_requests(mx_step_runner *runner, const mx_request *requests, int n, packing *all) {
    for (int i = 0; i < n; i++) {
        if (!fits(runner, all, requests[i].step))
            return mx_fail(MXW_E_INTERNAL, "decoder: %d rows do not fit into the %d of a run",
                           requests[i].step->n_rows, runner->max_rows);
        pack(runner, all, &requests[i]);
        advance(all, &requests[i]);
    }
    return MXW_OK;
}

/* Points each request to its part of the run's candidates. */
static mxw_status give_candidates(mx_run *run, mx_request *requests, int n, int k) {
    mxw_status status;
    mx_tensor ids, logprobs, stats;
    packing at = {0};
    MX_TRY(mx_run_output(run, "ids", &ids));
    MX_TRY(mx_run_output(run, "logprobs", &logprobs));
    MX_TRY(mx_run_output(run, "stats", &stats));
    for (int i = 0; i < n; i++) {
        size_t first = (size_t)at.n_picks;
        requests[i].candidates = (mx_candidates){(const int32_t *)ids.data + first * (size_t)k,
                                                 (const float *)logprobs.data + first * (size_t)k,
                                                 (const float *)stats.data + first * MX_SELECT_STATS, k};
        advance(&at, &requests[i]);
    }
    status = MXW_OK;
out:
    return status;
}

/* Executes, and has other work done at least once while the device is busy. */
static mxw_status execute(mx_run *run, mx_meanwhile_fn meanwhile, void *context) {
    mxw_status status = mx_run_execute(run);
    if (status >= 0 && meanwhile)
        do
            meanwhile(context);
        while (!mx_run_done(run));
    return status;
}

static mxw_status step_whole(mx_step_runner *runner, mx_request *requests, int n, mx_meanwhile_fn meanwhile,
                             void *context) {
    mxw_status status;
    mx_run *run = runner->runs[MX_PART_DECODER];
    packing all = {0};
    MX_TRY(pack_requests(runner, requests, n, &all));
    if (runner->padded)
        pad(runner, &all, requests[0].slot);
    MX_TRY(bind_rows(runner, run, &all));
    MX_TRY(bind_rules(runner, run, &all));
    MX_TRY(execute(run, meanwhile, context));
    MX_TRY(give_candidates(run, requests, n, all.k));
out:
    return status;
}

/* Logits of the first half, changed by what each request's sequences have said. */
static mxw_status change_logits(mx_step_runner *runner, const mx_request *requests, int n) {
    mx_tensor t;
    mxw_status status = mx_run_output(runner->halves[MX_HALF_LOGITS], "logits", &t);
    if (status < 0)
        return status;
    size_t n_vocab = (size_t)t.dims[1], pick = 0;
    memcpy(runner->logits, t.data, (size_t)t.dims[0] * n_vocab * sizeof(*runner->logits));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < requests[i].step->n_picks; j++, pick++)
            mx_repetition_apply(requests[i].step->repetition, &requests[i].step->said[j],
                                runner->logits + pick * n_vocab);
    return MXW_OK;
}

static mxw_status step_in_halves(mx_step_runner *runner, mx_request *requests, int n, mx_meanwhile_fn meanwhile,
                                 void *context) {
    mxw_status status;
    mx_run *logits = runner->halves[MX_HALF_LOGITS], *choice = runner->halves[MX_HALF_CHOICE];
    packing all = {0};
    if (!logits)
        return mx_fail(MXW_E_INTERNAL, "decoder: a step has rules about repetition, but no slot was to have any");
    MX_TRY(pack_requests(runner, requests, n, &all));
    if (runner->padded)
        pad(runner, &all, requests[0].slot);
    if (all.n_picks > rounded(runner->n_slots * (runner->size.n_sequences + 1)))
        return mx_fail(MXW_E_INTERNAL, "decoder: %d rows of logits do not fit into a run", all.n_picks);
    MX_TRY(bind_rows(runner, logits, &all));
    MX_TRY(execute(logits, meanwhile, context));
    MX_TRY(change_logits(runner, requests, n));
    MX_TRY(bind(choice, "logits", MXW_F32, all.n_picks, runner->recognizer->checkpoint.dims->n_vocab, runner->logits));
    MX_TRY(bind_rules(runner, choice, &all));
    MX_TRY(mx_run_execute(choice));
    MX_TRY(give_candidates(choice, requests, n, all.k));
out:
    return status;
}

mxw_status mx_step_runner_step(mx_step_runner *runner, mx_request *requests, int n, mx_meanwhile_fn meanwhile,
                               void *context) {
    int64_t start = mx_now_ns();
    int n_whole = 0;
    while (n_whole < n && !requests[n_whole].step->repetition)
        n_whole++;
    mxw_status status = n_whole ? step_whole(runner, requests, n_whole, meanwhile, context) : MXW_OK;
    if (status >= 0 && n_whole < n)
        status = step_in_halves(runner, requests + n_whole, n - n_whole, n_whole ? NULL : meanwhile, context);
    if (status >= 0)
        count_step(runner, requests, n, start);
    return status;
}

/* ---- the decoder on known tokens --------------------------------------------------------------------------------- */

/* Packs the rows whose scores are wanted, and the slot that each of them attends to; returns their number. */
static int pack_wanted(mx_step_runner *runner, const mx_request *requests, int n) {
    int n_align = 0;
    packing at = {0};
    for (int i = 0; i < n; i++) {
        const mx_request *request = &requests[i];
        memcpy(runner->wanted + at.n_picks, request->wanted, (size_t)request->step->n_picks * sizeof(*runner->wanted));
        for (int r = 0; request->wants_scores && r < request->step->n_rows; r++, n_align++) {
            runner->align_rows[n_align] = at.n_rows + r;
            runner->align_slots[n_align] = request->slot;
        }
        advance(&at, request);
    }
    return n_align;
}

static mxw_status give_forced(mx_run *run, mx_request *requests, int n) {
    mx_tensor logits, scores;
    mxw_status status = mx_run_output(run, "logits", &logits);
    if (status >= 0)
        status = mx_run_output(run, "scores", &scores);
    size_t pick = 0, align_row = 0;
    for (int i = 0; i < n && status >= 0; i++) {
        mx_request *request = &requests[i];
        request->forced = (mx_forced){.candidates = request->candidates, .logits = (const float *)logits.data + pick,
                                      .n_rows = request->step->n_rows, .n_heads = (int)scores.dims[1],
                                      .n_keys = (int)scores.dims[2]};
        pick += (size_t)request->step->n_picks;
        if (!request->wants_scores)
            continue;
        request->forced.scores = (const float *)scores.data + align_row * (size_t)(scores.dims[1] * scores.dims[2]);
        align_row += (size_t)request->step->n_rows;
    }
    return status;
}

mxw_status mx_step_runner_force(mx_step_runner *runner, mx_request *requests, int n) {
    mxw_status status;
    int64_t start = mx_now_ns();
    mx_run *run = runner->runs[MX_PART_FORCE];
    packing all = {0};
    MX_TRY(pack_requests(runner, requests, n, &all));
    int n_align = pack_wanted(runner, requests, n);
    MX_TRY(bind_rows(runner, run, &all));
    MX_TRY(bind_rules(runner, run, &all));
    MX_TRY(bind(run, "wanted", MXW_I32, all.n_picks, 0, runner->wanted));
    MX_TRY(bind(run, "align_rows", MXW_I32, n_align, 0, runner->align_rows));
    MX_TRY(bind(run, "align_slots", MXW_I32, n_align, 0, runner->align_slots));
    MX_TRY(mx_run_execute(run));
    MX_TRY(give_candidates(run, requests, n, all.k));
    MX_TRY(give_forced(run, requests, n));
    mx_counters_add(runner->recognizer->counters, MX_COUNTER_FORCE, all.n_rows, 0, start);
out:
    return status;
}
