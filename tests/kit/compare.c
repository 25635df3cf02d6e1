/* tests/kit/compare.c - segments, decisions and written files against a golden row; see compare.h. */
#include "kit/compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(char *line, size_t n, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(char *line, size_t n, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, n, format, arguments);
    va_end(arguments);
}

/* ---- segments ------------------------------------------------------------------------------------ */

static int same_tokens(const mxw_segment *segment, const json_t *wanted) {
    size_t n;
    int32_t *tokens = golden_tokens(wanted, "tokens", &n);
    int same = n == segment->n_tokens && memcmp(tokens, segment->tokens, n * sizeof(*tokens)) == 0;
    free(tokens);
    return same;
}

/* NULL if the segment is the wanted one, else what differs. */
static const char *segment_difference(const mxw_segment *segment, const json_t *wanted) {
    if (segment->seek != golden_integer(wanted, "seek"))
        return "seek";
    if (!same_tokens(segment, wanted))
        return "tokens";
    if (segment->start != golden_number(wanted, "start"))
        return "start";
    if (segment->end != golden_number(wanted, "end"))
        return "end";
    return strcmp(segment->text, golden_string(wanted, "text")) == 0 ? NULL : "text";
}

static const json_t *window_at(const json_t *row, int64_t seek) {
    size_t i;
    json_t *window;
    json_array_foreach(golden_array(row, "windows"), i,
                       window) if (golden_integer(window, "seek") == seek) return window;
    return NULL;
}

/* The probabilities a segment carries are its window's. */
static int probabilities_differ(const json_t *row, const mxw_segment *segment, double tolerance, char *line, size_t n) {
    const json_t *window = window_at(row, segment->seek);
    if (!window) {
        say(line, n, "no window of the golden at %lld", (long long)segment->seek);
        return 1;
    }
    double logprob = golden_number(window, "avg_logprob"), no_speech = golden_number(window, "no_speech_prob");
    if (fabs(segment->avg_logprob - logprob) <= tolerance && fabs(segment->no_speech_prob - no_speech) <= tolerance &&
        segment->compression_ratio == golden_number(window, "compression_ratio") &&
        segment->temperature == golden_number(window, "temperature"))
        return 0;
    say(line, n,
        "window at %lld: avg_logprob %.6f no_speech %.6f ratio %.17g temperature %g, the golden has %.6f %.6f %.17g %g",
        (long long)segment->seek, segment->avg_logprob, segment->no_speech_prob, segment->compression_ratio,
        segment->temperature, logprob, no_speech, golden_number(window, "compression_ratio"),
        golden_number(window, "temperature"));
    return 1;
}

/* The least margin of a window: of its choices, and of the two thresholds that decide whether it is skipped. */
static double least_margin(const json_t *window, const char **name) {
    const char *key;
    json_t *margin;
    double no_speech = golden_number(window, "no_speech_prob"), least = fabs(no_speech - 0.6);
    *name = "no-speech threshold";
    double logprob = fabs(golden_number(window, "avg_logprob") + 1.0);
    if (no_speech > 0.59 && logprob < least) {
        least = logprob;
        *name = "log probability threshold";
    }
    json_object_foreach(json_object_get(window, "margins"), key, margin) {
        double value = json_number_value(json_is_array(margin) ? json_array_get(margin, 0) : margin);
        if (value < least) {
            least = value;
            *name = key;
        }
    }
    return least;
}

/* The files part at seek; all windows up to agreed_seek are known to be the same (-1: none is). The least margin of the
 * windows from there up to seek decides. */
static int judge(const json_t *row, int64_t agreed_seek, int64_t seek, double tolerance, const char *what, char *line,
                 size_t n) {
    size_t i;
    json_t *window;
    double least = INFINITY;
    const char *name = "none", *of;
    json_array_foreach(golden_array(row, "windows"), i, window) {
        int64_t at = golden_integer(window, "seek");
        if (at <= agreed_seek || at > seek)
            continue;
        double margin = least_margin(window, &of);
        if (margin < least) {
            least = margin;
            name = of;
        }
    }
    say(line, n, "%s part in the window at %lld; the reference's least margin there: %s %.3g", what, (long long)seek,
        name, least);
    return least < tolerance ? 0 : -1;
}

static int compare_language(const json_t *row, const mxw_result *result, double tolerance, char *line, size_t n) {
    const json_t *detected = json_object_get(row, "detected");
    if (strcmp(result->language, golden_string(row, "language")) != 0) {
        double gap = json_is_object(detected)
                         ? golden_number(detected, "probability") - golden_number(detected, "second_probability")
                         : INFINITY;
        say(line, n, "language %s, the golden has %s by %.3g", result->language, golden_string(row, "language"), gap);
        return gap < tolerance ? 0 : -1;
    }
    if (!json_is_object(detected) ||
        fabs(result->language_probability - golden_number(detected, "probability")) <= tolerance)
        return 1;
    say(line, n, "language probability %.6f, the golden has %.6f", result->language_probability,
        golden_number(detected, "probability"));
    return -1;
}

int compare_result(const json_t *row, const mxw_result *result, double tolerance, char *line, size_t n) {
    const json_t *segments = golden_array(row, "segments");
    size_t n_wanted = json_array_size(segments), i = 0;
    const char *what = NULL;
    line[0] = 0;
    int verdict = compare_language(row, result, tolerance, line, n);
    if (verdict != 1)
        return verdict;
    for (; i < n_wanted && i < result->n_segments && !what; i++)
        what = segment_difference(mxw_result_segment(result, i), json_array_get(segments, i));
    i -= what != NULL;
    if (what || n_wanted != result->n_segments) {
        int64_t theirs = i < n_wanted ? golden_integer(json_array_get(segments, i), "seek") : INT64_MAX;
        int64_t ours = i < result->n_segments ? mxw_result_segment(result, i)->seek : INT64_MAX;
        int64_t seek = theirs < ours ? theirs : ours, agreed = -1;
        for (size_t j = 0; j < i; j++)
            if (mxw_result_segment(result, j)->seek < seek)
                agreed = mxw_result_segment(result, j)->seek;
        return judge(row, agreed, seek, tolerance, what ? what : "the numbers of segments", line, n);
    }
    for (i = 0; i < n_wanted; i++)
        if (probabilities_differ(row, mxw_result_segment(result, i), tolerance, line, n))
            return -1;
    size_t n_windows = json_array_size(golden_array(row, "windows"));
    if ((size_t)result->n_windows != n_windows) {
        say(line, n, "%lld windows, the golden has %zu", (long long)result->n_windows, n_windows);
        return -1;
    }
    if (strcmp(result->text, golden_string(row, "text")) != 0) {
        say(line, n, "the whole text differs although the segments do not");
        return -1;
    }
    return 1;
}

/* ---- fallback ------------------------------------------------------------------------------------ */

int compare_fallback(const json_t *row, const mxw_result *result, double tolerance, char *line, size_t n) {
    size_t i;
    json_t *decision;
    int64_t falls_at = -1; /* seek of the first window that falls back */
    const char *name = NULL;
    double least = INFINITY;
    line[0] = 0;
    json_array_foreach(golden_array(row, "decisions"), i, decision) {
        if (json_is_true(json_object_get(decision, "needs_fallback")))
            falls_at = golden_integer(decision, "seek");
        const char *of;
        double margin = least_margin(decision, &of);
        if (margin < least) {
            least = margin;
            name = of;
        }
    }
    int64_t ours = -1;
    for (i = 0; i < result->n_segments && ours < 0; i++)
        if (mxw_result_segment(result, i)->temperature > 0)
            ours = mxw_result_segment(result, i)->seek;
    /* a window that fell back may have been skipped as silent afterwards: it left no segment, only the count */
    int same = falls_at < 0 ? result->n_temperature_fallbacks == 0
                            : result->n_temperature_fallbacks > 0 && (ours < 0 || ours >= falls_at);
    if (same)
        return 1;
    say(line, n,
        "%lld windows fell back, the first at %lld; in the golden the first is at %lld; its least margin: %s %.3g",
        (long long)result->n_temperature_fallbacks, (long long)ours, (long long)falls_at, name, least);
    return least < tolerance ? 0 : -1;
}

/* ---- written files ------------------------------------------------------------------------------- */

typedef struct text {
    char *data;
    size_t n;
} text;

static int append(void *user, const void *bytes, size_t n) {
    text *t = user;
    char *grown = realloc(t->data, t->n + n + 1);
    if (!grown)
        return 1;
    t->data = grown;
    memcpy(grown + t->n, bytes, n);
    t->n += n;
    grown[t->n] = 0;
    return 0;
}

static int ends_with(const char *start, const char *at, const char *word) {
    size_t n = strlen(word);
    return (size_t)(at - start) >= n && memcmp(at - n, word, n) == 0;
}

/* Equal byte for byte, but for the two numbers of json that are the machine's. */
static int same_text(const char *ours, const char *theirs, double tolerance) {
    const char *start = ours;
    for (;;) {
        if (ends_with(start, ours, "\"avg_logprob\": ") || ends_with(start, ours, "\"no_speech_prob\": ")) {
            char *ours_end, *theirs_end;
            if (!(fabs(strtod(ours, &ours_end) - strtod(theirs, &theirs_end)) <= tolerance))
                return 0;
            ours = ours_end;
            theirs = theirs_end;
        }
        if (*ours != *theirs)
            return 0;
        if (!*ours)
            return 1;
        ours++, theirs++;
    }
}

int compare_written(const char *model, const json_t *row, const mxw_result *result, double tolerance, int *files) {
    const char *clip = golden_string(row, "clip"), *format;
    int ok = 1;
    if (strncmp(clip, "package:", 8) != 0)
        return 1;
    for (int i = 0; (format = mxw_format_name(i)); i++) {
        char name[256];
        snprintf(name, sizeof(name), "writers/%s/%s.%s", model, clip + 8, format);
        char *theirs = golden_text(name);
        if (!theirs)
            continue;
        text ours = {0};
        if (mxw_result_write(result, format, NULL, append, &ours) < 0 || !ours.data ||
            !same_text(ours.data, theirs, tolerance)) {
            printf("    %s: not as openai-whisper writes it\n", name);
            ok = 0;
        }
        (*files)++;
        free(ours.data);
        free(theirs);
    }
    return ok;
}
