/* cli/report/picture_words.c - the log-mel of a window in strips of ten seconds, with the words below it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/chart.h"
#include "report/pictures.h"

enum { LONGEST_STRIP_S = 10, MEL_HEIGHT = 110, LANES = 4, LANE_HEIGHT = 14, LETTERS = 11, TOP = 58 };
enum { FRAMES_PER_S = 100 };
static const double left = 62, right = PICTURE_WIDTH - 86;

static double end_of(const picture_words *p) { return (double)p->frames / FRAMES_PER_S; }

/* Seconds of a strip: ten, or all of what is shorter. */
static int strip_s(const picture_words *p) {
    int all = (int)ceil(end_of(p) - 1e-9);
    return all < 1 ? 1 : all < LONGEST_STRIP_S ? all : LONGEST_STRIP_S;
}

static int strips_of(const picture_words *p) {
    int n = (int)ceil(end_of(p) / strip_s(p) - 1e-9);
    return n < 1 ? 1 : n;
}

static double strip_height(void) { return MEL_HEIGHT + 26 + LANES * LANE_HEIGHT; }

double picture_words_height(const picture_words *p) { return TOP + strips_of(p) * strip_height() + 6; }

/* Where a frequency lies between the lowest and the highest of Whisper's mel filters, 0 to 8000 Hz (Slaney's scale). */
static double mel_share(double hz) {
    double most = 15 + 27 * log(8.0) / log(6.4);
    return (hz < 1000 ? hz * 15 / 1000 : 15 + 27 * log(hz / 1000) / log(6.4)) / most;
}

static void put_frequencies(draw_sheet *s, double top) {
    static const struct {
        double hz;
        const char *name;
    } marks[] = {{0, "0"}, {500, "0.5"}, {1000, "1"}, {2000, "2"}, {4000, "4"}, {8000, "8"}};
    draw_color(s, CHART_INK, 1);
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
        double y = top + MEL_HEIGHT * (1 - mel_share(marks[i].hz));
        draw_line(s, left - 4, y, left, y, 1, 0);
        draw_text(s, left - 7, y + 4, marks[i].name, LETTERS, DRAW_RIGHT);
    }
    draw_turned(s, left - 34, top + MEL_HEIGHT / 2.0, "kHz (mel scale)", LETTERS, DRAW_CENTER);
}

/* The smallest and largest value, for the colours. */
static void range_of(const picture_words *p, double *low, double *high) {
    *low = INFINITY, *high = -INFINITY;
    for (size_t i = 0; i < (size_t)p->frames * (size_t)p->mels; i++) {
        double v = (double)p->mel[i];
        *low = isfinite(v) && v < *low ? v : *low;
        *high = isfinite(v) && v > *high ? v : *high;
    }
    if (!(*high > *low))
        *low = isfinite(*low) ? *low : 0, *high = *low + 1;
}

static void put_scale(draw_sheet *s, double top, double low, double high) {
    char text[32];
    double x = right + 14;
    for (int i = 0; i < MEL_HEIGHT; i++) {
        draw_color(s, draw_heat_color(1 - (i + 0.5) / MEL_HEIGHT), 1);
        draw_box(s, x, top + i, 10, 1.2);
    }
    draw_color(s, CHART_INK, 1);
    snprintf(text, sizeof(text), "%.2f", high);
    draw_text(s, x + 14, top + 8, text, 10, DRAW_LEFT);
    snprintf(text, sizeof(text), "%.2f", low);
    draw_text(s, x + 14, top + MEL_HEIGHT, text, 10, DRAW_LEFT);
    draw_turned(s, x + 24, top + MEL_HEIGHT / 2.0, "log-mel", 10, DRAW_CENTER);
}

/* The strip's columns, mels upwards: the log-mel lies [frames][mels]. */
static void put_mel(draw_sheet *s, const picture_words *p, double top, int first, int n, double low, double high) {
    float *turned = malloc((size_t)n * (size_t)p->mels * sizeof(*turned));
    if (!turned) {
        s->n_refused++;
        return;
    }
    for (int m = 0; m < p->mels; m++)
        for (int i = 0; i < n; i++)
            turned[(size_t)m * (size_t)n + (size_t)i] = p->mel[(size_t)(first + i) * (size_t)p->mels + (size_t)m];
    double width = (right - left) * n / (strip_s(p) * FRAMES_PER_S);
    draw_heat(s, left, top, width, MEL_HEIGHT, turned, n, p->mels, 1, low, high);
    free(turned);
}

static void put_seconds(draw_sheet *s, const picture_words *p, double top, double begin) {
    char text[32];
    double y = top + MEL_HEIGHT, per_s = (right - left) / strip_s(p);
    draw_color(s, CHART_INK, 1);
    for (int i = 0; i <= strip_s(p) && begin + i <= end_of(p) + 1e-9; i++) {
        draw_line(s, left + i * per_s, y, left + i * per_s, y + 4, 1, 0);
        snprintf(text, sizeof(text), "%g s", begin + i);
        draw_text(s, left + i * per_s, y + 15, text, 10, DRAW_CENTER);
    }
}

/* A bar for the time, the word in the first lane that has room for it; the words that found none are counted. */
static int put_words(draw_sheet *s, const picture_words *p, double top, double begin) {
    double ends[LANES], per_s = (right - left) / strip_s(p);
    int n_left_out = 0;
    for (int i = 0; i < LANES; i++)
        ends[i] = left - 30;
    for (int i = 0; i < p->n_words; i++) {
        const picture_word *w = &p->words[i];
        if (!(w->start >= begin && w->start < begin + strip_s(p)))
            continue;
        double x0 = left + (w->start - begin) * per_s, x1 = left + (w->end - begin) * per_s;
        double y = top + MEL_HEIGHT + 19, width = draw_text_width(s, w->text, LETTERS);
        double at = (x0 + (x1 < right ? x1 : right)) / 2 - width / 2;
        at = at + width > PICTURE_WIDTH - 4 ? PICTURE_WIDTH - 4 - width : at;
        draw_color(s, draw_series_color(i % 2), 1);
        draw_box(s, x0, y, (x1 < right ? x1 : right) - x0, 3);
        int lane = 0;
        while (lane < LANES && at < ends[lane] + 5)
            lane++;
        n_left_out += lane == LANES;
        if (lane == LANES)
            continue;
        draw_text(s, at, y + 2 + (lane + 1) * LANE_HEIGHT, w->text, LETTERS, DRAW_LEFT);
        ends[lane] = at + width;
    }
    return n_left_out;
}

void picture_words_draw(draw_sheet *s, const picture_words *p) {
    chart head = {.sheet = s, .left = left, .top = TOP - 8, .right = right};
    double low, high;
    int n_left_out = 0;
    range_of(p, &low, &high);
    for (int i = 0; i < strips_of(p); i++) {
        double top = TOP + i * strip_height(), begin = (double)i * strip_s(p);
        int most = strip_s(p) * FRAMES_PER_S, first = i * most, n = p->frames - first;
        n = n > most ? most : n;
        if (n > 0)
            put_mel(s, p, top, first, n, low, high);
        put_frequencies(s, top);
        put_seconds(s, p, top, begin);
        n_left_out += put_words(s, p, top, begin);
        if (i == 0)
            put_scale(s, top, low, high);
    }
    char note[160];
    snprintf(note, sizeof(note), "the bar under the sound is a word's time; %d words%s", p->n_words,
             p->frames < 1 ? "; there is no sound" : "");
    if (n_left_out)
        snprintf(note, sizeof(note), "the bar under the sound is a word's time; %d words, %d of them found no room",
                 p->n_words, n_left_out);
    chart_title(&head, p->title, note);
}
