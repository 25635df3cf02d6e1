/* decode/decoding.c - decodes one window: the initial tokens, the rows of each step, the result. */
#include "decode/decoding.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

int mx_decoding_is_beam(const mx_decoding *d) {
    return d->plan->options.beam_size > 0 && d->temperature == 0 && !d->greedy;
}

int mx_decoding_group(const mx_decoding *d) {
    if (d->temperature == 0)
        return d->greedy ? 1 : MX_MAX(d->plan->options.beam_size, 1);
    return MX_MAX(d->plan->options.best_of, 1);
}

int mx_decoding_candidates(const mx_decoding *d) {
    return mx_decoding_is_beam(d) ? d->plan->options.beam_size + 1 : 1;
}

void mx_sequence_copy(mx_sequence *to, const mx_sequence *from) {
    memcpy(to->tokens, from->tokens, (size_t)from->n_tokens * sizeof(*to->tokens));
    to->n_tokens = from->n_tokens;
    to->sum_logprob = from->sum_logprob;
    to->done = from->done;
    to->looped = from->looped;
}

static mxw_status open_sequences(int n, int n_tokens, mx_sequence **out) {
    mx_sequence *sequences = mx_alloc_zero((size_t)n, sizeof(*sequences));
    int32_t *tokens = mx_alloc_array((size_t)n * (size_t)n_tokens, sizeof(*tokens));
    if (!sequences || !tokens) {
        mx_free(sequences);
        mx_free(tokens);
        return MXW_E_MEMORY;
    }
    for (int i = 0; i < n; i++)
        sequences[i].tokens = tokens + (size_t)i * (size_t)n_tokens;
    *out = sequences;
    return MXW_OK;
}

/* The tokens of all n sequences are one allocation, which begins at the lowest pointer. */
static void close_sequences(mx_sequence *sequences, int n) {
    if (!sequences)
        return;
    int32_t *block = sequences[0].tokens;
    for (int i = 1; i < n; i++)
        block = MX_MIN(block, sequences[i].tokens);
    mx_free(block);
    mx_free(sequences);
}

mxw_status mx_decoding_open(const mx_decode_plan *plan, mx_decoding **out) {
    mxw_status status;
    mx_decoding *d = mx_alloc_zero(1, sizeof(*d));
    if (!d)
        return MXW_E_MEMORY;
    d->plan = plan;
    int group = plan->n_group, sample_len = plan->options.sample_len;
    size_t n_cells = (size_t)group * (size_t)plan->options.n_text_ctx;
    size_t n_rows = (size_t)MX_MAX(plan->n_initial_max + sample_len, group);
    size_t n_picks = (size_t)MX_MAX(sample_len + 1, group + 1);
    d->n_finished_max = MX_MAX(plan->max_candidates, MX_MAX(plan->options.beam_size, 1));
    MX_TRY(open_sequences(group, sample_len + 1, &d->sequences));
    MX_TRY(open_sequences(group, sample_len + 1, &d->other));
    MX_TRY(open_sequences(d->n_finished_max, sample_len + 1, &d->finished));
    d->initial = mx_alloc_array((size_t)plan->n_initial_max, sizeof(*d->initial));
    d->cells = mx_alloc_zero(n_cells, sizeof(*d->cells));
    d->other_cells = mx_alloc_zero(n_cells, sizeof(*d->cells));
    d->pool = mx_alloc_array((size_t)group * (size_t)(plan->options.beam_size + 1), sizeof(*d->pool));
    d->rows = mx_alloc_array(n_rows, sizeof(*d->rows));
    d->picks = mx_alloc_array(n_picks, sizeof(*d->picks));
    d->rules = mx_alloc_array(n_picks, sizeof(*d->rules));
    d->said = plan->has_repetition ? mx_alloc_zero(n_picks, sizeof(*d->said)) : NULL;
    if (!d->initial || !d->cells || !d->other_cells || !d->pool || !d->rows || !d->picks || !d->rules ||
        (plan->has_repetition && !d->said)) {
        status = MXW_E_MEMORY;
        goto out;
    }
    *out = d;
    return MXW_OK;
out:
    mx_decoding_close(d);
    return status;
}

void mx_decoding_close(mx_decoding *d) {
    if (!d)
        return;
    close_sequences(d->sequences, d->plan->n_group);
    close_sequences(d->other, d->plan->n_group);
    close_sequences(d->finished, d->n_finished_max);
    mx_free(d->initial);
    mx_free(d->cells);
    mx_free(d->other_cells);
    mx_free(d->pool);
    mx_free(d->rows);
    mx_free(d->picks);
    mx_free(d->rules);
    mx_free(d->said);
    mx_str_free(&d->text);
    mx_free(d);
}

/* [previous text] start [language task] [no timestamps] [prefix] */
static mxw_status initial_tokens(mx_decoding *d, const char *language, const int32_t *prompt, size_t n_prompt) {
    const mx_decode_plan *plan = d->plan;
    const mx_text_special *s = &plan->special;
    int n = 0;
    if (n_prompt) {
        size_t skip = mx_tail_start(n_prompt, plan->options.n_text_ctx / 2 - 1);
        d->initial[n++] = s->sot_prev;
        memcpy(d->initial + n, prompt + skip, (n_prompt - skip) * sizeof(*prompt));
        n += (int)(n_prompt - skip);
    }
    d->sot_index = n;
    d->initial[n++] = s->sot;
    if (s->multilingual) {
        int32_t token = mx_text_language_token(plan->text, language);
        if (token < 0)
            return mx_fail(MXW_E_ARGUMENT, "language: this model does not support '%s'", language);
        d->initial[n++] = token;
        d->initial[n++] = plan->options.task == MXW_TRANSLATE ? s->translate : s->transcribe;
    }
    if (plan->options.without_timestamps)
        d->initial[n++] = s->no_timestamps;
    d->text_index = n;
    memcpy(d->initial + n, plan->prefix ? plan->prefix : d->initial, plan->n_prefix * sizeof(*d->initial));
    d->n_initial = n + (int)plan->n_prefix;
    return MXW_OK;
}

mxw_status mx_decoding_start(mx_decoding *d, const char *language, const int32_t *prompt, size_t n_prompt,
                             double temperature, uint64_t window) {
    d->temperature = temperature;
    d->window = window;
    d->n_sequences = 1;
    d->n_steps = d->complete = d->n_finished = 0;
    d->n_continued = d->greedy = 0;
    d->no_speech_prob = 0;
    for (int i = 0; i < d->plan->n_group; i++) {
        d->sequences[i].n_tokens = d->sequences[i].done = d->sequences[i].looped = 0;
        d->sequences[i].sum_logprob = 0;
    }
    return initial_tokens(d, language, prompt, n_prompt);
}

mxw_status mx_decoding_continue(mx_decoding *d, const int32_t *tokens, size_t n, int greedy) {
    int stamp = n > 0 && !d->plan->options.without_timestamps;
    size_t room = (size_t)(d->plan->n_initial_max - d->n_initial);
    if (n + (size_t)stamp > room)
        return mx_fail(MXW_E_ARGUMENT, "begin: %zu tokens, where beside the text before there is room for %zu", n,
                       room - (size_t)stamp);
    if (stamp)
        d->initial[d->n_initial++] = d->plan->special.timestamp_begin;
    if (n)
        memcpy(d->initial + d->n_initial, tokens, n * sizeof(*tokens));
    d->n_initial += (int)n;
    d->n_continued = (int)n;
    d->greedy = greedy;
    return MXW_OK;
}

/* A sequence's rule, with its own random draw. */
static mx_rule rule_of(const mx_decoding *d, int sequence) {
    const mx_sequence *s = &d->sequences[sequence];
    mx_rule rule = mx_rule_for(d->plan, s->tokens, s->n_tokens, d->n_continued > 0);
    uint64_t seed = d->plan->options.seed;
    rule.temperature = (float)d->temperature;
    rule.key[0] = (uint32_t)seed;
    rule.key[1] = (uint32_t)(seed >> 32);
    rule.counter[0] = (uint32_t)(d->n_steps * d->plan->n_group + sequence);
    rule.counter[1] = (uint32_t)d->window;
    return rule;
}

/* The step with what its picks' sequences have said: the first `skip` of them nothing. */
static mx_decode_step with_said(const mx_decoding *d, mx_decode_step step, int skip) {
    if (!d->said)
        return step;
    for (int i = 0; i < step.n_picks; i++) {
        const mx_sequence *s = i < skip ? NULL : &d->sequences[step.rows[step.picks[i]].sequence];
        d->said[i] = s ? (mx_said){d->initial + d->text_index, s->tokens, d->n_initial - d->text_index, s->n_tokens}
                       : (mx_said){0};
    }
    step.repetition = &d->plan->repetition;
    step.said = d->said;
    return step;
}

static void add_initial_rows(mx_decoding *d) {
    for (int i = 0; i < d->n_initial; i++) {
        d->rows[i] = (mx_decode_row){d->initial[i], i, 0, i};
        d->cells[i] = i;
    }
}

/* All initial tokens as one sequence; its last row is picked once for each sequence that will be sampled. */
static void first_step(mx_decoding *d, mx_decode_step *step) {
    int draws = mx_decoding_is_beam(d) ? 1 : mx_decoding_group(d);
    int n = 0;
    add_initial_rows(d);
    d->n_first_extra = d->sot_index != d->n_initial - 1;
    if (d->n_first_extra) {
        d->picks[n] = d->sot_index;
        d->rules[n++] = (mx_rule){.set = MX_SET_NONE,
                                  .ts_begin = d->plan->special.n_vocab,
                                  .ts_max = d->plan->special.n_vocab,
                                  .no_speech = d->plan->special.no_speech};
    }
    for (int j = 0; j < draws; j++) {
        d->picks[n] = d->n_initial - 1;
        d->rules[n++] = rule_of(d, j);
    }
    if (!d->n_first_extra)
        d->rules[0].no_speech = d->plan->special.no_speech;
    *step = with_said(d, (mx_decode_step){d->rows, d->n_initial, d->cells, 1, d->picks, d->rules, n},
                      d->n_first_extra);
}

static void next_step(mx_decoding *d, mx_decode_step *step) {
    const mx_decode_plan *plan = d->plan;
    int n = 0, position = d->n_initial + d->n_steps - 1;
    for (int j = 0; j < d->n_sequences; j++) {
        const mx_sequence *s = &d->sequences[j];
        if (s->done)
            continue;
        int32_t cell = d->n_initial + (d->n_steps - 1) * plan->n_group + j;
        d->cells[(size_t)j * (size_t)plan->options.n_text_ctx + (size_t)position] = cell;
        d->rows[n] = (mx_decode_row){s->tokens[s->n_tokens - 1], position, j, cell};
        d->picks[n] = n;
        d->rules[n++] = rule_of(d, j);
    }
    *step = with_said(d, (mx_decode_step){d->rows, n, d->cells, d->n_sequences, d->picks, d->rules, n}, 0);
}

int mx_decoding_step(mx_decoding *d, mx_decode_step *step) {
    if (d->complete)
        return 0;
    if (d->n_steps == 0)
        first_step(d, step);
    else
        next_step(d, step);
    return 1;
}

/* Sampled sequences start with the same past: the cells of the initial tokens. */
static void share_initial_cells(mx_decoding *d) {
    size_t row = (size_t)d->plan->options.n_text_ctx;
    for (int j = 1; j < d->n_sequences; j++)
        memcpy(d->cells + (size_t)j * row, d->cells, (size_t)d->n_initial * sizeof(*d->cells));
}

void mx_decoding_take(mx_decoding *d, const mx_candidates *c) {
    int skip = d->n_steps == 0 ? d->n_first_extra : 0;
    const int32_t *ids = c->ids + (size_t)skip * (size_t)c->k;
    const float *logprobs = c->logprobs + (size_t)skip * (size_t)c->k;
    if (d->n_steps == 0)
        d->no_speech_prob = c->stats[MX_SELECT_NO_SPEECH];
    if (mx_decoding_is_beam(d)) {
        mx_beam_take(d, ids, logprobs, c->k);
    } else {
        mx_sample_take(d, ids, logprobs, c->k);
        if (d->n_steps == 0)
            share_initial_cells(d);
    }
    d->n_steps++;
    if (d->n_steps >= d->plan->options.sample_len || d->n_initial + d->n_steps > d->plan->options.n_text_ctx)
        d->complete = 1;
}

mxw_status mx_decoding_result(mx_decoding *d, mx_decode_result *result) {
    const mx_sequence *best = mx_decoding_is_beam(d) ? mx_beam_best(d) : mx_sample_best(d);
    if (!best)
        return mx_fail(MXW_E_INTERNAL, "decoding: every token was suppressed");
    mx_str_clear(&d->text);
    mxw_status status = mx_text_decode(d->plan->text, best->tokens, (size_t)best->n_tokens, &d->text);
    if (status < 0 || (status = mx_str_status(&d->text)) < 0)
        return status;
    size_t n = d->text.n;
    const char *stripped = mx_utf8_strip(mx_str_get(&d->text), &n);
    if (d->text.data)
        d->text.data[(size_t)(stripped - d->text.data) + n] = 0;
    *result = (mx_decode_result){.tokens = best->tokens,
                                 .n_tokens = (size_t)best->n_tokens,
                                 .avg_logprob = (double)best->sum_logprob / (best->n_tokens + 1),
                                 .no_speech_prob = d->no_speech_prob,
                                 .temperature = d->temperature,
                                 .text = stripped,
                                 .ended = best->n_tokens < d->n_steps && !best->looped,
                                 .looped = best->looped};
    return mx_compression_ratio(stripped, n, &result->compression_ratio);
}

mxw_status mx_decoding_force(mx_decoding *d, const char *language, const int32_t *prompt, size_t n_prompt,
                             const int32_t *tokens, size_t n_tokens, mx_decode_step *step) {
    mxw_status status = mx_decoding_start(d, language, prompt, n_prompt, 0, 0);
    if (status < 0)
        return status;
    int n = (int)n_tokens, room = d->plan->options.n_text_ctx - d->n_initial;
    if (n_tokens > (size_t)d->plan->options.sample_len)
        return mx_fail(MXW_E_ARGUMENT, "decoding: %zu tokens are more than sample_len", n_tokens);
    add_initial_rows(d);
    int n_rows = d->n_initial;
    for (int i = 0; i < n && i < room; i++, n_rows++) {
        d->rows[n_rows] = (mx_decode_row){tokens[i], n_rows, 0, n_rows};
        d->cells[n_rows] = n_rows;
    }
    int n_picks = n_rows - d->n_initial + 1;
    for (int i = 0; i < n_picks; i++) {
        d->picks[i] = d->n_initial - 1 + i;
        d->rules[i] = mx_rule_for(d->plan, tokens, i, 0);
    }
    *step = (mx_decode_step){d->rows, n_rows, d->cells, 1, d->picks, d->rules, n_picks};
    return MXW_OK;
}

static int add_row(mx_decoding *d, int n, int32_t token) {
    d->rows[n] = (mx_decode_row){token, n, 0, n};
    d->cells[n] = n;
    return n + 1;
}

mxw_status mx_decoding_align(mx_decoding *d, const char *language, const int32_t *tokens, size_t n_tokens,
                             mx_decode_step *step, size_t *n_before) {
    const mx_text_special *s = &d->plan->special;
    mxw_status status = mx_decoding_start(d, language, NULL, 0, 0, 0);
    if (status < 0)
        return status;
    int n_start = s->multilingual ? 3 : 1, n_rows = 0, n = (int)n_tokens;
    if (n_tokens > (size_t)d->plan->options.sample_len || n_start + n + 2 > d->plan->options.n_text_ctx)
        return mx_fail(MXW_E_ARGUMENT, "alignment: %zu tokens are too many", n_tokens);
    for (int i = 0; i < n_start; i++)
        n_rows = add_row(d, n_rows, d->initial[d->sot_index + i]);
    n_rows = add_row(d, n_rows, s->no_timestamps);
    for (int i = 0; i < n; i++)
        n_rows = add_row(d, n_rows, tokens[i]);
    n_rows = add_row(d, n_rows, s->eot);
    for (int i = 0; i < n; i++) {
        d->picks[i] = n_start + i;
        d->rules[i] = (mx_rule){.set = MX_SET_NONE, .ts_begin = s->eot, .ts_min = s->eot + 1, .ts_max = s->eot,
                                .no_speech = -1};
    }
    *n_before = (size_t)n_start;
    *step = (mx_decode_step){d->rows, n_rows, d->cells, 1, d->picks, d->rules, n};
    return MXW_OK;
}
