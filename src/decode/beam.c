/* decode/beam.c - beam search: every live sequence proposes beam + 1 tokens; the best continuations are kept, and ended
 * sequences are collected until there are enough. Beams share their past by cell index; only indices are copied. */
#include <string.h>

#include "decode/decoding.h"

/* Removes and returns the best of n candidates, the first proposed among equals, as a stable sort would. Selecting a
 * few of about thirty is faster than sorting them. */
static mx_beam_candidate take_best(mx_beam_candidate *pool, int n) {
    mx_beam_candidate *best = pool;
    for (int i = 1; i < n; i++)
        if (pool[i].score > best->score || (pool[i].score == best->score && pool[i].order < best->order))
            best = &pool[i];
    mx_beam_candidate taken = *best;
    *best = pool[n - 1];
    return taken;
}

static int propose(mx_decoding *d, const int32_t *ids, const float *logprobs, int k) {
    int n = 0, width = MX_MIN(k, d->plan->options.beam_size + 1);
    for (int j = 0; j < d->n_sequences; j++)
        for (int c = 0; c < width; c++) {
            int32_t id = ids[j * k + c];
            if (id < 0)
                break;
            float score = d->sequences[j].sum_logprob + logprobs[j * k + c];
            d->pool[n] = (mx_beam_candidate){score, j, id, n};
            n++;
        }
    return n;
}

static void finish(mx_decoding *d, const mx_beam_candidate *c) {
    if (d->n_finished >= d->plan->max_candidates)
        return;
    mx_sequence *s = &d->finished[d->n_finished++];
    mx_sequence_copy(s, &d->sequences[c->source]);
    s->sum_logprob = c->score;
    s->done = 1;
}

void mx_beam_take(mx_decoding *d, const int32_t *ids, const float *logprobs, int k) {
    const mx_decode_plan *plan = d->plan;
    size_t row = (size_t)plan->options.n_text_ctx, used = (size_t)(d->n_initial + d->n_steps);
    int n = propose(d, ids, logprobs, k), kept = 0;
    for (; n > 0 && kept < plan->options.beam_size; n--) {
        const mx_beam_candidate c = take_best(d->pool, n);
        if (c.token == plan->special.eot) {
            finish(d, &c);
            continue;
        }
        mx_sequence *s = &d->other[kept];
        mx_sequence_copy(s, &d->sequences[c.source]);
        s->tokens[s->n_tokens++] = c.token;
        s->sum_logprob = c.score;
        if (mx_sequence_break_loop(plan, s)) {
            if (d->n_finished < plan->max_candidates)
                mx_sequence_copy(&d->finished[d->n_finished++], s);
            continue;
        }
        memcpy(d->other_cells + (size_t)kept * row, d->cells + (size_t)c.source * row, used * sizeof(*d->cells));
        kept++;
    }
    mx_sequence *sequences = d->sequences;
    d->sequences = d->other;
    d->other = sequences;
    int32_t *cells = d->cells;
    d->cells = d->other_cells;
    d->other_cells = cells;
    d->n_sequences = kept;
    d->complete = d->n_finished >= plan->max_candidates || kept == 0;
}

/* If too few sequences have ended, the best live ones are added as they are. */
const mx_sequence *mx_beam_best(mx_decoding *d) {
    int beam = d->plan->options.beam_size;
    while (d->n_finished < beam) {
        mx_sequence *best = NULL;
        for (int j = 0; j < d->n_sequences; j++) {
            mx_sequence *s = &d->sequences[j];
            if (!s->done && (!best || s->sum_logprob >= best->sum_logprob))
                best = s;
        }
        if (!best)
            break;
        best->done = 1;
        mx_sequence_copy(&d->finished[d->n_finished++], best);
    }
    return mx_rank(d->plan, d->finished, d->n_finished);
}
