/* decode/plan.c - checks the options and computes suppression sets and sizes, once per session. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decode/decode.h"

static uint8_t *set_row(mx_decode_plan *plan, int set) { return plan->suppress + (size_t)set * plan->special.n_vocab; }

static mxw_status suppress_listed(mx_decode_plan *plan, uint8_t *row) {
    const char *at = plan->options.suppress_tokens;
    const int32_t *ids;
    size_t n;
    while (*at) {
        char *end;
        errno = 0;
        long id = strtol(at, &end, 10);
        if (end == at || errno || (*end && *end != ',') || id < -1 || id >= plan->special.n_vocab)
            return mx_fail(MXW_E_ARGUMENT, "suppress_tokens: '%s' is not a list of token ids below %d",
                           plan->options.suppress_tokens, plan->special.n_vocab);
        if (id >= 0) {
            row[id] = 1;
        } else {
            mx_text_non_speech(plan->text, &ids, &n);
            for (size_t i = 0; i < n; i++)
                row[ids[i]] = 1;
        }
        at = *end ? end + 1 : end;
    }
    return MXW_OK;
}

/* The sets: default; first step, which also suppresses blank and end of text; languages only; nothing suppressed. */
static mxw_status fill_sets(mx_decode_plan *plan) {
    const mx_text_special *s = &plan->special;
    uint8_t *usual = set_row(plan, MX_SET_USUAL), *first = set_row(plan, MX_SET_FIRST);
    uint8_t *languages = set_row(plan, MX_SET_LANGUAGES);
    if (plan->options.suppress_tokens && *plan->options.suppress_tokens) {
        const int32_t always[] = {s->transcribe, s->translate, s->sot, s->sot_prev, s->sot_lm, s->no_speech};
        mxw_status status = suppress_listed(plan, usual);
        if (status < 0)
            return status;
        for (size_t i = 0; i < MX_COUNT(always); i++)
            usual[always[i]] = 1;
    }
    if (!plan->options.without_timestamps)
        usual[s->no_timestamps] = 1;
    memcpy(first, usual, (size_t)s->n_vocab);
    if (plan->options.suppress_blank) {
        int32_t *blank = NULL;
        size_t n = 0;
        mxw_status status = mx_text_encode(plan->text, " ", 1, &blank, &n);
        if (status < 0)
            return status;
        for (size_t i = 0; i < n; i++)
            first[blank[i]] = 1;
        first[s->eot] = 1;
        mx_free(blank);
    }
    memset(languages, 1, (size_t)s->n_vocab);
    for (int i = 0; i < s->n_languages && !plan->options.languages; i++)
        languages[s->first_language + i] = 0;
    for (int i = 0; i < plan->options.n_languages; i++)
        languages[mx_text_language_token(plan->text, plan->options.languages[i])] = 0;
    return MXW_OK;
}

/* openai-whisper cuts the prefix to n_ctx / 2 - sample_len tokens; that number may be 0 (all are kept) or negative. */
static mxw_status encode_prefix(mx_decode_plan *plan) {
    const mx_decode_options *o = &plan->options;
    size_t n_all = 0;
    int32_t *all = NULL;
    if (!o->prefix || !*o->prefix)
        return MXW_OK;
    mxw_status status = mx_encode_prompt(plan->text, "prefix", o->prefix, &all, &n_all);
    if (status < 0)
        return status;
    size_t skip = mx_tail_start(n_all, o->n_text_ctx / 2 - o->sample_len);
    plan->n_prefix = n_all - skip;
    memmove(all, all + skip, plan->n_prefix * sizeof(*all));
    plan->prefix = all;
    return MXW_OK;
}

static mxw_status check(mx_decode_plan *plan) {
    mx_decode_options *o = &plan->options;
    if (o->sample_len <= 0)
        o->sample_len = o->n_text_ctx / 2;
    if (o->sample_len > o->n_text_ctx)
        return mx_fail(MXW_E_ARGUMENT, "sample_len: %d is more than the text context of %d", o->sample_len,
                       o->n_text_ctx);
    if (o->patience != MXW_NONE && o->beam_size <= 0)
        return mx_fail(MXW_E_ARGUMENT, "patience needs a beam size");
    if (o->length_penalty != MXW_NONE && !(o->length_penalty >= 0 && o->length_penalty <= 1))
        return mx_fail(MXW_E_ARGUMENT, "length_penalty: %g is not from 0 to 1", o->length_penalty);
    plan->repetition = (mx_repetition){o->repetition_penalty == 0 ? 1 : (float)o->repetition_penalty,
                                       o->no_repeat_ngram_size};
    plan->has_repetition = plan->repetition.penalty != 1 || plan->repetition.ngram > 0;
    double patience = o->patience == MXW_NONE || o->patience == 0 ? 1.0 : o->patience;
    plan->max_candidates = (int)nearbyint(o->beam_size * patience);
    if (o->beam_size > 0 && plan->max_candidates <= 0)
        return mx_fail(MXW_E_ARGUMENT, "patience: %g leaves no candidate for a beam of %d", o->patience, o->beam_size);
    plan->max_initial_timestamp_index = -1;
    if (o->max_initial_timestamp != MXW_NONE && o->max_initial_timestamp != 0)
        plan->max_initial_timestamp_index =
            (int)nearbyint(MX_MIN(o->max_initial_timestamp, 1e6) / (30.0 / o->n_audio_ctx));
    plan->n_group = MX_MAX(1, MX_MAX(o->beam_size, o->best_of));
    return MXW_OK;
}

mxw_status mx_decode_plan_open(const mx_decode_options *options, const mx_text *text, mx_decode_plan **out) {
    mxw_status status;
    mx_decode_plan *plan = mx_alloc_zero(1, sizeof(*plan));
    if (!plan)
        return MXW_E_MEMORY;
    plan->options = *options;
    plan->options.prefix = plan->options.suppress_tokens = NULL;
    plan->text = text;
    plan->special = *mx_text_specials(text);
    plan->suppress = mx_alloc_zero(MX_SET_COUNT, (size_t)plan->special.n_vocab);
    status = MXW_E_MEMORY;
    if (!plan->suppress)
        goto out;
    plan->options.prefix = options->prefix;
    plan->options.suppress_tokens = options->suppress_tokens;
    MX_TRY(check(plan));
    MX_TRY(fill_sets(plan));
    MX_TRY(encode_prefix(plan));
    plan->options.prefix = plan->options.suppress_tokens = NULL;   /* owned by the caller; no longer needed */
    plan->options.languages = NULL;

    /* previous text with its start token, then start, language, task, no-timestamps, then the prefix */
    plan->n_initial_max = plan->options.n_text_ctx / 2 + 4 + (int)plan->n_prefix;
    if (plan->n_initial_max > plan->options.n_text_ctx) {
        status = mx_fail(MXW_E_ARGUMENT, "prefix: %zu tokens leave no room in a text context of %d", plan->n_prefix,
                         plan->options.n_text_ctx);
        goto out;
    }
    plan->n_cells = plan->n_initial_max + plan->n_group * plan->options.sample_len;
    *out = plan;
    return MXW_OK;
out:
    mx_decode_plan_close(plan);
    return status;
}

void mx_decode_plan_close(mx_decode_plan *plan) {
    if (!plan)
        return;
    mx_free(plan->suppress);
    mx_free(plan->prefix);
    mx_free(plan);
}
