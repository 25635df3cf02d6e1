/* output/cues.c - subtitles from words: maximal line width and number of lines, cues that end at a pause or segment,
 * each word highlighted in turn. The rules and their order are those of openai-whisper's subtitle writer. */
#include "output/cues.h"

#include <math.h>
#include <string.h>

#define LONG_PAUSE_S 3.0
#define UNLIMITED 1000   /* characters of a line, words of a chunk: the reference's own limit */

typedef struct cue_word {
    size_t begin, end;       /* bytes of cue_builder.text */
    const mxw_word *word;
} cue_word;

typedef struct cue_builder {
    const mx_cue_options *options;
    mx_cue_fn emit;
    void *user;
    int keeps_segments;
    size_t width, words_per_chunk;
    mx_str text;             /* of the current cue */
    cue_word *words;
    size_t n_words, room;
    size_t line_length, n_lines;
    double last;             /* start of the previous word */
    mx_str marked;           /* scratch */
} cue_builder;

static size_t characters(const char *text, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

void mx_cue_escape(mx_str *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '{' || text[i] == '}')
            mx_str_text(out, "\\");
        mx_str_add(out, text[i] == '\n' || text[i] == '\r' ? " " : &text[i], 1);
    }
}

/* ---- complete cues ----------------------------------------------------------------------------------------------- */

/* The cue's text with word i underlined, without the white space before it. */
static void mark(cue_builder *m, size_t i) {
    const char *text = mx_str_get(&m->text);
    size_t end = m->words[i].end, n = end - m->words[i].begin;
    const char *stripped = mx_utf8_strip(text + m->words[i].begin, &n);
    size_t from = n ? (size_t)(stripped - text) : end;
    mx_str_clear(&m->marked);
    mx_str_add(&m->marked, text, from);
    mx_str_text(&m->marked, m->options->mark_begin);
    mx_str_add(&m->marked, text + from, end - from);
    mx_str_text(&m->marked, m->options->mark_end);
    mx_str_add(&m->marked, text + end, m->text.n - end);
}

static mxw_status emit_marked(cue_builder *m, int64_t start_ms) {
    mxw_status status = MXW_OK;
    int64_t last = start_ms;
    for (size_t i = 0; i < m->n_words; i++) {
        int64_t from, to;
        MX_TRY(mx_output_ms(m->words[i].word->start, &from));
        MX_TRY(mx_output_ms(m->words[i].word->end, &to));
        if (last != from)
            MX_TRY(m->emit(m->user, last, from, mx_str_get(&m->text), m->text.n));
        mark(m, i);
        MX_TRY(mx_str_status(&m->marked));
        MX_TRY(m->emit(m->user, from, to, mx_str_get(&m->marked), m->marked.n));
        last = to;
    }
out:
    return status;
}

static mxw_status emit_cue(cue_builder *m) {
    mxw_status status;
    int64_t start_ms, end_ms;
    if (m->n_words == 0)
        return MXW_OK;
    MX_TRY(mx_str_status(&m->text));
    MX_TRY(mx_output_ms(m->words[0].word->start, &start_ms));
    MX_TRY(mx_output_ms(m->words[m->n_words - 1].word->end, &end_ms));
    if (m->options->highlight_words)
        MX_TRY(emit_marked(m, start_ms));
    else
        MX_TRY(m->emit(m->user, start_ms, end_ms, mx_str_get(&m->text), m->text.n));
out:
    mx_str_clear(&m->text);
    m->n_words = 0;
    m->n_lines = 1;
    return status;
}

/* ---- word by word ------------------------------------------------------------------------------------------------ */

static mxw_status add_word(cue_builder *m, const mxw_word *word, const char *text, size_t n, int breaks) {
    mxw_status status = mx_grow(&m->words, &m->room, m->n_words + 1, sizeof(*m->words));
    if (status < 0)
        return status;
    mx_str_text(&m->text, breaks ? m->options->line_break : "");
    size_t begin = m->text.n;   /* a line break is not part of the word */
    if (m->options->escapes)
        mx_cue_escape(&m->text, text, n);
    else
        mx_str_add(&m->text, text, n);
    m->words[m->n_words++] = (cue_word){begin, m->text.n, word};
    m->last = word->start;
    return MXW_OK;
}

/* begins: the first of its segment, or of a chunk of it. */
static mxw_status take_word(cue_builder *m, const mxw_word *word, const char *text, size_t n, int begins) {
    int pause = !m->keeps_segments && word->start - m->last > LONG_PAUSE_S;
    int segment = begins && m->n_words > 0 && m->keeps_segments;
    size_t length = characters(text, n);
    if (m->line_length > 0 && m->line_length + length <= m->width && !pause && !segment) {
        m->line_length += length;
        return add_word(m, word, text, n, 0);
    }
    int breaks = 0;
    text = mx_utf8_strip(text, &n);
    int full = m->n_words > 0 && m->options->max_line_count && (pause || m->n_lines >= m->options->max_line_count);
    if (full || segment) {
        mxw_status status = emit_cue(m);
        if (status < 0)
            return status;
    } else if (m->line_length > 0) {
        m->n_lines++;
        breaks = 1;
    }
    m->line_length = characters(text, n);
    return add_word(m, word, text, n, breaks);
}

/* A word as written: the first of a segment is preceded by its speaker. */
static mxw_status take_segment_word(cue_builder *m, const mxw_segment *segment, size_t i, mx_str *named) {
    const mxw_word *word = &mx_segment_words(segment)[i];
    int begins = i % m->words_per_chunk == 0;
    if (i > 0 || !segment->speaker)
        return take_word(m, word, word->word, strlen(word->word), begins);
    const char *rest = word->word + strspn(word->word, " ");
    mx_str_clear(named);
    mx_str_print(named, " [%s] %s", segment->speaker, rest);
    mxw_status status = mx_str_status(named);
    return status < 0 ? status : take_word(m, word, mx_str_get(named), named->n, begins);
}

static double first_start(const mxw_result *result) {
    for (size_t i = 0; i < result->n_segments; i++)
        if (mx_segments(result)[i].n_words)
            return mx_segment_words(&mx_segments(result)[i])[0].start;
    return result->n_segments ? mx_segments(result)[0].start : 0;
}

int mx_cues_have_words(const mxw_result *result) {
    for (size_t i = 0; i < result->n_segments; i++)
        if (mx_segments(result)[i].words)
            return 1;
    return 0;
}

mxw_status mx_cues_of_words(const mxw_result *result, const mx_cue_options *options, mx_cue_fn emit, void *user) {
    mxw_status status = MXW_OK;
    mx_str named = {0};
    cue_builder m = {.options = options, .emit = emit, .user = user, .n_lines = 1, .last = first_start(result)};
    m.keeps_segments = !options->max_line_count || !options->max_line_width;
    m.width = options->max_line_width ? options->max_line_width : UNLIMITED;
    m.words_per_chunk = options->max_words_per_line ? options->max_words_per_line : UNLIMITED;
    for (size_t i = 0; i < result->n_segments; i++)
        for (size_t j = 0; j < mx_segments(result)[i].n_words; j++)
            MX_TRY(take_segment_word(&m, &mx_segments(result)[i], j, &named));
    MX_TRY(emit_cue(&m));
out:
    mx_str_free(&named);
    mx_str_free(&m.text);
    mx_str_free(&m.marked);
    mx_free(m.words);
    return status;
}
