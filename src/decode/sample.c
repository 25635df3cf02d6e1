/* decode/sample.c - greedy at temperature 0, best-of-n above it; and the final ranking that both searches use. */
#include <math.h>

#include "decode/decoding.h"

void mx_sample_take(mx_decoding *d, const int32_t *ids, const float *logprobs, int k) {
    int pick = 0, all_done = 1;
    int first = d->n_steps == 0;
    d->n_sequences = mx_decoding_group(d);
    for (int j = 0; j < d->n_sequences; j++) {
        mx_sequence *s = &d->sequences[j];
        if (!first && s->done)
            continue;
        int32_t id = ids[pick * k];
        if (id >= 0)
            s->sum_logprob += logprobs[pick * k];
        if (id < 0 || id == d->plan->special.eot)
            s->done = 1;
        else
            s->tokens[s->n_tokens++] = id;
        mx_sequence_break_loop(d->plan, s);
        all_done = all_done && s->done;
        pick++;
    }
    d->complete = all_done;
}

const mx_sequence *mx_sample_best(mx_decoding *d) { return mx_rank(d->plan, d->sequences, d->n_sequences); }

const mx_sequence *mx_rank(const mx_decode_plan *plan, const mx_sequence *sequences, int n) {
    const mx_sequence *best = NULL;
    double best_score = 0, alpha = plan->options.length_penalty;
    int all_looped = 1;
    for (int i = 0; i < n; i++)
        all_looped = all_looped && sequences[i].looped;
    for (int i = 0; i < n; i++) {
        if (sequences[i].looped && !all_looped)
            continue;
        double length = sequences[i].n_tokens;
        /* The reference divides by zero on an empty text; here its log probability is used. */
        double penalty = alpha == MXW_NONE ? MX_MAX(length, 1) : pow((5 + length) / 6, alpha);
        double score = (double)sequences[i].sum_logprob / penalty;
        if (!best || score > best_score) {
            best = &sequences[i];
            best_score = score;
        }
    }
    return best;
}
