/* decode/loop.c - finds the same words again and again at the end of a sequence while it is decoded.
 *
 * A loop is a unit of 1 to 64 tokens of text that follows itself, timestamps left aside, more often than people repeat
 * themselves. Where the timestamps between the repetitions leave the time to say them, twice as many are needed: then
 * somebody may really be saying it. */
#include "decode/decoding.h"

#define LONGEST_UNIT 64
#define MOST_TOKENS 512     /* that are looked at: more than a window has */
#define TOKENS_PER_S 8      /* people say fewer */

/* How often a unit of so many tokens has to be there. */
static int repeats_of_loop(int unit) {
    return unit == 1 ? 8 : unit < 4 ? 6 : unit < 8 ? 5 : 4;
}

/* Tokens of text, the last first: text[i] is tokens[at[i]]. */
typedef struct tail {
    int32_t text[MOST_TOKENS];
    int at[MOST_TOKENS];
    int n;
} tail;

static void read_tail(tail *t, const int32_t *tokens, int n, int32_t eot) {
    t->n = 0;
    for (int i = n - 1; i >= 0 && t->n < MOST_TOKENS; i--)
        if (tokens[i] < eot) {
            t->text[t->n] = tokens[i];
            t->at[t->n++] = i;
        }
}

/* How often the last unit is there in a row. */
static int repeats(const tail *t, int unit) {
    int equal = 0;
    while (equal + unit < t->n && t->text[equal] == t->text[equal + unit])
        equal++;
    return equal / unit + 1;
}

/* Whether the timestamps around the last n repetitions leave the time to say them. */
static int has_time(const mx_decode_plan *plan, const tail *t, const int32_t *tokens, int unit, int n) {
    int32_t begin = plan->special.timestamp_begin, first = -1, last = -1;
    for (int i = t->at[unit * n - 1]; i <= t->at[0]; i++)
        if (tokens[i] >= begin) {
            first = first < 0 ? tokens[i] : first;
            last = tokens[i];
        }
    double seconds = (last - first) * 30.0 / plan->options.n_audio_ctx;
    return first >= 0 && seconds >= (double)(unit * (n - 1)) / TOKENS_PER_S;
}

int mx_loop_begin(const mx_decode_plan *plan, const int32_t *tokens, int n) {
    tail t;
    if (n == 0 || tokens[n - 1] >= plan->special.eot)
        return n;
    read_tail(&t, tokens, n, plan->special.eot);
    for (int unit = 1; unit <= LONGEST_UNIT && 2 * unit <= t.n; unit++) {
        int there = repeats(&t, unit), needed = repeats_of_loop(unit);
        if (there < needed || (there < 2 * needed && has_time(plan, &t, tokens, unit, needed)))
            continue;
        return t.at[unit * (there - 1) - 1];   /* after the first time */
    }
    return n;
}

/* Its probability is taken to be spread evenly over its tokens: that of each is not kept. */
int mx_sequence_break_loop(const mx_decode_plan *plan, mx_sequence *s) {
    int kept = plan->options.break_loops ? mx_loop_begin(plan, s->tokens, s->n_tokens) : s->n_tokens;
    if (kept == s->n_tokens)
        return 0;
    s->sum_logprob *= (float)(kept + 1) / (float)(s->n_tokens + 1);
    s->n_tokens = kept;
    s->done = s->looped = 1;
    return 1;
}
