/* cli/report/picture_alignment.c - cross-attention of the alignment heads, token by token, with the DTW path of
 * the word times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/chart.h"
#include "report/pictures.h"

enum { TOP = 58, BELOW = 48, LETTERS = 11, COLUMNS_PER_S = 50 };
static const double left = 130, right = PICTURE_WIDTH - 20;

static double row_height(const picture_alignment *p) {
    double h = 1300.0 / (p->rows > 0 ? p->rows : 1);
    return h > 15 ? 15 : h < 5 ? 5 : h;
}

double picture_alignment_height(const picture_alignment *p) {
    return TOP + BELOW + (p->rows > 0 ? p->rows * row_height(p) : 40);
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Most of the matrix is dark; the light end of the scale is where the highest hundredth begins. */
static void range_of(const picture_alignment *p, double *low, double *high) {
    size_t all = (size_t)p->rows * (size_t)p->columns, n = 0;
    float *sorted = malloc((all ? all : 1) * sizeof(*sorted));
    *low = 0, *high = 1;
    for (size_t i = 0; sorted && i < all; i++)
        if (isfinite(p->matrix[i]))
            sorted[n++] = p->matrix[i];
    if (n > 0) {
        qsort(sorted, n, sizeof(*sorted), by_size);
        *low = (double)sorted[n / 20];
        *high = (double)sorted[n - 1 - n / 100];
    }
    if (!(*high > *low))
        *high = *low + 1;
    free(sorted);
}

/* From where a row begins to where the next does, then down. */
static void put_path(const chart *c, const picture_alignment *p) {
    double *xy = malloc(4 * (size_t)p->rows * sizeof(*xy)), h = row_height(p);
    for (int i = 0; xy && i < p->rows; i++) {
        int next = i + 1 < p->rows ? p->frames[i + 1] : p->columns;
        double y = c->top + (i + 0.5) * h;
        xy[4 * i] = chart_x(c, p->frames[i] / (double)COLUMNS_PER_S);
        xy[4 * i + 1] = xy[4 * i + 3] = y;
        xy[4 * i + 2] = chart_x(c, next / (double)COLUMNS_PER_S);
    }
    draw_color(c->sheet, 0xffffff, 0.9);
    if (xy)
        draw_path(c->sheet, xy, 2 * p->rows, 3, 0);
    draw_color(c->sheet, 0x0099ff, 1);
    if (xy)
        draw_path(c->sheet, xy, 2 * p->rows, 1.6, 0);
    free(xy);
}

/* Names of as many rows as are legible, each cut to the margin. */
static void put_names(const chart *c, const picture_alignment *p) {
    double h = row_height(p), size = h < LETTERS ? 9 : LETTERS;
    int every = (int)ceil((size + 1) / h);
    char cut[128];
    draw_color(c->sheet, CHART_INK, 1);
    for (int i = 0; i < p->rows; i += every) {
        chart_fit(c->sheet, p->names[i], size, left - 16, cut, sizeof(cut));
        draw_text(c->sheet, left - 6, c->top + (i + 0.5) * h + size / 3, cut, size, DRAW_RIGHT);
    }
}

void picture_alignment_draw(draw_sheet *s, const picture_alignment *p) {
    chart c = {.sheet = s, .left = left, .top = TOP, .right = right, .bottom = s->height - BELOW};
    double low, high;
    c.x = (chart_axis){0, p->columns > 0 ? p->columns / (double)COLUMNS_PER_S : 1, 0};
    c.y = (chart_axis){0, 1, 0};
    range_of(p, &low, &high);
    chart_frame(&c, "seconds from the beginning of the window", "");
    if (p->rows > 0 && p->columns > 0) {
        draw_heat(s, c.left, c.top, c.right - c.left, c.bottom - c.top, p->matrix, p->columns, p->rows, 0, low, high);
        put_names(&c, p);
        put_path(&c, p);
        chart_title(&c, p->title,
                    "light: frames of 20 ms that fit a token well, mean of the alignment heads; line: the path of the "
                    "greatest sum, from which word times come");
    } else {
        chart_title(&c, p->title, "there is no text in the window");
    }
}
