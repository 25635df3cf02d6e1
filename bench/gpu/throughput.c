/* throughput.c - windows a second of a GPU, or CPU, that always has work, with generated weights.
 *
 * Windows of 30 s come as a queue that never empties. A thread makes their log-mel from samples. Each is encoded,
 * crossed into a free slot, given a prompt of 4 tokens and decoded for as many tokens as a table says (mean 100, fixed
 * seed); its slot then takes the next window. Up to ENCODED windows are encoded at once, behind a running step, as soon
 * as that many slots are free. There are as many slots as the GPU's memory has room for, MOST_SLOTS at most.
 * The beams of a window share all cells but those of the last tokens, as beams do. Rows are padded to sizes that recur,
 * as the program pads them. What is not there: choosing tokens on the host, text, files.
 * Invariant: the time runs from the end of window number `slots` to the end of window number 2 * slots, at least; in
 * both moments all slots are busy. */
#include "model.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "feature/feature.h"

enum { ENCODED = 16, PROMPT = 4, LONGEST = 180, SHARED_UP_TO = 8, LENGTHS = 256, READY = 64,
       CANDIDATES = 6, SETS = 4, COLUMNS = 6 };

/* ---- log-mel ----------------------------------------------------------------------------------------------------- */

/* Windows that are ready, made by a thread of their own. */
typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    float *windows;           /* [READY][MX_MEL_WINDOW][n_mels] */
    int n_mels, made, taken, over, most;   /* most: that are ready at once, READY or fewer */
    mx_pool *pool;
} queue;

static size_t window_floats(const queue *q) { return (size_t)MX_MEL_WINDOW * (size_t)q->n_mels; }

static void make_window(const queue *q, const float *samples, float *out) {
    mx_mel *mel;
    if (mx_mel_open(q->n_mels, MXW_MEL_FILE, &mel) < 0 || mx_mel_share(mel, q->pool) < 0 ||
        mx_mel_feed(mel, samples, 30 * MXW_SAMPLE_RATE) < 0 || mx_mel_finish(mel) < 0 ||
        mx_mel_window(mel, 0, MX_MEL_WINDOW, MX_MEL_ZEROS, out) < 0)
        die("log-mel");
    mx_mel_close(mel);
}

static void *make_windows(void *context) {
    queue *q = context;
    float *samples = mx_alloc(30 * MXW_SAMPLE_RATE * sizeof(*samples));
    if (!samples)
        die("samples");
    for (size_t i = 0; i < 30 * MXW_SAMPLE_RATE; i++)
        samples[i] = (float)((uint32_t)i * 2654435761u >> 16) / 65536.0f - 0.5f;
    pthread_mutex_lock(&q->lock);
    while (!q->over) {
        if (q->made - q->taken == q->most) {
            pthread_cond_wait(&q->changed, &q->lock);
            continue;
        }
        float *to = q->windows + (size_t)(q->made % READY) * window_floats(q);
        pthread_mutex_unlock(&q->lock);
        make_window(q, samples, to);
        pthread_mutex_lock(&q->lock);
        q->made++;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    mx_free(samples);
    return NULL;
}

static void take_windows(queue *q, int n, float *to) {
    pthread_mutex_lock(&q->lock);
    while (q->made - q->taken < n)
        pthread_cond_wait(&q->changed, &q->lock);
    for (int i = 0; i < n; i++)
        memcpy(to + (size_t)i * window_floats(q), q->windows + (size_t)((q->taken + i) % READY) * window_floats(q),
               window_floats(q) * sizeof(*to));
    q->taken += n;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    const model *model;
    int beams, n_slots, n_cells;
    mx_state *state;
    mx_run *runs[N_PROGRAMS];
    queue mels;
    float *batch;                  /* [ENCODED][MX_MEL_WINDOW][n_mels] */
    int position[MOST_SLOTS], length[MOST_SLOTS];   /* of the next token; length 0: the slot is free */
    int lengths[LENGTHS];
    int n_begun, n_ended;
    int32_t *columns, *cells;      /* token, position, sequence, cell, slot, pick */
    mx_rule *rules;
    uint8_t *suppress;
} bench;

/* Lengths from 20 to LONGEST whose mean is 100 exactly. */
static void make_lengths(int *lengths) {
    uint32_t state = 2463534242u;
    int sum = 0;
    for (int i = 0; i < LENGTHS; i++) {
        state = state * 1664525u + 1013904223u;
        lengths[i] = 20 + (int)(state >> 8) % (LONGEST - 19);
        sum += lengths[i];
    }
    for (int i = 0; sum != 100 * LENGTHS; i = (i + 1) % LENGTHS) {
        int by = sum > 100 * LENGTHS ? -1 : 1;
        if (lengths[i] + by >= 20 && lengths[i] + by <= LONGEST) {
            lengths[i] += by;
            sum += by;
        }
    }
}

static int rounded(int n) {
    int step = n <= 8 ? 1 : n <= 32 ? 8 : n <= 128 ? 32 : 64;
    return (n + step - 1) / step * step;
}

static int most_rows(const bench *b) { return rounded(MX_MAX(b->n_slots * b->beams, ENCODED * PROMPT)); }

/* The cell of a beam's token: its own among the last ones, else that of all beams. */
static int32_t cell_of(const bench *b, int slot, int beam, int at, int position) {
    int own = b->beams > 1 && at > position - SHARED_UP_TO;
    return (int32_t)(slot * b->n_cells + (own ? PROMPT + LONGEST + beam * SHARED_UP_TO + at % SHARED_UP_TO : at));
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* Encodes windows of the queue into free slots. */
static void encode(bench *b) {
    const mxw_dims *d = b->model->dims;
    static int32_t slots[ENCODED];
    int n = 0;
    for (int i = 0; i < b->n_slots && n < ENCODED; i++)
        if (!b->length[i]) {
            slots[n++] = i;
            b->position[i] = -PROMPT;
            b->length[i] = b->lengths[b->n_begun++ % LENGTHS];
        }
    take_windows(&b->mels, n, b->batch);
    bind_input(b->runs[ENCODER], "mel", MXW_F32, 3, (int64_t[]){n, MX_MEL_WINDOW, d->n_mels}, b->batch, 0);
    bind_input(b->runs[CROSS], "slot", MXW_I32, 1, (int64_t[]){n}, slots, 0);
    if (mx_run_execute(b->runs[ENCODER]) < 0 || mx_run_execute(b->runs[CROSS]) < 0)
        die("encoder");
}

static void set_row(bench *b, int row, int sequence, int slot, int beam, int at) {
    int rows = most_rows(b);
    const int32_t values[COLUMNS] = {100 + beam, at, sequence, cell_of(b, slot, beam, at, at), slot, row};
    for (int c = 0; c < COLUMNS; c++)
        b->columns[c * rows + row] = values[c];
}

static void set_cells(bench *b, int sequence, int slot, int beam, int position) {
    int32_t *to = b->cells + (size_t)sequence * (size_t)b->model->dims->n_text_ctx;
    for (int at = 0; at <= position; at++)
        to[at] = cell_of(b, slot, beam, at, position);
}

/* Runs the decoder on rows that are set, padded as the program does. `then` is done while the GPU works. */
static void decode(bench *b, int rows, int sequences, int picks, void (*then)(bench *b)) {
    static const char *const names[COLUMNS] = {"token", "position", "sequence", "cell", "slot", "pick"};
    const mxw_dims *d = b->model->dims;
    mx_run *run = b->runs[DECODER];
    int stride = most_rows(b), to_rows = rounded(rows), to_picks = rounded(picks);
    mx_tensor t;
    for (int i = rows; i < to_rows; i++)
        for (int c = 0; c < COLUMNS - 1; c++)
            b->columns[c * stride + i] = c == 3 ? b->n_slots * b->n_cells : c == 4 ? b->columns[4 * stride] : 0;
    for (int i = picks; i < to_picks; i++)
        b->columns[5 * stride + i] = 0;
    for (int c = 0; c < COLUMNS; c++)
        bind_input(run, names[c], MXW_I32, 1, (int64_t[]){c == 5 ? to_picks : to_rows}, b->columns + c * stride, 0);
    bind_input(run, "cells", MXW_I32, 2, (int64_t[]){rounded(sequences), d->n_text_ctx}, b->cells, 0);
    bind_input(run, "rules", MXW_I32, 2, (int64_t[]){to_picks, MX_RULE_WORDS}, b->rules, 0);
    if (mx_run_execute(run) < 0)
        die("decoder");
    if (then)
        then(b);
    if (mx_run_output(run, "ids", &t) < 0 || mx_run_output(run, "logprobs", &t) < 0 ||
        mx_run_output(run, "stats", &t) < 0)
        die("candidates");
}

/* The prompts of all windows that have none yet. */
static void prompt(bench *b) {
    int rows = 0, sequences = 0;
    for (int slot = 0; slot < b->n_slots && sequences < ENCODED; slot++) {
        if (!b->length[slot] || b->position[slot] >= 0)
            continue;
        for (int at = 0; at < PROMPT; at++)
            set_row(b, rows++, sequences, slot, 0, at);
        set_cells(b, sequences, slot, 0, PROMPT - 1);
        b->columns[5 * most_rows(b) + sequences++] = rows - 1;
        b->position[slot] = PROMPT;
    }
    if (rows)
        decode(b, rows, sequences, sequences, NULL);
}

static int n_free(const bench *b) {
    int n = 0;
    for (int i = 0; i < b->n_slots; i++)
        n += b->length[i] == 0;
    return n;
}

static void refill(bench *b) {
    if (n_free(b) >= MX_MIN(ENCODED, b->n_slots))
        encode(b);
}

/* A step of every window that has its prompt. */
static void step(bench *b) {
    int rows = 0;
    for (int slot = 0; slot < b->n_slots; slot++)
        for (int beam = 0; beam < b->beams && b->length[slot] && b->position[slot] >= 0; beam++, rows++) {
            set_row(b, rows, rows, slot, beam, b->position[slot]);
            set_cells(b, rows, slot, beam, b->position[slot]);
        }
    for (int slot = 0; slot < b->n_slots; slot++)
        if (b->length[slot] && b->position[slot] >= 0 && ++b->position[slot] - PROMPT >= b->length[slot]) {
            b->length[slot] = 0;   /* after this step: a window that is encoded behind it comes after its last read */
            b->n_ended++;
        }
    if (rows)
        decode(b, rows, rows, rows, refill);
    else
        refill(b);
}

/* ---- the bench --------------------------------------------------------------------------------------------------- */

static void close_runs(bench *b) {
    for (int i = N_PROGRAMS - 1; i >= 0; i--)
        mx_run_close(b->runs[i]);
    memset(b->runs, 0, sizeof(b->runs));
    mx_state_close(b->state);
    b->state = NULL;
}

/* Takes the memory of so many slots; 0 if it does not fit. */
static int fits(bench *b, int n_slots) {
    const model *m = b->model;
    char sizes[3][192];
    b->n_slots = n_slots;
    b->n_cells = PROMPT + LONGEST + (b->beams > 1 ? b->beams * SHARED_UP_TO : 0);
    int rows = most_rows(b), cells = n_slots * b->n_cells + b->n_cells;
    int encoded = MX_MIN(ENCODED, n_slots);
    snprintf(sizes[0], sizeof(sizes[0]), "windows=%d", encoded);
    snprintf(sizes[1], sizeof(sizes[1]), "windows=%d,slots=%d", encoded, n_slots + 1);
    snprintf(sizes[2], sizeof(sizes[2]), "rows=%d,sequences=%d,picks=%d,candidates=%d,sets=%d,slots=%d,cells=%d", rows,
             rows, rows, CANDIDATES, SETS, n_slots + 1, cells);
    b->state = open_state(m, n_slots + 1, b->n_cells);   /* one more: its cells are for padding */
    int fit = b->state != NULL;
    for (int i = 0; i < N_PROGRAMS && fit; i++)
        fit = mx_run_open(m->programs[i], b->state, &b->runs[i]) >= 0;
    if (fit)
        fit = mx_run_pipe(b->runs[CROSS], "features", b->runs[ENCODER], "features") >= 0;
    if (fit) {
        bind_input(b->runs[DECODER], "suppress", MXW_U8, 2, (int64_t[]){SETS, m->dims->n_vocab}, b->suppress, 1);
        fit = mx_run_size(b->runs[DECODER], "candidates", CANDIDATES) >= 0;
    }
    for (int i = 0; i < N_PROGRAMS && fit; i++)
        fit = mx_run_reserve(b->runs[i], sizes[i]) >= 0;
    if (!fit)
        close_runs(b);
    return fit;
}

static void take_room(bench *b) {
    const mxw_dims *d = b->model->dims;
    size_t rows = (size_t)rounded(MOST_SLOTS * b->beams);
    b->suppress = mx_alloc_zero(SETS, (size_t)d->n_vocab);
    b->columns = mx_alloc_zero(COLUMNS * rows, sizeof(*b->columns));
    b->cells = mx_alloc_zero(rows * (size_t)d->n_text_ctx, sizeof(*b->cells));
    b->rules = mx_alloc_zero(rows, sizeof(*b->rules));
    b->mels.n_mels = d->n_mels;
    b->mels.windows = mx_alloc_zero(READY * window_floats(&b->mels), sizeof(float));
    b->batch = mx_alloc_zero(ENCODED * window_floats(&b->mels), sizeof(float));
    if (!b->suppress || !b->columns || !b->cells || !b->rules || !b->mels.windows || !b->batch ||
        mx_pool_open(0, &b->mels.pool) < 0)
        die("memory");
    for (size_t i = 0; i < rows; i++)
        b->rules[i] = (mx_rule){.ts_begin = (int32_t)d->n_vocab - 1501, .ts_min = (int32_t)d->n_vocab - 1501,
                                .ts_max = (int32_t)d->n_vocab - 1, .flags = MX_RULE_TIMESTAMP_SUM, .no_speech = -1};
    pthread_mutex_init(&b->mels.lock, NULL);
    pthread_cond_init(&b->mels.changed, NULL);
    make_lengths(b->lengths);
}

static void give_room(bench *b) {
    mx_free(b->suppress);
    mx_free(b->columns);
    mx_free(b->cells);
    mx_free(b->rules);
    mx_free(b->mels.windows);
    mx_free(b->batch);
    mx_pool_close(b->mels.pool);
    pthread_mutex_destroy(&b->mels.lock);
    pthread_cond_destroy(&b->mels.changed);
}

static void run_until(bench *b, int n_ended, int *steps) {
    for (*steps = 0; b->n_ended < n_ended; ++*steps) {
        prompt(b);
        step(b);
    }
}

void time_throughput(const model *m, int beams, int most_slots, int rounds) {
    static bench b;
    pthread_t maker;
    int n_slots = most_slots, steps;
    rounds = rounds > 0 ? rounds : m->dims->n_text_layer <= 6 ? 10 : 2;
    b = (bench){.model = m, .beams = beams, .mels.most = MX_MIN(READY, 2 * most_slots)};
    take_room(&b);
    while (!fits(&b, n_slots) && n_slots > 1)
        n_slots -= (n_slots + 7) / 8;
    if (!b.state || pthread_create(&maker, NULL, make_windows, &b.mels))
        die("no window fits");
    run_until(&b, n_slots, &steps);
    int64_t start = mx_now_ns();
    int first = b.n_ended;
    run_until(&b, first + rounds * n_slots, &steps);
    double seconds = mx_since_ms(start) / 1e3, ended = b.n_ended - first;
    printf("  throughput, %s, %3d windows at once: %7.1f windows/s, %7.0f times real time (%d windows, %d steps of "
           "%.2f ms, %.1f s)\n", beams == 1 ? "greedy" : "5 beams", n_slots, ended / seconds, 30 * ended / seconds,
           (int)ended, steps, seconds / steps * 1e3, seconds);
    pthread_mutex_lock(&b.mels.lock);
    b.mels.over = 1;
    pthread_cond_broadcast(&b.mels.changed);
    pthread_mutex_unlock(&b.mels.lock);
    pthread_join(maker, NULL);
    close_runs(&b);
    give_room(&b);
}
