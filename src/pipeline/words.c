/* pipeline/words.c - a window's words: forced alignment of its text with the scores of the alignment heads, pieces
 * adjusted to their words, and where the next window begins accordingly. The steps and their order are those of
 * openai-whisper's add_word_timestamps() and of its transcribe() around it; see docs/words.md. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

#define LONG_PIECE_S 0.5        /* how far a word may extend beyond its piece's own times */
#define PUNCTUATION MXW_PREPEND_PUNCTUATIONS MXW_APPEND_PUNCTUATIONS

static double hundredths(double seconds) { return nearbyint(seconds * 100) / 100; }
static int64_t s_to_frames(double seconds) { return (int64_t)nearbyint(seconds * MX_MEL_RATE); }

/* ---- alignment --------------------------------------------------------------------------------------------------- */

typedef struct align_context {
    mx_session *session;
    mx_align_scores scores;
    size_t n_tokens;
    float *matrix;           /* [n_tokens + 1][n_frames] */
    const mx_inspection *seen;   /* or NULL */
    double *probabilities;   /* [n_tokens] */
    mx_guard_token *evidence;    /* [n_tokens], or NULL: without a guard */
    int32_t *attended;           /* [n_tokens]: the frame that each token looks at most, or NULL */
    mxw_status status;
} align_context;

/* Called on the batch leader's thread; forced is valid only during the call. */
static void take_forced(void *context, const mx_forced *forced) {
    align_context *a = context;
    for (size_t i = 0; i < a->n_tokens; i++) {
        const float *stats = forced->candidates.stats + i * MX_SELECT_STATS;
        a->probabilities[i] = exp((double)forced->logits[i] - (double)stats[MX_SELECT_LOG_SUM]);
        a->probabilities[i] = MX_MIN(a->probabilities[i], 1);
    }
    if (a->evidence)
        mx_session_take_evidence(a->session, forced, a->scores.n_before, a->n_tokens, a->scores.n_frames);
    a->scores.scores = forced->scores;
    a->scores.n_rows = (size_t)forced->n_rows;
    a->scores.n_heads = (size_t)forced->n_heads;
    a->scores.n_keys = (size_t)forced->n_keys;
    a->status = mx_words_matrix(&a->scores, a->session->recognizer->pool, a->matrix);
}

/* Concatenates the text tokens of all pieces. */
static mxw_status gather_text(mx_session *s) {
    mxw_status status = MXW_OK;
    s->window.text.n = 0;
    for (size_t i = 0; i < s->window.n_pieces; i++)
        for (size_t j = 0; j < s->window.pieces[i].n_tokens && status >= 0; j++)
            if (s->window.pieces[i].tokens[j] < s->plan->special.eot)
                status = mx_tokens_add(&s->window.text, &s->window.pieces[i].tokens[j], 1);
    return status;
}

static void show(const align_context *a, int32_t *frames) {
    int64_t rows = (int64_t)a->n_tokens + 1, shape[] = {rows, (int64_t)a->scores.n_frames};
    mx_tensor matrix = mx_tensor_of(MXW_F32, 2, shape, a->matrix), begins = mx_tensor_of(MXW_I32, 1, &rows, frames);
    a->seen->tap(a->seen->context, "words.attention", &matrix);
    a->seen->tap(a->seen->context, "words.frames", &begins);
}

static void find_attended(const align_context *a) {
    size_t n_frames = a->scores.n_frames;
    for (size_t i = 0; i < a->n_tokens; i++) {
        const float *row = a->matrix + i * n_frames;
        a->attended[i] = 0;
        for (size_t j = 1; j < n_frames; j++)
            if (row[j] > row[a->attended[i]])
                a->attended[i] = (int32_t)j;
    }
}

/* frames [n_tokens + 1], and what else the context wants, of tokens of text in the window that was encoded last. */
static mxw_status force_align(align_context *a, const int32_t *tokens, size_t n_frames, int32_t *frames) {
    mxw_status status;
    mx_session *s = a->session;
    mx_force force = {.wanted = tokens, .k = a->evidence ? MX_GUARD_CANDIDATES : 1, .wants_scores = 1,
                      .take = take_forced, .context = a};
    MX_TRY(mx_decoding_align(s->decoding, s->language, tokens, a->n_tokens, &force.step, &a->scores.n_before));
    a->scores.n_frames = n_frames;
    a->matrix = mx_alloc_array(a->n_tokens + 1, n_frames * sizeof(*a->matrix));
    status = a->matrix ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(mx_slot_force(s->slot, &force));
    if (a->status < 0) {   /* the error line may be on another thread */
        status = mx_fail(a->status, "word times: %s", mxw_status_text(a->status));
        goto out;
    }
    if (a->attended)
        find_attended(a);
    MX_TRY(mx_words_dtw(a->matrix, a->n_tokens + 1, n_frames, frames));
    if (a->seen)
        show(a, frames);
out:
    mx_free(a->matrix);
    return status;
}

static mxw_status align(mx_session *s, size_t n_frames) {
    mxw_status status;
    const mx_tokens *text = &s->window.text;
    mx_word_options options = {s->options.prepend_punctuations, s->options.append_punctuations};
    double *probabilities = mx_alloc_array(text->n, sizeof(*probabilities));
    int32_t *frames = mx_alloc_array(text->n + 1, sizeof(*frames));
    status = probabilities && frames ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    align_context a = {.session = s, .n_tokens = text->n, .probabilities = probabilities};
    a.evidence = s->options.guard ? s->window.evidence : NULL;
    a.attended = s->window.attended;
    MX_TRY(force_align(&a, text->items, n_frames, frames));
    MX_TRY(mx_words_align(s->recognizer->text, s->language, &options, text->items, text->n, frames, probabilities,
                          &s->window.words));
out:
    mx_free(probabilities);
    mx_free(frames);
    return status;
}

mxw_status mx_session_align(mx_session *s, int64_t seek, int64_t n_frames, const int32_t *tokens, size_t n,
                            int32_t *frames, double *probabilities) {
    mxw_status status = mx_session_encode_window(s, seek, n_frames, MX_MEL_ZEROS);
    return status < 0 ? status : mx_session_align_encoded(s, n_frames, tokens, n, frames, probabilities);
}

mxw_status mx_session_align_encoded(mx_session *s, int64_t n_frames, const int32_t *tokens, size_t n, int32_t *frames,
                                    double *probabilities) {
    align_context a = {.session = s, .n_tokens = n, .probabilities = probabilities};
    return force_align(&a, tokens, (size_t)(n_frames / 2), frames);
}

mxw_status mx_session_inspect_words(mx_session *s, int64_t n_frames, const mx_inspection *seen) {
    mxw_status status = MXW_OK;
    mx_tokens *text = &s->window.text;
    text->n = 0;
    for (size_t i = 0; i < seen->n_tokens && status >= 0; i++)
        if (seen->tokens[i] < s->plan->special.eot)
            status = mx_tokens_add(text, &seen->tokens[i], 1);
    if (status < 0 || text->n == 0 || n_frames < 2)
        return status;
    double *probabilities = mx_alloc_array(text->n, sizeof(*probabilities));
    int32_t *frames = mx_alloc_array(text->n + 1, sizeof(*frames));
    align_context a = {.session = s, .n_tokens = text->n, .probabilities = probabilities, .seen = seen};
    status = probabilities && frames ? force_align(&a, text->items, (size_t)(n_frames / 2), frames) : MXW_E_MEMORY;
    mx_free(probabilities);
    mx_free(frames);
    return status;
}

/* ---- words of pieces --------------------------------------------------------------------------------------------- */

static size_t text_tokens(const mx_session *s, const mx_piece *piece) {
    size_t n = 0;
    for (size_t i = 0; i < piece->n_tokens; i++)
        n += piece->tokens[i] < s->plan->special.eot;
    return n;
}

/* Assigns words from *next on to the piece, until its tokens are covered. */
static mxw_status assign_words(mx_session *s, mx_piece *piece, size_t *next) {
    size_t n = text_tokens(s, piece), covered = 0;
    double offset = mx_mel_frames_to_s(s->at.seek);
    piece->first_word = s->window.n_timed;
    for (; *next < s->window.words.n && covered < n; (*next)++) {
        const mx_word *word = &s->window.words.items[*next];
        covered += word->n_tokens;
        if (word->begin == word->end)
            continue;
        mxw_status status = mx_grow(&s->window.timed, &s->window.room_timed, s->window.n_timed + 1,
                                    sizeof(*s->window.timed));
        if (status < 0)
            return status;
        double start = hundredths(offset + word->start_s), end = hundredths(offset + word->end_s);
        s->window.timed[s->window.n_timed++] = (mx_timed_word){word->begin, word->end, MX_MAX(start, 0), MX_MAX(end, 0),
                                               word->probability};
    }
    piece->n_words = s->window.n_timed - piece->first_word;
    return MXW_OK;
}

/* Limits the first two words after a pause to twice the median duration. */
static void cut_after_pause(mx_timed_word *words, size_t n, double last_speech, double median) {
    double most = median * 2;
    if (!(words[0].end_s - last_speech > median * 4 &&
          (words[0].end_s - words[0].start > most || (n > 1 && words[1].end_s - words[0].start > most * 2))))
        return;
    if (n > 1 && words[1].end_s - words[1].start > most)
        words[0].end_s = words[1].start = MX_MAX(words[1].end_s / 2, words[1].end_s - most);
    words[0].start = MX_MAX(0, words[0].end_s - most);
}

/* Sets a piece's times to those of its words, unless the first or last word extends far beyond the piece's own. */
static void set_ends(mx_piece *piece, mx_timed_word *words, double median) {
    mx_timed_word *first = &words[0], *last = &words[piece->n_words - 1];
    if (piece->start < first->end_s && piece->start - LONG_PIECE_S > first->start)
        first->start = MX_MAX(0, MX_MIN(first->end_s - median, piece->start));
    else
        piece->start = first->start;
    if (piece->end > last->start && piece->end + LONG_PIECE_S < last->end_s)
        last->end_s = MX_MAX(last->start + median, piece->end);
    else
        piece->end = last->end_s;
}

static mxw_status set_words(mx_session *s) {
    double last_speech = s->at.last_speech_s, median = s->window.words.median_s;
    size_t next = 0;
    s->window.n_timed = 0;
    for (size_t i = 0; i < s->window.n_pieces; i++) {
        mx_piece *piece = &s->window.pieces[i];
        mxw_status status = assign_words(s, piece, &next);
        if (status < 0)
            return status;
        if (piece->n_words == 0)
            continue;
        cut_after_pause(s->window.timed + piece->first_word, piece->n_words, last_speech, median);
        set_ends(piece, s->window.timed + piece->first_word, median);
        last_speech = piece->end;
    }
    return MXW_OK;
}

/* ---- where the next window begins -------------------------------------------------------------------------------- */

int mx_session_last_end(const mx_session *s, double *end) {
    for (size_t i = s->window.n_pieces; i-- > 0;)
        if (s->window.pieces[i].n_words > 0) {
            *end = s->window.timed[s->window.pieces[i].first_word + s->window.pieces[i].n_words - 1].end_s;
            return 1;
        }
    if (s->window.n_pieces > 0)
        *end = s->window.pieces[s->window.n_pieces - 1].end;
    return s->window.n_pieces > 0;
}

/* The anomaly score of a word: improbable, very short or very long. */
static double anomaly(const mx_timed_word *word) {
    double duration = word->end_s - word->start, score = 0;
    if (word->probability < 0.15)
        score += 1;
    if (duration < 0.133)
        score += (0.133 - duration) * 15;
    if (duration > 2)
        score += duration - 2;
    return score;
}

/* Whether the first eight words, without punctuation, are anomalous as a whole. */
static int is_anomaly(const mx_session *s, const mx_piece *piece) {
    double score = 0;
    size_t n = 0;
    if (!piece || piece->n_words == 0)
        return 0;
    for (size_t i = 0; i < piece->n_words && n < 8; i++) {
        const mx_timed_word *word = &s->window.timed[piece->first_word + i];
        if (mx_words_contains(PUNCTUATION, mx_str_get(&s->window.words.text) + word->begin, word->end - word->begin))
            continue;
        score += anomaly(word);
        n++;
    }
    return score >= 3 || score + 0.01 >= (double)n;
}

/* The first piece from that index on that has words, or NULL. */
static const mx_piece *with_words(const mx_session *s, size_t from) {
    for (size_t i = from; i < s->window.n_pieces; i++)
        if (s->window.pieces[i].n_words > 0)
            return &s->window.pieces[i];
    return NULL;
}

/* The frame after the last one that can have speech, INT64_MAX while it is not known: with vad that of the clip. */
static int64_t content_end(const mx_session *s) {
    if (s->options.vad)
        return s->at.clips[s->at.clip].end;
    return s->finished ? mx_mel_frames(s->mel) : INT64_MAX;
}

/* Drops an anomalous piece that has silence, or other anomalous pieces, on both sides, and everything after it; the
 * next window begins there. */
static void drop_anomalies(mx_session *s, mx_cut *cut, double threshold) {
    double offset = mx_mel_frames_to_s(s->at.seek), window_end = mx_mel_frames_to_s(s->at.seek + MX_MEL_WINDOW);
    double last = s->at.last_speech_s, content = content_end(s) == INT64_MAX ? INFINITY
                                                                            : mx_mel_frames_to_s(content_end(s));
    for (size_t i = 0; i < s->window.n_pieces; i++) {
        const mx_piece *piece = &s->window.pieces[i];
        if (piece->n_words == 0)
            continue;
        if (is_anomaly(s, piece)) {
            const mx_piece *next = with_words(s, i + 1);
            double next_start = next ? s->window.timed[next->first_word].start
                                     : offset + mx_mel_frames_to_s(cut->n_frames);
            int silence_before = piece->start - last > threshold || piece->start < threshold ||
                                 piece->start - offset < 2;
            int silence_after = next_start - piece->end > threshold || is_anomaly(s, next) ||
                                window_end - piece->end < 2;
            if (silence_before && silence_after) {
                cut->seek = s_to_frames(MX_MAX(offset + 1, piece->start));
                if (content - piece->end < threshold)
                    cut->seek = content_end(s);
                s->window.n_pieces = i;
                return;
            }
        }
        last = piece->end;
    }
}

static void skip_silence(mx_session *s, mx_cut *cut, double threshold) {
    double offset = mx_mel_frames_to_s(s->at.seek), end;
    if (!cut->lone_end && mx_session_last_end(s, &end) && end > offset)
        cut->seek = mx_mel_frames_to_s(s->at.seek + MX_MEL_WINDOW) - end > threshold ? s_to_frames(end)
                                                                           : s->at.seek + cut->n_frames;
    const mx_piece *first = with_words(s, 0);
    if (first && is_anomaly(s, first)) {
        double gap = first->start - offset;
        if (gap > threshold) {   /* silence before it: the next window begins where that ends */
            cut->seek = s->at.seek + s_to_frames(gap);
            cut->dropped = 1;
            return;
        }
    }
    drop_anomalies(s, cut, threshold);
}

mxw_status mx_session_align_words(mx_session *s, const mx_cut *cut) {
    mxw_status status;
    int64_t start = mx_now_ns();
    size_t n_frames = (size_t)(cut->n_frames / 2);
    mx_words_clear(&s->window.words);
    MX_TRY(gather_text(s));
    if (s->options.guard)
        MX_TRY(mx_session_start_evidence(s, n_frames));
    if (s->window.text.n > 0 && n_frames > 0)
        MX_TRY(align(s, n_frames));
    s->times.words_ms += mx_since_ms(start);
out:
    return status;
}

mxw_status mx_session_time_words(mx_session *s, mx_cut *cut) {
    mxw_status status;
    int64_t start = mx_now_ns();
    double end;
    MX_TRY(set_words(s));
    if (!cut->lone_end && mx_session_last_end(s, &end) && end > mx_mel_frames_to_s(s->at.seek))
        cut->seek = s_to_frames(end);
    if (s->options.hallucination_silence_threshold != MXW_NONE)
        skip_silence(s, cut, s->options.hallucination_silence_threshold);
    if (!cut->dropped && mx_session_last_end(s, &end))
        s->at.last_speech_s = end;
    s->times.words_ms += mx_since_ms(start);
out:
    return status;
}
