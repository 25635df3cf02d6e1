/* pipeline/details.c - details of each token: its log probability under the rules that applied to it, and the best
 * alternatives. The search keeps neither, so the window's text is forced through the decoder again, after the same
 * prompt. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

typedef struct details_context {
    mx_session *session;
    size_t n, k;
    mxw_status status;
} details_context;

/* One token with its human-readable text, in the session's memory. */
static mxw_status set_token(mx_session *s, mxw_token *to, int32_t id, double logprob) {
    mx_str text = {0};
    mxw_status status = id < 0 ? MXW_OK : mx_text_decode_with_timestamps(s->recognizer->text, &id, 1, &text);
    if (status >= 0)
        status = mx_str_status(&text);
    const char *copy = status < 0 ? NULL : mx_arena_strdup(&s->memory, mx_str_get(&text));
    mx_str_free(&text);
    *to = (mxw_token){id, logprob, copy};
    return status < 0 ? status : copy ? MXW_OK : MXW_E_MEMORY;
}

static mxw_status take_token(mx_session *s, const mx_forced *forced, size_t i, size_t k) {
    mxw_status status;
    const mx_candidates *c = &forced->candidates;
    int32_t id = s->window.tokens.items[i];
    double logprob = (double)forced->logits[i] - (double)c->stats[i * MX_SELECT_STATS + MX_SELECT_LOG_SUM];
    for (size_t j = 0; j < (size_t)c->k; j++)   /* under all rules, if it is among the candidates */
        if (c->ids[i * (size_t)c->k + j] == id)
            logprob = (double)c->logprobs[i * (size_t)c->k + j];
    MX_TRY(set_token(s, &s->window.details[i], id, MX_MIN(logprob, 0)));
    for (size_t j = 0, at = 0; j < k; at++) {
        int known = at < (size_t)c->k && c->ids[i * (size_t)c->k + at] >= 0;
        if (known && c->ids[i * (size_t)c->k + at] == id)
            continue;
        int32_t other = known ? c->ids[i * (size_t)c->k + at] : -1;
        MX_TRY(set_token(s, &s->window.alternatives[i * k + j++], other,
                         known ? (double)c->logprobs[i * (size_t)c->k + at] : -INFINITY));
    }
    status = MXW_OK;
out:
    return status;
}

static mxw_status set_unknown(mx_session *s, size_t i, size_t k) {
    mxw_status status = set_token(s, &s->window.details[i], s->window.tokens.items[i], NAN);
    for (size_t j = 0; j < k && status >= 0; j++)
        status = set_token(s, &s->window.alternatives[i * k + j], -1, -INFINITY);
    return status;
}

static void take_forced(void *context, const mx_forced *forced) {
    details_context *r = context;
    for (size_t i = 0; i < r->n && r->status >= 0; i++)
        r->status = take_token(r->session, forced, i, r->k);
}

mxw_status mx_session_read_details(mx_session *s, const int32_t *prompt, size_t n_prompt) {
    mxw_status status;
    const mx_tokens *tokens = &s->window.tokens;
    int64_t start = mx_now_ns();
    details_context r = {.session = s, .k = (size_t)s->options.token_details};
    mx_force force = {.wanted = tokens->items, .k = (int)r.k + 1, .take = take_forced, .context = &r};
    s->window.details = mx_arena_alloc(&s->memory, MX_MAX(tokens->n, 1) * sizeof(*s->window.details));
    s->window.alternatives = mx_arena_alloc(&s->memory, MX_MAX(tokens->n * r.k, 1) * sizeof(*s->window.alternatives));
    if (!s->window.details || !s->window.alternatives)
        return MXW_E_MEMORY;
    if (tokens->n == 0)
        return MXW_OK;
    MX_TRY(mx_decoding_force(s->decoding, s->language, prompt, n_prompt, tokens->items, tokens->n, &force.step));
    force.step.n_picks = MX_MIN(force.step.n_picks, (int)tokens->n);   /* the end of text is not wanted */
    r.n = (size_t)force.step.n_picks;
    MX_TRY(mx_slot_force(s->slot, &force));
    if (r.status < 0) {   /* the error line may be on another thread */
        status = mx_fail(r.status, "token details: %s", mxw_status_text(r.status));
        goto out;
    }
    for (size_t i = r.n; i < tokens->n; i++)   /* past the model's last position */
        MX_TRY(set_unknown(s, i, r.k));
    s->times.decode_ms += mx_since_ms(start);
out:
    return status;
}
