/* decode/rules.c - which tokens may come next: Whisper's timestamp grammar, as a rule for the select op.
 * Timestamps come in pairs (end of a segment, start of the next), never decrease, segments are not empty, and the
 * first token is a timestamp within max_initial_timestamp. */
#include "decode/decoding.h"

mx_rule mx_rule_for(const mx_decode_plan *plan, const int32_t *sampled, int n, int continued) {
    const mx_text_special *s = &plan->special;
    mx_rule rule = {.set = n == 0 && !continued ? MX_SET_FIRST : MX_SET_USUAL,
                    .ts_begin = s->n_vocab,
                    .ts_min = s->n_vocab,
                    .ts_max = s->n_vocab,
                    .no_speech = -1};
    if (plan->options.without_timestamps)
        return rule;
    rule.ts_begin = rule.ts_min = s->timestamp_begin;
    rule.ts_max = s->n_vocab - 1;
    rule.flags = MX_RULE_TIMESTAMP_SUM;
    if (n == 0 && !continued) {
        rule.min_id = s->timestamp_begin;
        if (plan->max_initial_timestamp_index >= 0)
            rule.ts_max = MX_MIN(rule.ts_max, s->timestamp_begin + plan->max_initial_timestamp_index);
        return rule;
    }
    int last = n > 0 && sampled[n - 1] >= s->timestamp_begin;
    int before = n < 2 ? !continued : sampled[n - 2] >= s->timestamp_begin;
    rule.ts_min += continued;   /* after the first one */
    for (int i = n - 1; i >= 0; i--)
        if (sampled[i] >= s->timestamp_begin) {
            rule.ts_min = sampled[i] + (last && !before ? 0 : 1);
            break;
        }
    if (last && before)
        rule.ts_min = s->n_vocab;   /* a pair is complete: text must follow */
    else if (last)
        rule.min_id = s->eot;       /* a segment just ended: the pair's other half, or the end */
    return rule;
}
