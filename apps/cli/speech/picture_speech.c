/* cli/speech/picture_speech.c - see picture_speech.h: a strip has the sound on top, a bar for each region below it,
 * then probabilities: of speech in each chunk, or of the language of each region. */
#include "speech/picture_speech.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/chart.h"

enum { STRIPS = 6, TOP = 76, SOUND = 74, BAR = 7, CURVE = 58, AXIS = 34, LETTERS = 11, LANGUAGES = 8 };
static const double left = 58, right = PICTURE_SPEECH_WIDTH - 44, column = 0.5;

#define QUIET 0xa8b0b8 /* sound outside of regions */
#define SPEECH 0x0072b2
#define LINE 0x1d3f5e

/* One strip while it is drawn. */
typedef struct strip {
    draw_sheet *sheet;
    const picture_speech *p;
    double begin, end; /* seconds on the file's clock */
    double length;     /* seconds from left to right */
    double top;
} strip;

/* ---- measures ------------------------------------------------------------------------------------------- */

double picture_speech_strip(double duration_s) {
    static const double lengths[] = {60,   120,   180,   300,   600,   900,   1200,   1800,
                                     3600, 7200, 10800, 14400, 21600, 43200, 86400, 172800};
    if (duration_s <= lengths[0])
        return duration_s > 0.1 ? duration_s : 0.1;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
        if (duration_s <= lengths[i] * STRIPS)
            return lengths[i];
    return duration_s / STRIPS;
}

static int strips_of(const picture_speech *p) {
    int n = (int)ceil(p->heard->duration_s / picture_speech_strip(p->heard->duration_s) - 1e-9);
    return n < 1 ? 1 : n;
}

double picture_speech_height(const picture_speech *p) {
    return TOP + strips_of(p) * (SOUND + BAR + CURVE + AXIS) + 4;
}

static double x_of(const strip *t, double seconds) { return left + (seconds - t->begin) / t->length * (right - left); }

static double time_of(const strip *t, double x) { return t->begin + (x - left) / (right - left) * t->length; }

static double y_of(const strip *t, double probability) {
    return t->top + SOUND + BAR + CURVE * (1 - (probability < 0 ? 0 : probability > 1 ? 1 : probability));
}

/* ---- languages ------------------------------------------------------------------------------------------ */

/* The languages by the order in which they appear; how many there are. */
static int languages_of(const hearing *h, const char *names[LANGUAGES]) {
    int n = 0;
    for (size_t i = 0; i < h->n_regions; i++) {
        int k = 0;
        while (k < n && h->regions[i].language && strcmp(names[k], h->regions[i].language))
            k++;
        if (h->regions[i].language && k == n && n < LANGUAGES)
            names[n++] = h->regions[i].language;
    }
    return n;
}

static uint32_t color_of(const hearing *h, const hearing_region *r) {
    const char *names[LANGUAGES];
    int n = languages_of(h, names);
    for (int i = 0; i < n && r->language; i++)
        if (!strcmp(names[i], r->language))
            return draw_series_color(i);
    return SPEECH;
}

/* ---- what a strip has ----------------------------------------------------------------------------------- */

/* The region's part of the strip, in pixels; 0: it has none. */
static int part_of(const strip *t, const hearing_region *r, double *x0, double *x1) {
    if (r->end <= t->begin || r->start >= t->end)
        return 0;
    *x0 = x_of(t, r->start > t->begin ? r->start : t->begin);
    *x1 = x_of(t, r->end < t->end ? r->end : t->end);
    if (*x1 < *x0 + 0.8) /* a short one is seen, too */
        *x1 = *x0 + 0.8;
    return 1;
}

static void put_shades(const strip *t) {
    const hearing *h = t->p->heard;
    double x0, x1;
    for (size_t i = 0; i < h->n_regions; i++)
        if (part_of(t, &h->regions[i], &x0, &x1)) {
            uint32_t color = color_of(h, &h->regions[i]);
            draw_color(t->sheet, color, 0.10);
            draw_box(t->sheet, x0, t->top, x1 - x0, SOUND + BAR + CURVE);
            draw_color(t->sheet, color, 1);
            draw_box(t->sheet, x0, t->top + SOUND + 1, x1 - x0, BAR - 2);
        }
}

/* The sound from x0 to x1 as one line up and down, a turn for each column. */
static void put_sound(const strip *t, double x0, double x1, double scale, uint32_t color) {
    const hearing *h = t->p->heard;
    int n = 0, most = (int)((x1 - x0) / column) + 2;
    double *xy = malloc(4 * (size_t)(most > 0 ? most : 1) * sizeof(*xy));
    for (double x = x0; xy && x < x1 && n + 1 < 2 * most; x += column) {
        float low = 0, high = 0;
        int64_t first = (int64_t)((time_of(t, x) - h->start_s) * MXW_SAMPLE_RATE);
        int64_t end = (int64_t)((time_of(t, x + column) - h->start_s) * MXW_SAMPLE_RATE);
        if (!envelope_range(h->sound, first, end > first ? end : first + 1, &low, &high))
            continue;
        double middle = t->top + SOUND / 2.0, half = SOUND / 2.0 - 3;
        xy[2 * n] = xy[2 * n + 2] = x + column / 2;
        xy[2 * n + 1] = middle - half * (double)high * scale - 0.3;
        xy[2 * n + 3] = middle - half * (double)low * scale + 0.3;
        n += 2;
    }
    draw_color(t->sheet, color, 1);
    if (xy)
        draw_path(t->sheet, xy, n, column + 0.1, 0);
    else
        t->sheet->n_refused++;
    free(xy);
}

/* Grey, and in the regions in their colour. */
static void put_sounds(const strip *t) {
    const hearing *h = t->p->heard;
    double peak = h->sound ? (double)envelope_peak(h->sound) : 0, at = x_of(t, t->begin), x0, x1;
    double scale = peak > 1e-4 ? 1 / peak : 1, last = x_of(t, t->end);
    if (!h->sound)
        return;
    for (size_t i = 0; i < h->n_regions; i++)
        if (part_of(t, &h->regions[i], &x0, &x1)) {
            put_sound(t, at, x0, scale, QUIET);
            put_sound(t, x0, x1, scale, color_of(h, &h->regions[i]));
            at = x1 > at ? x1 : at;
        }
    put_sound(t, at, last, scale, QUIET);
}

/* Of the chunks between two times: the mean and the highest; 0: none. */
static int chunks_between(const hearing *h, double from, double to, double *mean, double *most) {
    int64_t first = (int64_t)floor((from - h->start_s) / h->chunk_s);
    int64_t end = (int64_t)ceil((to - h->start_s) / h->chunk_s), n = (int64_t)h->n_probabilities;
    first = first < 0 ? 0 : first;
    end = end < n ? end : n;
    if (first >= end)
        return 0;
    *mean = *most = 0;
    for (int64_t i = first; i < end; i++) {
        *mean += (double)h->probabilities[i] / (double)(end - first);
        *most = (double)h->probabilities[i] > *most ? (double)h->probabilities[i] : *most;
    }
    return 1;
}

/* Where chunks can be told apart: a line through their middles. */
static void put_line(const strip *t) {
    const hearing *h = t->p->heard;
    double *xy = malloc(2 * (h->n_probabilities + 1) * sizeof(*xy));
    int n = 0;
    for (size_t i = 0; xy && i < h->n_probabilities; i++) {
        double middle = h->start_s + ((double)i + 0.5) * h->chunk_s;
        if (middle < t->begin || middle > t->end)
            continue;
        xy[2 * n] = x_of(t, middle);
        xy[2 * n++ + 1] = y_of(t, (double)h->probabilities[i]);
    }
    draw_color(t->sheet, LINE, 1);
    if (xy)
        draw_path(t->sheet, xy, n, t->length > 20 ? 0.8 : 1.2, 0);
    else
        t->sheet->n_refused++;
    free(xy);
}

/* Where many fall on a pixel: their highest pale, their mean dark. */
static void put_areas(const strip *t) {
    int most = (int)((right - left) / column) + 2, n = 0;
    double *high = malloc(4 * (size_t)most * sizeof(*high)), *mean = malloc(4 * (size_t)most * sizeof(*mean));
    double base = y_of(t, 0);
    for (double x = left; high && mean && x < x_of(t, t->end) && n + 1 < 2 * most; x += column) {
        double m, top;
        if (!chunks_between(t->p->heard, time_of(t, x), time_of(t, x + column), &m, &top))
            continue;
        high[2 * n] = high[2 * n + 2] = mean[2 * n] = mean[2 * n + 2] = x + column / 2;
        high[2 * n + 1] = mean[2 * n + 1] = base;
        high[2 * n + 3] = y_of(t, top);
        mean[2 * n + 3] = y_of(t, m);
        n += 2;
    }
    if (high && mean) {
        draw_color(t->sheet, LINE, 0.2);
        draw_path(t->sheet, high, n, column + 0.1, 0);
        draw_color(t->sheet, LINE, 0.4);
        draw_path(t->sheet, mean, n, column + 0.1, 0);
    } else {
        t->sheet->n_refused++;
    }
    free(high);
    free(mean);
}

/* A region's language: as high as it is probable, its code in it where there is room. */
static void put_languages(const strip *t) {
    const hearing *h = t->p->heard;
    double x0, x1;
    for (size_t i = 0; i < h->n_regions; i++) {
        const hearing_region *r = &h->regions[i];
        if (!r->language || !part_of(t, r, &x0, &x1))
            continue;
        draw_color(t->sheet, color_of(h, r), 0.75);
        draw_box(t->sheet, x0, y_of(t, r->probability), x1 - x0, y_of(t, 0) - y_of(t, r->probability));
        if (draw_text_width(t->sheet, r->language, LETTERS) + 4 > x1 - x0 || r->probability < 0.3)
            continue;
        draw_color(t->sheet, 0xffffff, 1);
        draw_bold(t->sheet, (x0 + x1) / 2, y_of(t, 0) - 6, r->language, LETTERS, DRAW_CENTER);
    }
}

/* ---- axes ----------------------------------------------------------------------------------------------- */

/* Seconds between two ticks of a strip. */
static double tick_step(double length) {
    static const double steps[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400};
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
        if (length / steps[i] <= 12.01)
            return steps[i];
    return length / 10;
}

/* "3 s" of short recordings, else 1:05 or 2:00:07. */
static void time_text(double seconds, double step, double whole, char *text, size_t size) {
    long n = lround(seconds);
    if (whole <= 60)
        snprintf(text, size, step < 1 ? "%.1f s" : "%.0f s", seconds);
    else if (whole < 3600)
        snprintf(text, size, "%ld:%02ld", n / 60, n % 60);
    else
        snprintf(text, size, "%ld:%02ld:%02ld", n / 3600, n / 60 % 60, n % 60);
}

static void put_time_axis(const strip *t) {
    const hearing *h = t->p->heard;
    double step = tick_step(t->length), y = t->top + SOUND + BAR + CURVE, whole = h->start_s + h->duration_s;
    char text[32];
    for (long i = lround(ceil(t->begin / step - 1e-6)); (double)i * step <= t->begin + t->length + 1e-6 * step; i++) {
        double at = (double)i * step;
        draw_color(t->sheet, CHART_FAINT, 1);
        draw_line(t->sheet, x_of(t, at), t->top, x_of(t, at), y, 0.6, 0);
        draw_color(t->sheet, CHART_GREY, 1);
        draw_line(t->sheet, x_of(t, at), y, x_of(t, at), y + 4, 1, 0);
        time_text(at, step, whole, text, sizeof(text));
        draw_color(t->sheet, CHART_INK, 1);
        draw_text(t->sheet, x_of(t, at), y + 16, text, 10, DRAW_CENTER);
    }
}

static void put_probability_axis(const strip *t) {
    static const double marks[] = {0, 0.5, 1};
    char text[16];
    for (int i = 0; i < 3; i++) {
        double y = y_of(t, marks[i]);
        draw_color(t->sheet, CHART_FAINT, 1);
        draw_line(t->sheet, left, y, right, y, 0.6, 0);
        draw_color(t->sheet, CHART_INK, 1);
        snprintf(text, sizeof(text), "%g", marks[i]);
        draw_text(t->sheet, left - 6, y + 4, text, 10, DRAW_RIGHT);
    }
    draw_turned(t->sheet, left - 32, y_of(t, 0.5), t->p->thresholds ? "p (speech)" : "p (language)", 10, DRAW_CENTER);
    draw_turned(t->sheet, left - 32, t->top + SOUND / 2.0, "sound", 10, DRAW_CENTER);
    draw_color(t->sheet, CHART_GREY, 1);
    draw_line(t->sheet, left, t->top, left, y_of(t, 0), 1, 0);
    draw_line(t->sheet, left, y_of(t, 0), right, y_of(t, 0), 1, 0);
}

static void put_thresholds(const strip *t) {
    char text[16];
    double above = -1;
    for (int i = 0; i < 2 && t->p->thresholds; i++) {
        double y = y_of(t, t->p->thresholds[i]), at = y + (i ? 6 : 2);
        draw_color(t->sheet, draw_series_color(1), i ? 0.75 : 1);
        draw_line(t->sheet, left, y, right, y, 0.9, 1);
        snprintf(text, sizeof(text), "%g", t->p->thresholds[i]);
        at = i && at < above + 10 ? above + 10 : at;
        draw_text(t->sheet, right + 4, at, text, 9, DRAW_LEFT);
        above = at;
    }
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static void put_legend(draw_sheet *s, const picture_speech *p) {
    const char *names[LANGUAGES];
    char text[96], spoken[40];
    int n = languages_of(p->heard, names);
    double x = left, y = TOP - 14;
    for (int i = 0; i < n; i++) {
        hearing_duration(hearing_speech(p->heard, names[i]), spoken, sizeof(spoken));
        snprintf(text, sizeof(text), "%s (%s), %s", hearing_language_name(names[i]), names[i], spoken);
        if (x + 15 + draw_text_width(s, text, LETTERS) > right + 30)
            break;
        x = chart_legend(s, x, y, text, draw_series_color(i));
    }
    if (p->thresholds) {
        x = chart_legend(s, x, y, "speech", SPEECH);
        x = chart_legend(s, x, y, "no speech", QUIET);
        x = chart_legend(s, x, y, "probability of speech", LINE);
        x = chart_legend(s, x, y, "where speech begins and ends", draw_series_color(1));
    }
}

static void put_strip(const strip *t) {
    const hearing *h = t->p->heard;
    double pixels = h->chunk_s > 0 ? h->chunk_s / t->length * (right - left) : 0;
    put_time_axis(t);
    put_shades(t);
    put_sounds(t);
    put_probability_axis(t);
    if (h->n_probabilities && pixels >= 0.3)
        put_line(t);
    else if (h->n_probabilities)
        put_areas(t);
    else
        put_languages(t);
    put_thresholds(t);
}

void picture_speech_draw(draw_sheet *s, const picture_speech *p) {
    chart head = {.sheet = s, .left = left, .top = TOP - 22, .right = right};
    const hearing *h = p->heard;
    double length = picture_speech_strip(h->duration_s), whole = h->start_s + h->duration_s;
    chart_title(&head, p->title, p->note);
    put_legend(s, p);
    for (int i = 0; i < strips_of(p); i++) {
        strip t = {.sheet = s, .p = p, .begin = h->start_s + i * length, .length = length};
        t.end = t.begin + length < whole ? t.begin + length : whole;
        t.top = TOP + i * (double)(SOUND + BAR + CURVE + AXIS);
        put_strip(&t);
    }
}
