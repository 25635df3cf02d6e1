/* pipeline/resume.c - writes and reads window records. One set of functions serves both directions, so that they cannot
 * disagree. */
#include "pipeline/resume.h"

#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "base/utf8.h"
#include "pipeline/session.h"

#define RECORD_MAGIC 0x7277786d   /* "mxwr" */
#define RECORD_FORM 4             /* incremented when the contents of a record change */

/* A new field of a segment, or a new option that text depends on, must be added to serialize_segment or options_digest,
 * and then be named here as the last one. */
#define FROM_FIELD(type, field) (sizeof(type) - offsetof(type, field))
#define IS_LAST(type, field) (FROM_FIELD(type, field) <= MX_MAX(sizeof(((type *)0)->field), _Alignof(type)))
_Static_assert(IS_LAST(mxw_segment, reasons), "serialize_segment has every field of a segment");
_Static_assert(IS_LAST(mxw_session_options, no_repeat_ngram_size),
               "options_digest has every option that text depends on");

/* ---- fingerprints ------------------------------------------------------------------------------------------------ */

static uint64_t digest(uint64_t seed, const void *bytes, size_t n) {   /* FNV-1a */
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        seed = (seed ^ p[i]) * 0x100000001b3u;
    return seed;
}

#define DIGEST_SEED 0xcbf29ce484222325u

void mx_fingerprint_add(mx_fingerprint *fingerprint, const float *samples, size_t n) {
    uint64_t sum = fingerprint->samples;
    for (size_t i = 0; i < n; i++) {   /* sample by sample: how they are split into calls does not matter */
        uint32_t bits;
        memcpy(&bits, &samples[i], sizeof(bits));
        sum = (sum ^ bits) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    fingerprint->samples = sum;
}

static void print_option(mx_str *out, const char *name, const char *value) {
    mx_str_print(out, "%s%s%s\n", name, value ? "=" : "", value ? value : "");
}

/* All options as text, with the version, engine and device, which can change the last bit. */
static mxw_status options_digest(const mx_session *s, uint64_t *sum) {
    const mxw_session_options *o = &s->options;
    mx_str text = {0};
    const char *device = mx_exec_device(mx_recognizer_program(s->recognizer, MX_PART_DECODER));
    mx_str_print(&text, "%s %d %d %.*s\n", MXW_VERSION, (int)s->recognizer->engine, (int)s->recognizer->precision,
                 (int)strcspn(device, ":"), device);
    mx_str_print(&text, "%d %a %a %d %d %a %a %d %d %d\n", (int)o->task, o->temperature, o->temperature_increment,
                 o->best_of, o->beam_size, o->patience, o->length_penalty, o->suppress_blank, o->carry_initial_prompt,
                 o->condition_on_previous_text);
    mx_str_print(&text, "%a %a %a %d %d %a %llu %d %a\n", o->compression_ratio_threshold, o->logprob_threshold,
                 o->no_speech_threshold, o->sample_len, o->without_timestamps, o->max_initial_timestamp,
                 (unsigned long long)o->seed, (int)o->mel_reference, o->start_s);
    const mxw_dims *dims = s->recognizer->checkpoint.dims;
    size_t n_features = (size_t)dims->n_audio_ctx * (size_t)dims->n_audio_state;
    uint64_t features = s->features ? digest(DIGEST_SEED, s->features, n_features * sizeof(*s->features)) : 0;
    mx_str_print(&text, "%d %llu %s\n", s->recognizer->encode_engine, (unsigned long long)features,
                 s->recognizer->hooks.name ? s->recognizer->hooks.name : "");
    mx_str_print(&text, "%d %a %d\n", o->word_timestamps, o->hallucination_silence_threshold, o->token_details);
    mx_str_print(&text, "%d %a %a %a %a %a %d %d\n", o->vad, o->vad_threshold, o->vad_min_silence_ms,
                 o->vad_min_speech_ms, o->vad_max_speech_s, o->vad_pad_ms, o->parallel > 0, (int)o->guard);
    if (o->temperatures)
        print_option(&text, "temperatures", o->temperatures);
    if (o->repetition_penalty != 1 || o->no_repeat_ngram_size)
        mx_str_print(&text, "repetition %a %d\n", o->repetition_penalty, o->no_repeat_ngram_size);
    print_option(&text, "vad_model", o->vad_model);
    print_option(&text, "languages", o->languages);
    print_option(&text, "prepend_punctuations", o->prepend_punctuations);
    print_option(&text, "append_punctuations", o->append_punctuations);
    print_option(&text, "language", s->language);
    print_option(&text, "suppress_tokens", o->suppress_tokens);
    print_option(&text, "initial_prompt", o->initial_prompt);
    print_option(&text, "prefix", o->prefix);
    print_option(&text, "clip_timestamps", o->clip_timestamps);
    mxw_status status = mx_str_status(&text);
    if (status >= 0)
        *sum = digest(DIGEST_SEED, text.data, text.n);
    mx_str_free(&text);
    return status;
}

mxw_status mx_fingerprint_start(mx_session *s) {
    uint32_t crc;
    mxw_status status = mx_recognizer_crc32(s->recognizer, &crc);
    s->fingerprint = (mx_fingerprint){.model = crc, .samples = DIGEST_SEED};
    return status < 0 ? status : options_digest(s, &s->fingerprint.options);
}

/* ---- both directions --------------------------------------------------------------------------------------------- */

typedef struct archive {
    mx_str *out;            /* writing, or NULL: reading */
    const uint8_t *in;
    size_t n, at;
    mx_arena *memory;       /* for what is read */
    mxw_status status;      /* the first error; everything read after it is 0 */
} archive;

static void fail(archive *a, mxw_status status) {
    if (a->status >= 0)
        a->status = status == MXW_E_FORMAT ? mx_fail(status, "record: malformed") : status;
}

static int has(archive *a, size_t n) {
    if (a->status >= 0 && n > a->n - a->at)
        fail(a, MXW_E_FORMAT);
    return a->status >= 0;
}

static void serialize(archive *a, void *value, size_t n) {
    if (n == 0)
        return;
    if (a->out) {
        mx_str_add(a->out, value, n);
    } else if (has(a, n)) {
        memcpy(value, a->in + a->at, n);
        a->at += n;
    } else {
        memset(value, 0, n);
    }
}

#define FIELD(a, field) serialize(a, &(field), sizeof(field))

/* Zeroed memory for n + 1 items to be read; an item takes at least one byte of the input. */
static void *make_room(archive *a, uint64_t n, size_t size) {
    if (!has(a, n <= a->n ? (size_t)n : SIZE_MAX))
        return NULL;
    void *room = mx_arena_alloc(a->memory, ((size_t)n + 1) * size);
    if (!room)
        fail(a, MXW_E_MEMORY);
    return room;
}

static void serialize_text(archive *a, const char **text) {
    uint64_t n = *text ? strlen(*text) : 0;
    FIELD(a, n);
    if (a->out) {
        mx_str_add(a->out, *text ? *text : "", (size_t)n);
        return;
    }
    char *copy = make_room(a, n, 1);
    *text = copy ? copy : "";
    if (!copy)
        return;
    serialize(a, copy, (size_t)n);
    if (strlen(copy) != n || mx_utf8_check(copy, (size_t)n) != n)
        fail(a, MXW_E_FORMAT);
}

static void serialize_tokens(archive *a, const int32_t **tokens, size_t *n_tokens) {
    uint64_t n = *n_tokens;
    FIELD(a, n);
    if (a->out) {
        mx_str_add(a->out, *tokens, *n_tokens * sizeof(**tokens));
        return;
    }
    int32_t *items = make_room(a, n, sizeof(*items));
    *tokens = items;
    *n_tokens = items ? (size_t)n : 0;
    serialize(a, items, *n_tokens * sizeof(*items));
}

static void serialize_words(archive *a, mxw_segment *s) {
    uint64_t n = s->words ? s->n_words : UINT64_MAX;   /* no words is not the same as words not wanted */
    FIELD(a, n);
    if (n == UINT64_MAX)
        return;
    mxw_word *items = a->out ? NULL : make_room(a, n, sizeof(*items));
    for (uint64_t i = 0; (a->out || items) && i < n; i++) {
        mxw_word word = a->out ? mx_segment_words(s)[i] : (mxw_word){0};
        FIELD(a, word.start);
        FIELD(a, word.end);
        serialize_text(a, &word.word);
        FIELD(a, word.probability);
        FIELD(a, word.suspicion);
        FIELD(a, word.reasons);
        if (items)
            items[i] = word;
    }
    if (!a->out) {
        s->words = mx_word_array(items);
        s->n_words = items ? (size_t)n : 0;
    }
}

static void serialize_details(archive *a, const mxw_token_array **tokens, uint64_t n) {
    const mxw_token *given = (const mxw_token *)(const void *)*tokens;
    mxw_token *items = a->out ? NULL : make_room(a, n, sizeof(*items));
    for (uint64_t i = 0; (a->out || items) && i < n && a->status >= 0; i++) {
        mxw_token token = a->out ? given[i] : (mxw_token){0};
        FIELD(a, token.id);
        FIELD(a, token.logprob);
        serialize_text(a, &token.text);
        if (items)
            items[i] = token;
    }
    if (!a->out)
        *tokens = mx_token_array(items);
}

/* A code, which lives as long as the program. */
static void serialize_language(archive *a, const char **language) {
    serialize_text(a, language);
    if (!a->out && a->status >= 0 && !(*language = mx_language_find(*language)))
        fail(a, MXW_E_FORMAT);
}

static void serialize_segment(archive *a, mxw_segment *s) {
    uint64_t n_alternatives = s->details ? s->n_alternatives : UINT64_MAX;
    FIELD(a, s->seek);
    FIELD(a, s->start);
    FIELD(a, s->end);
    serialize_text(a, &s->text);
    serialize_tokens(a, &s->tokens, &s->n_tokens);
    FIELD(a, s->temperature);
    FIELD(a, s->avg_logprob);
    FIELD(a, s->compression_ratio);
    FIELD(a, s->no_speech_prob);
    FIELD(a, s->language_probability);
    FIELD(a, s->suspicion);
    FIELD(a, s->reasons);
    serialize_language(a, &s->language);
    serialize_words(a, s);
    FIELD(a, n_alternatives);
    if (n_alternatives != UINT64_MAX) {
        s->n_alternatives = (size_t)MX_MIN(n_alternatives, 32);
        serialize_details(a, &s->details, s->n_tokens);
        serialize_details(a, &s->alternatives, s->n_tokens * s->n_alternatives);
    }
    /* id, channel and speaker are the session's own */
}

/* Where the loop over windows stands after the record's window. */
typedef struct loop_state {
    int64_t number;                 /* of records so far */
    int64_t n_windows;              /* decoded so far */
    uint64_t clips;                 /* digest of the detector's weights and of the clips that it decides about */
    int64_t seek, clip;
    uint64_t prompt_reset_since;
    int64_t n_fallbacks, n_suspected;
    double language_probability;
    double last_speech_s;
    const char *language;
    mxw_segment *segments;          /* of this window */
    uint64_t n_segments;
    mx_language_span *spans;        /* of the recording, in the first record: deciding them again would take long */
    uint64_t n_spans;
} loop_state;

static void serialize_spans(archive *a, loop_state *s) {
    FIELD(a, s->n_spans);
    if (!a->out)
        s->spans = make_room(a, s->n_spans, sizeof(*s->spans));
    for (uint64_t i = 0; i < s->n_spans && a->status >= 0; i++) {
        FIELD(a, s->spans[i].start);
        FIELD(a, s->spans[i].end);
        FIELD(a, s->spans[i].probability);
        serialize_language(a, &s->spans[i].language);
    }
}

static void serialize_loop_state(archive *a, loop_state *s) {
    FIELD(a, s->number);
    FIELD(a, s->n_windows);
    FIELD(a, s->clips);
    FIELD(a, s->seek);
    FIELD(a, s->clip);
    FIELD(a, s->prompt_reset_since);
    FIELD(a, s->n_fallbacks);
    FIELD(a, s->n_suspected);
    FIELD(a, s->language_probability);
    FIELD(a, s->last_speech_s);
    serialize_text(a, &s->language);
    FIELD(a, s->n_segments);
    if (!a->out)
        s->segments = make_room(a, s->n_segments, sizeof(*s->segments));
    for (uint64_t i = 0; i < s->n_segments && a->status >= 0; i++)
        serialize_segment(a, &s->segments[i]);
    serialize_spans(a, s);
}

typedef struct head {
    uint32_t magic, form;
    mx_fingerprint fingerprint;
} head;

/* What speech is decides where windows begin, and what a guard says; the options know the detector's weights by name
 * only. With vad the clips are what it found; and where the language changes is not in every record. 0 without all of
 * these. */
static uint64_t clips_digest(const mx_session *s) {
    const char *weights = s->detector_sha256 ? s->detector_sha256 : "";
    uint64_t sum = s->speech ? digest(DIGEST_SEED, weights, strlen(weights)) : 0;
    for (int i = 0; (s->options.vad || s->languages.n) && i < s->at.n_clips; i++) {
        const int64_t span[2] = {s->at.clips[i].start, s->at.clips[i].end};
        sum = digest(sum, span, sizeof(span));
    }
    return sum;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

mxw_status mx_session_give_record(mx_session *s, size_t first) {
    mx_str bytes = {0};
    archive a = {.out = &bytes};
    head h = {RECORD_MAGIC, RECORD_FORM, s->fingerprint};
    s->n_records++;
    loop_state now = {.number = s->n_records,
                    .n_windows = s->result.n_windows,
                    .clips = clips_digest(s),
                    .seek = s->at.seek,
                    .clip = s->at.clip,
                    .prompt_reset_since = s->at.prompt_reset_since,
                    .n_fallbacks = s->result.n_temperature_fallbacks,
                    .n_suspected = s->result.n_words_suspected,
                    .language_probability = s->result.language_probability,
                    .last_speech_s = s->at.last_speech_s,
                    .language = s->language,
                    .segments = s->segments.items ? s->segments.items + first : NULL,
                    .n_segments = s->segments.n - first,
                    .spans = s->languages.spans,
                    .n_spans = s->n_records == 1 ? s->languages.n_spans : 0};
    if (!s->options.on_window)
        return MXW_OK;
    FIELD(&a, h);
    serialize_loop_state(&a, &now);
    mxw_status status = mx_str_status(&bytes);
    if (status >= 0)
        s->options.on_window(s->options.user, bytes.data, bytes.n);
    mx_str_free(&bytes);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static mxw_status check_head(archive *a, const mx_session *s) {
    head h;
    FIELD(a, h);
    if (a->status < 0)
        return a->status;
    if (h.magic != RECORD_MAGIC)
        return mx_fail(MXW_E_FORMAT, "record: malformed");
    if (h.form != RECORD_FORM)
        return mx_fail(MXW_E_UNSUPPORTED, "record: made by another version");
    if (h.fingerprint.model != s->fingerprint.model)
        return mx_fail(MXW_E_ARGUMENT, "record: made with another model");
    if (h.fingerprint.options != s->fingerprint.options)
        return mx_fail(MXW_E_ARGUMENT, "record: made with other options, or by another version or engine");
    if (h.fingerprint.samples != s->fingerprint.samples)
        return mx_fail(MXW_E_ARGUMENT, "record: made from another recording");
    return MXW_OK;
}

/* Rejects a state that no window can produce. */
static mxw_status check_loop_state(const mx_session *s, const loop_state *then) {
    uint64_t n_tokens = s->at.tokens.n;
    int right = then->seek >= 0 && then->seek < INT64_MAX / 2 && then->clip >= 0 && then->clip <= s->at.n_clips &&
                then->n_windows >= s->result.n_windows && then->n_windows < INT64_MAX / 2 &&
                then->n_fallbacks >= 0 && then->n_suspected >= 0 && mx_language_find(then->language) != NULL;
    for (uint64_t i = 0; i < then->n_segments; i++) {
        const mxw_segment *segment = &then->segments[i];
        for (size_t j = 0; j < segment->n_tokens; j++)
            right = right && segment->tokens[j] >= 0 && segment->tokens[j] < s->plan->special.n_vocab;
        n_tokens += segment->n_tokens;
    }
    if (!right || then->prompt_reset_since > n_tokens)
        return mx_fail(MXW_E_FORMAT, "record: malformed");
    if (then->clips != clips_digest(s))
        return mx_fail(MXW_E_ARGUMENT, "record: made with another detector of speech");
    if (then->number != s->n_records + 1)
        return mx_fail(MXW_E_STATE, "record: window %lld, but window %lld is next", (long long)then->number,
                       (long long)s->n_records + 1);
    return MXW_OK;
}

/* Allocates everything first, so that nothing can fail half-way. */
static mxw_status take(mx_session *s, const loop_state *then) {
    mxw_status status;
    size_t n = (size_t)then->n_segments, n_tokens = s->at.tokens.n;
    for (size_t i = 0; i < n; i++)
        n_tokens += then->segments[i].n_tokens;
    MX_TRY(mx_grow(&s->segments.items, &s->segments.capacity, s->segments.n + n, sizeof(*s->segments.items)));
    MX_TRY(mx_grow(&s->at.tokens.items, &s->at.tokens.capacity, n_tokens + 1, sizeof(*s->at.tokens.items)));
    s->at.seek = then->seek;
    s->at.clip = (int)then->clip;
    s->language = mx_language_find(then->language);
    s->at.prompt_reset_since = (size_t)then->prompt_reset_since;
    s->n_records = then->number;
    s->result.n_windows = then->n_windows;
    s->result.n_temperature_fallbacks = then->n_fallbacks;
    s->result.n_words_suspected = then->n_suspected;
    s->result.language_probability = then->language_probability;
    s->at.last_speech_s = then->last_speech_s;
    for (size_t i = 0; i < n; i++) {
        mxw_segment *segment = &s->segments.items[s->segments.n];
        *segment = then->segments[i];
        segment->id = (int64_t)s->segments.n++;
        segment->channel = s->options.channel;
        segment->speaker = s->options.speaker;
        mx_tokens_add(&s->at.tokens, segment->tokens, segment->n_tokens);
        if (s->options.on_segment)
            s->options.on_segment(s->options.user, segment);
    }
    mx_session_report(s);
out:
    return status;
}

mxw_status mx_session_resume(mx_session *s, const void *record, size_t n) {
    archive a = {.in = record, .n = n, .memory = &s->memory};
    loop_state then = {0};
    if (s->failure.status < 0)
        return mx_fail(s->failure.status, "%s", s->failure.line);
    if (!s->options.on_window)
        return mx_fail(MXW_E_STATE, "resume: the session was opened without on_window");
    if (!s->finished)
        return mx_fail(MXW_E_STATE, "resume before finish");
    mxw_status status = check_head(&a, s);
    if (status < 0)
        return status;
    serialize_loop_state(&a, &then);
    if (a.status >= 0 && a.at != a.n)
        fail(&a, MXW_E_FORMAT);
    int first = s->languages.n && !s->languages.known;
    if (a.status >= 0 && first)
        a.status = mx_session_take_languages(s, then.spans, (size_t)then.n_spans);
    if (a.status >= 0 && s->options.vad)
        a.status = mx_session_plan_clips(s);
    if (a.status >= 0)
        a.status = check_loop_state(s, &then);
    if (a.status < 0 && first)
        mx_session_forget_languages(s);
    return a.status < 0 ? a.status : take(s, &then);
}
