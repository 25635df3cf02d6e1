/* pipeline/live/policy.c - which words are final while somebody speaks. Both policies only ever look at words that end
 * at least the margin before the end of the audio: what follows may still change how they are heard. And at the end of
 * an utterance, when all words become final: those of which pass. */
#include "base/base.h"
#include "pipeline/live/live.h"

static int is_in_time(const mx_hypothesis *h, size_t i, double margin_s) {
    return h->words[i].end_s <= h->audio_s - margin_s;
}

/* LocalAgreement: the words that this pass and the one before it have in common, after the final ones. */
static size_t settle_agreement(const mx_hypothesis *before, const mx_hypothesis *now, double margin_s) {
    size_t n = now->next, old = before->next;
    while (n < now->n_words && old < before->n_words && mx_live_word_equal(before, old, now, n) &&
           is_in_time(now, n, margin_s)) {
        n++;
        old++;
    }
    return n;
}

/* AlignAtt: words whose tokens all look at a place before the margin, up to the first that does not. The last word is
 * kept back, because more of it may follow. */
static size_t settle_alignatt(const mx_hypothesis *before, const mx_hypothesis *now, double margin_s) {
    size_t n = now->next;
    (void)before;
    while (n + 1 < now->n_words && now->words[n].attended_s <= now->audio_s - margin_s &&
           is_in_time(now, n, margin_s))
        n++;
    return n;
}

const mx_policy *mx_policy_of(mxw_live_policy policy) {
    static const mx_policy policies[] = {[MXW_LIVE_AGREEMENT] = {"agreement", settle_agreement},
                                         [MXW_LIVE_ALIGNATT] = {"alignatt", settle_alignatt}};
    return (size_t)policy < MX_COUNT(policies) ? &policies[policy] : NULL;
}

#define LOST_TAIL (0.3 * MXW_SAMPLE_RATE)   /* of speech after the last word: too much for nothing to have been said */

/* Where the last word ends that the guard lets pass, in samples of the stream. */
static double end_of(const mx_hypothesis *h, int64_t clip) {
    double end_s = 0;
    for (size_t i = 0; i < h->n_words; i++)
        if (h->words[i].suspicion < MX_GUARD_SUSPECTED)
            end_s = MX_MAX(end_s, h->words[i].end_s);
    return (double)clip + end_s * MXW_SAMPLE_RATE;
}

static double middle_of(const mx_live_word *word, int64_t clip) {
    return (double)clip + (word->start_s + word->end_s) / 2 * MXW_SAMPLE_RATE;
}

/* Whether one pass has words where another one, which has some too, has lost the end of what was said. */
static int says_more(const mx_live *live, const mx_hypothesis *h, int64_t clip, const mx_hypothesis *than,
                     int64_t than_clip) {
    double said_until = MX_MIN(end_of(h, clip), (double)live->listener.waiting[0].speech_end);
    return than->n_words > 0 && said_until - end_of(than, than_clip) >= LOST_TAIL;
}

static void swap_passes(mx_live *live) {
    mx_hypothesis now = live->now;
    int64_t clip = live->now_clip;
    live->now = live->before;
    live->now_clip = live->before_clip;
    live->before = now;
    live->before_clip = clip;
}

void mx_live_keep_tail(mx_live *live) {
    mx_hypothesis *before = &live->before;
    if (!says_more(live, before, live->before_clip, &live->now, live->now_clip))
        return;
    double final_end = (live->final_end_s - live->listener.waiting[0].offset_s) * MXW_SAMPLE_RATE;
    while (live->now.next > live->now_given && before->next < before->n_words &&   /* words of this pass are final */
           middle_of(&before->words[before->next], live->before_clip) <= final_end)
        before->next++;
    swap_passes(live);
}

int mx_live_lacks_tail(const mx_live *live) {
    const mx_utterance *u = &live->listener.waiting[0];
    return u->breaks_off && live->now.n_words > 0 &&
           (double)u->speech_end - end_of(&live->now, live->now_clip) >= LOST_TAIL;
}

void mx_live_choose_tail(mx_live *live) {
    if (!says_more(live, &live->now, live->now_clip, &live->before, live->before_clip))
        swap_passes(live);
}
