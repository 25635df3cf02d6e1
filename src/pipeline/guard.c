/* pipeline/guard.c - the guard against invented text: collects what a run knows about the words of a window, has
 * guard/ judge them, and marks them or leaves them out. Where the next window begins does not depend on it; what is
 * left out is no prompt for the next window either. See docs/decoding.md. */
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

#define FRAME_SAMPLES (MXW_SAMPLE_RATE / MX_GUARD_FRAMES_PER_S)

/* ---- evidence ---------------------------------------------------------------------------------------------------- */

/* While a recording is running, the last chunks of a window are not used: whether they are known yet depends on how
 * samples came. The chunk before them stands for them. */
static void listen(mx_session *s, size_t n_frames) {
    int64_t begin = s->at.seek * MX_MEL_HOP, end = begin + (int64_t)n_frames * FRAME_SAMPLES;
    size_t n_chunks;
    mx_session_lock(s);
    const float *chunks = mx_speech_probabilities(s->levelled, &n_chunks);
    int at_end = s->finished && end + MX_SPEECH_CHUNK >= mx_mel_frames(s->mel) * MX_MEL_HOP;
    if (s->options.mel_reference == MXW_MEL_RUNNING && !at_end)
        n_chunks = (size_t)MX_MAX(MX_MIN((int64_t)n_chunks, end / MX_SPEECH_CHUNK - MX_LEVEL_AHEAD), 0);
    for (size_t i = 0; i < n_frames; i++) {
        size_t chunk = (size_t)(begin + (int64_t)i * FRAME_SAMPLES + FRAME_SAMPLES / 2) / MX_SPEECH_CHUNK;
        s->window.heard[i] = n_chunks ? chunks[MX_MIN(chunk, n_chunks - 1)] : 0;
    }
    mx_session_unlock(s);
}

mxw_status mx_session_start_evidence(mx_session *s, size_t n_frames) {
    mx_window *w = &s->window;
    size_t n_keys = (size_t)s->recognizer->checkpoint.dims->n_audio_ctx;
    if (!w->heard) {
        w->attention = mx_arena_alloc(&s->memory, 2 * n_keys * sizeof(*w->attention));
        w->heard = mx_arena_alloc(&s->memory, n_keys * sizeof(*w->heard));
    }
    if (!w->heard || !w->attention)
        return MXW_E_MEMORY;
    listen(s, MX_MIN(n_frames, n_keys));
    return mx_grow(&w->evidence, &w->room_evidence, w->text.n + 1, sizeof(*w->evidence));
}

void mx_session_take_evidence(mx_session *s, const mx_forced *forced, size_t n_before, size_t n, size_t n_frames) {
    const mx_candidates *c = &forced->candidates;
    size_t n_heads = (size_t)forced->n_heads, n_keys = (size_t)forced->n_keys, k = (size_t)c->k;
    for (size_t i = 0; i < n; i++) {
        mx_guard_token *token = &s->window.evidence[i];
        token->id = s->window.text.items[i];
        token->logprob = (double)forced->logits[i] - (double)c->stats[i * MX_SELECT_STATS + MX_SELECT_LOG_SUM];
        token->entropy = mx_guard_entropy(c->logprobs + i * k, MX_MIN(k, MX_GUARD_CANDIDATES));
        mx_guard_attend(token, forced->scores + (n_before + i) * n_heads * n_keys, n_heads, n_keys, s->window.heard,
                        n_frames, s->window.attention);
    }
}

static int is_text(const mx_session *s, int32_t token) { return token < s->plan->special.eot; }

/* The words of each piece, in order: those that its tokens of text make up. A piece without duration loses its text
 * anyway. */
static mxw_status list_words(mx_session *s) {
    mx_window *w = &s->window;
    size_t next = 0, token = 0;
    w->n_judged = 0;
    mxw_status status = mx_grow(&w->judged, &w->room_judged, w->words.n + 1, sizeof(*w->judged));
    for (size_t i = 0; i < w->n_pieces && status >= 0; i++) {
        mx_piece *piece = &w->pieces[i];
        size_t n_text = 0, covered = 0;
        for (size_t j = 0; j < piece->n_tokens; j++)
            n_text += (size_t)is_text(s, piece->tokens[j]);
        piece->first_judged = w->n_judged;
        for (; next < w->words.n && covered < n_text; next++) {
            const mx_word *word = &w->words.items[next];
            covered += word->n_tokens;
            if (word->begin != word->end && piece->start != piece->end)
                w->judged[w->n_judged++] = (mx_guard_word){.start_s = word->start_s, .end_s = word->end_s,
                                                           .first_token = token, .n_tokens = word->n_tokens,
                                                           .segment = i, .index = next};
            token += word->n_tokens;
        }
        piece->n_judged = w->n_judged - piece->first_judged;
    }
    return status;
}

/* The last tokens of text before the window, at most n of them. */
static size_t text_before(const mx_session *s, int32_t *tokens, size_t n) {
    size_t at = n;
    for (size_t i = s->at.tokens.n; i-- > s->at.n_initial_prompt && at > 0;)
        if (is_text(s, s->at.tokens.items[i]))
            tokens[--at] = s->at.tokens.items[i];
    memmove(tokens, tokens + at, (n - at) * sizeof(*tokens));
    return n - at;
}

/* ---- what comes of it -------------------------------------------------------------------------------------------- */

static int is_suspected(const mx_guard_word *word) { return word->suspicion >= MX_GUARD_SUSPECTED; }

/* Removes the tokens of suspected words from the piece, with their details; timestamps stay. */
static void drop_tokens(mx_session *s, mx_piece *piece) {
    mx_window *w = &s->window;
    const mx_guard_word *word = &w->judged[piece->first_judged], *end = word + piece->n_judged;
    size_t first = (size_t)(piece->tokens - w->tokens.items), kept = first, used = 0;
    size_t k = (size_t)s->options.token_details;
    for (size_t i = first; i < first + piece->n_tokens; i++) {
        if (is_text(s, w->tokens.items[i])) {
            while (word < end && used == word->n_tokens) {
                word++;
                used = 0;
            }
            used++;
            if (word < end && is_suspected(word))
                continue;
        }
        w->tokens.items[kept] = w->tokens.items[i];
        if (k) {
            w->details[kept] = w->details[i];
            memmove(w->alternatives + kept * k, w->alternatives + i * k, k * sizeof(*w->alternatives));
        }
        kept++;
    }
    piece->n_tokens = kept - first;
}

/* And the words themselves; returns how many are left. */
static size_t drop_words(mx_session *s, mx_piece *piece) {
    mx_window *w = &s->window;
    size_t kept = 0;
    for (size_t i = 0; i < piece->n_judged; i++) {
        if (is_suspected(&w->judged[piece->first_judged + i]))
            continue;
        if (i < piece->n_words)
            w->timed[piece->first_word + kept] = w->timed[piece->first_word + i];
        w->judged[piece->first_judged + kept++] = w->judged[piece->first_judged + i];
    }
    piece->n_words = MX_MIN(piece->n_words, kept);
    return piece->n_judged = kept;
}

static void drop(mx_session *s) {
    mx_window *w = &s->window;
    size_t kept = 0;
    for (size_t i = 0; i < w->n_pieces; i++) {
        mx_piece piece = w->pieces[i];
        size_t n = piece.n_judged;
        drop_tokens(s, &piece);
        if (drop_words(s, &piece) > 0 || n == 0)
            w->pieces[kept++] = piece;
    }
    w->n_pieces = kept;
}

mxw_status mx_session_watch_guard(mx_session *s, mxw_evidence_fn fn, void *user) {
    if (!s->options.guard || s->lanes)
        return mx_fail(MXW_E_STATE, "guard: there is none in this session that can be watched");
    s->watch.show = fn;
    s->watch.user = user;
    return MXW_OK;
}

static mxw_status show_words(mx_session *s) {
    const mx_words *words = &s->window.words;
    double offset = mx_mel_frames_to_s(s->at.seek);
    mx_str text = {0};
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < s->window.n_judged && status >= 0; i++) {
        const mx_guard_word *judged = &s->window.judged[i];
        const mx_word *word = &words->items[judged->index];
        mx_str_clear(&text);
        mx_str_add(&text, mx_str_get(&words->text) + word->begin, word->end - word->begin);
        status = mx_str_status(&text);
        mxw_evidence evidence = {offset + word->start_s, offset + word->end_s, mx_str_get(&text), judged->suspicion,
                                 judged->reasons, judged->evidence, MX_N_EVIDENCE};
        if (status >= 0)
            s->watch.show(s->watch.user, &evidence);
    }
    mx_str_free(&text);
    return status;
}

mxw_status mx_session_guard(mx_session *s, const mx_cut *cut, const mx_decode_result *result) {
    mx_window *w = &s->window;
    int32_t before[MX_GUARD_BEFORE];
    mxw_status status = list_words(s);
    if (status < 0)
        return status;
    mx_guard_window window = {.no_speech_prob = result->no_speech_prob,
                              .avg_logprob = result->avg_logprob,
                              .temperature = result->temperature,
                              .compression_ratio = result->compression_ratio,
                              .speech = w->heard,
                              .n_frames = (size_t)(cut->n_frames / 2),
                              .before = before,
                              .n_before = text_before(s, before, MX_COUNT(before)),
                              .tokens = w->evidence,
                              .n_tokens = w->text.n,
                              .words = w->judged,
                              .n_words = w->n_judged};
    mx_guard_judge(&window);
    for (size_t i = 0; i < w->n_judged; i++)
        s->result.n_words_suspected += is_suspected(&w->judged[i]);
    if (s->watch.show)
        status = show_words(s);
    if (s->options.guard == MXW_GUARD_DROP)
        drop(s);
    return status;
}

/* Weighted by tokens, which are nearer to time than words are. */
void mx_session_suspect(const mx_session *s, const mx_piece *piece, double *suspicion, uint32_t *reasons) {
    double sum = 0, weight = 0;
    uint32_t all = 0;
    for (size_t i = 0; i < piece->n_judged; i++) {
        const mx_guard_word *word = &s->window.judged[piece->first_judged + i];
        sum += word->suspicion * (double)word->n_tokens;
        weight += (double)word->n_tokens;
        all |= word->reasons;
    }
    *suspicion = weight > 0 ? sum / weight : 0;
    *reasons = *suspicion >= MX_GUARD_SUSPECTED ? all : 0;
}
