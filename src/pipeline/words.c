/* pipeline/words.c - a window's words: its text forced through the decoder once more, times from what the alignment
 * heads listened to, pieces set to their words, and where the next window begins by them. The steps and their order
 * are those of openai-whisper's add_word_timestamps() and of its transcribe() around it; docs/words.md tells them. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

#define FRAMES_PER_S 100
#define WINDOW_FRAMES 3000
#define LONG_PIECE_S 0.5        /* how far a word may reach over its piece's own times */
#define PUNCTUATION MXW_PREPEND_PUNCTUATIONS MXW_APPEND_PUNCTUATIONS

static double frames_to_s(int64_t frames) { return (double)(frames * 160) / 16000.0; }
static double hundredths(double seconds) { return nearbyint(seconds * 100) / 100; }
static int64_t s_to_frames(double seconds) { return (int64_t)nearbyint(seconds * FRAMES_PER_S); }

/* ---- alignment --------------------------------------------------------------------------------------------------- */

typedef struct aligning {
    mx_session *session;
    mx_align_scores scores;
    size_t n_tokens;
    float *matrix;           /* [n_tokens + 1][n_frames] */
    const mx_inspection *seen;   /* who looks on, or NULL */
    double *probabilities;   /* [n_tokens] */
    mxw_status status;
} aligning;

/* Called where the run was conducted: what it gave is valid only now. */
static void take_forced(void *context, const mx_forced *forced) {
    aligning *a = context;
    for (size_t i = 0; i < a->n_tokens; i++) {
        const float *stats = forced->candidates.stats + i * MX_SELECT_STATS;
        a->probabilities[i] = exp((double)forced->logits[i] - (double)stats[MX_SELECT_LOG_SUM]);
        a->probabilities[i] = MX_MIN(a->probabilities[i], 1);
    }
    a->scores.scores = forced->scores;
    a->scores.n_rows = (size_t)forced->n_rows;
    a->scores.n_heads = (size_t)forced->n_heads;
    a->scores.n_keys = (size_t)forced->n_keys;
    a->status = mx_words_matrix(&a->scores, a->session->recognizer->pool, a->matrix);
}

/* The tokens of all pieces that are text, one after the other. */
static mxw_status gather_text(mx_session *s) {
    mxw_status status = MXW_OK;
    s->window_text.n = 0;
    for (size_t i = 0; i < s->n_pieces; i++)
        for (size_t j = 0; j < s->pieces[i].n_tokens && status >= 0; j++)
            if (s->pieces[i].tokens[j] < s->plan->special.eot)
                status = mx_tokens_add(&s->window_text, &s->pieces[i].tokens[j], 1);
    return status;
}

static void show(const aligning *a, int32_t *frames) {
    int64_t rows = (int64_t)a->n_tokens + 1, shape[] = {rows, (int64_t)a->scores.n_frames};
    mx_tensor matrix = mx_tensor_of(MXW_F32, 2, shape, a->matrix), begins = mx_tensor_of(MXW_I32, 1, &rows, frames);
    a->seen->tap(a->seen->context, "words.attention", &matrix);
    a->seen->tap(a->seen->context, "words.frames", &begins);
}

/* frames [n + 1] and probabilities [n] of tokens of text in the window that was encoded last. */
static mxw_status force_align(mx_session *s, const int32_t *tokens, size_t n, size_t n_frames, int32_t *frames,
                         double *probabilities, const mx_inspection *seen) {
    mxw_status status;
    aligning a = {.session = s, .n_tokens = n, .probabilities = probabilities, .seen = seen};
    mx_force force = {.wanted = tokens, .k = 1, .wants_scores = 1, .take = take_forced, .context = &a};
    MX_TRY(mx_decoding_align(s->decoding, s->language, tokens, n, &force.step, &a.scores.n_before));
    a.scores.n_frames = n_frames;
    a.matrix = mx_alloc_array(n + 1, n_frames * sizeof(*a.matrix));
    status = a.matrix ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(mx_slot_force(s->slot, &force));
    if (a.status < 0) {   /* its line may be another thread's */
        status = mx_fail(a.status, "word times: %s", mxw_status_text(a.status));
        goto out;
    }
    MX_TRY(mx_words_dtw(a.matrix, n + 1, n_frames, frames));
    if (seen)
        show(&a, frames);
out:
    mx_free(a.matrix);
    return status;
}

static mxw_status align(mx_session *s, size_t n_frames) {
    mxw_status status;
    const mx_tokens *text = &s->window_text;
    mx_word_options options = {s->options.prepend_punctuations, s->options.append_punctuations};
    double *probabilities = mx_alloc_array(text->n, sizeof(*probabilities));
    int32_t *frames = mx_alloc_array(text->n + 1, sizeof(*frames));
    status = probabilities && frames ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(force_align(s, text->items, text->n, n_frames, frames, probabilities, NULL));
    MX_TRY(mx_words_align(s->recognizer->text, s->language, &options, text->items, text->n, frames, probabilities,
                          &s->words));
out:
    mx_free(probabilities);
    mx_free(frames);
    return status;
}

mxw_status mx_session_align(mx_session *s, int64_t seek, int64_t n_frames, const int32_t *tokens, size_t n,
                            int32_t *frames, double *probabilities) {
    mxw_status status = mx_session_encode_window(s, seek, n_frames, 0);
    return status < 0 ? status : force_align(s, tokens, n, (size_t)(n_frames / 2), frames, probabilities, NULL);
}

mxw_status mx_session_see_words(mx_session *s, int64_t n_frames, const mx_inspection *seen) {
    mxw_status status = MXW_OK;
    mx_tokens *text = &s->window_text;
    text->n = 0;
    for (size_t i = 0; i < seen->n_tokens && status >= 0; i++)
        if (seen->tokens[i] < s->plan->special.eot)
            status = mx_tokens_add(text, &seen->tokens[i], 1);
    if (status < 0 || text->n == 0 || n_frames < 2)
        return status;
    double *probabilities = mx_alloc_array(text->n, sizeof(*probabilities));
    int32_t *frames = mx_alloc_array(text->n + 1, sizeof(*frames));
    status = probabilities && frames
                 ? force_align(s, text->items, text->n, (size_t)(n_frames / 2), frames, probabilities, seen)
                 : MXW_E_MEMORY;
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

/* Words from *next on, until the piece's tokens are said. */
static mxw_status hand_words(mx_session *s, mx_piece *piece, size_t *next) {
    size_t n = text_tokens(s, piece), said = 0;
    double offset = frames_to_s(s->seek);
    piece->first_word = s->n_spoken;
    for (; *next < s->words.n && said < n; (*next)++) {
        const mx_word *word = &s->words.items[*next];
        said += word->n_tokens;
        if (word->begin == word->end)
            continue;
        mxw_status status = mx_grow(&s->spoken, &s->room_spoken, s->n_spoken + 1, sizeof(*s->spoken));
        if (status < 0)
            return status;
        double start = hundredths(offset + word->start_s), end = hundredths(offset + word->end_s);
        s->spoken[s->n_spoken++] = (mx_spoken){word->begin, word->end, MX_MAX(start, 0), MX_MAX(end, 0),
                                               word->probability};
    }
    piece->n_words = s->n_spoken - piece->first_word;
    return MXW_OK;
}

/* The first two words after a pause are no longer than twice the usual. */
static void cut_after_pause(mx_spoken *words, size_t n, double last_speech, double median) {
    double most = median * 2;
    if (!(words[0].end_s - last_speech > median * 4 &&
          (words[0].end_s - words[0].start > most || (n > 1 && words[1].end_s - words[0].start > most * 2))))
        return;
    if (n > 1 && words[1].end_s - words[1].start > most)
        words[0].end_s = words[1].start = MX_MAX(words[1].end_s / 2, words[1].end_s - most);
    words[0].start = MX_MAX(0, words[0].end_s - most);
}

/* A piece begins and ends with its words, unless the first or the last reaches far over the piece's own time. */
static void set_ends(mx_piece *piece, mx_spoken *words, double median) {
    mx_spoken *first = &words[0], *last = &words[piece->n_words - 1];
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
    double last_speech = s->last_speech_s, median = s->words.median_s;
    size_t next = 0;
    s->n_spoken = 0;
    for (size_t i = 0; i < s->n_pieces; i++) {
        mx_piece *piece = &s->pieces[i];
        mxw_status status = hand_words(s, piece, &next);
        if (status < 0)
            return status;
        if (piece->n_words == 0)
            continue;
        cut_after_pause(s->spoken + piece->first_word, piece->n_words, last_speech, median);
        set_ends(piece, s->spoken + piece->first_word, median);
        last_speech = piece->end;
    }
    return MXW_OK;
}

/* ---- where to go on ---------------------------------------------------------------------------------------------- */

/* The end of the last word, or of the last piece when there is none; 0: there is no piece. */
static int last_end(const mx_session *s, double *end) {
    for (size_t i = s->n_pieces; i-- > 0;)
        if (s->pieces[i].n_words > 0) {
            *end = s->spoken[s->pieces[i].first_word + s->pieces[i].n_words - 1].end_s;
            return 1;
        }
    if (s->n_pieces > 0)
        *end = s->pieces[s->n_pieces - 1].end;
    return s->n_pieces > 0;
}

/* How odd a word is: improbable, very short or very long. */
static double oddness(const mx_spoken *word) {
    double duration = word->end_s - word->start, score = 0;
    if (word->probability < 0.15)
        score += 1;
    if (duration < 0.133)
        score += (0.133 - duration) * 15;
    if (duration > 2)
        score += duration - 2;
    return score;
}

/* Whether its first eight words, marks left out, are odd on the whole. */
static int is_odd(const mx_session *s, const mx_piece *piece) {
    double score = 0;
    size_t n = 0;
    if (!piece || piece->n_words == 0)
        return 0;
    for (size_t i = 0; i < piece->n_words && n < 8; i++) {
        const mx_spoken *word = &s->spoken[piece->first_word + i];
        if (mx_words_contains(PUNCTUATION, mx_str_get(&s->words.text) + word->begin, word->end - word->begin))
            continue;
        score += oddness(word);
        n++;
    }
    return score >= 3 || score + 0.01 >= (double)n;
}

/* The first piece from there on that has words, or NULL. */
static const mx_piece *with_words(const mx_session *s, size_t from) {
    for (size_t i = from; i < s->n_pieces; i++)
        if (s->pieces[i].n_words > 0)
            return &s->pieces[i];
    return NULL;
}

/* An odd piece with silence, or more oddness, on both sides: it and what follows goes, and is heard again from there.
 * */
static void drop_odd(mx_session *s, mx_cut *cut, double threshold) {
    double offset = frames_to_s(s->seek), window_end = frames_to_s(s->seek + WINDOW_FRAMES);
    double last = s->last_speech_s, content = s->finished ? frames_to_s(mx_mel_frames(s->mel)) : INFINITY;
    for (size_t i = 0; i < s->n_pieces; i++) {
        const mx_piece *piece = &s->pieces[i];
        if (piece->n_words == 0)
            continue;
        if (is_odd(s, piece)) {
            const mx_piece *next = with_words(s, i + 1);
            double next_start = next ? s->spoken[next->first_word].start : offset + frames_to_s(cut->n_frames);
            int silence_before = piece->start - last > threshold || piece->start < threshold ||
                                 piece->start - offset < 2;
            int silence_after = next_start - piece->end > threshold || is_odd(s, next) || window_end - piece->end < 2;
            if (silence_before && silence_after) {
                cut->seek = s_to_frames(MX_MAX(offset + 1, piece->start));
                if (content - piece->end < threshold)
                    cut->seek = mx_mel_frames(s->mel);
                s->n_pieces = i;
                return;
            }
        }
        last = piece->end;
    }
}

static void skip_silence(mx_session *s, mx_cut *cut, double threshold) {
    double offset = frames_to_s(s->seek), end;
    if (!cut->lone_end && last_end(s, &end) && end > offset)
        cut->seek = frames_to_s(s->seek + WINDOW_FRAMES) - end > threshold ? s_to_frames(end)
                                                                           : s->seek + cut->n_frames;
    const mx_piece *first = with_words(s, 0);
    if (first && is_odd(s, first)) {
        double gap = first->start - offset;
        if (gap > threshold) {   /* silence before it: heard again from its end on */
            cut->seek = s->seek + s_to_frames(gap);
            cut->dropped = 1;
            return;
        }
    }
    drop_odd(s, cut, threshold);
}

mxw_status mx_session_time_words(mx_session *s, mx_cut *cut) {
    mxw_status status;
    int64_t start = mx_now_ns();
    size_t n_frames = (size_t)(cut->n_frames / 2);
    double end;
    mx_words_clear(&s->words);
    MX_TRY(gather_text(s));
    if (s->window_text.n > 0 && n_frames > 0)
        MX_TRY(align(s, n_frames));
    MX_TRY(set_words(s));
    if (!cut->lone_end && last_end(s, &end) && end > frames_to_s(s->seek))
        cut->seek = s_to_frames(end);
    if (s->options.hallucination_silence_threshold != MXW_NONE)
        skip_silence(s, cut, s->options.hallucination_silence_threshold);
    if (!cut->dropped && last_end(s, &end))
        s->last_speech_s = end;
    s->result.times.words_ms += mx_since_ms(start);
out:
    return status;
}
