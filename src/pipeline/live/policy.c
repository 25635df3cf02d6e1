/* pipeline/live/policy.c - which words are final while somebody speaks. Both policies only ever look at words that end
 * at least the margin before the end of the audio: what follows may still change how they are heard. */
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
