/* cli/report/picture_errors.c - each engine's error against engine cpu, stage by stage, below the rounding bound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/chart.h"
#include "report/pictures.h"

enum { TOP = 74, BELOW = 78, LETTERS = 10 };
static const double left = 78, right = PICTURE_WIDTH - 24;

/* "encoder.blocks.3.attn.q" is of "enc 3"; what is before, between and after the blocks has its own name. */
static void group_of(const char *stage, char *out, size_t n) {
    int block;
    char rest;
    if (sscanf(stage, "encoder.blocks.%d%c", &block, &rest) == 2)
        snprintf(out, n, "encoder %d", block);
    else if (sscanf(stage, "decoder.blocks.%d%c", &block, &rest) == 2)
        snprintf(out, n, "decoder %d", block);
    else if (!strncmp(stage, "encoder.ln_post", 15))
        snprintf(out, n, "ln_post");
    else if (!strncmp(stage, "encoder.", 8))
        snprintf(out, n, "mel, stem");
    else if (strstr(stage, "cross"))
        snprintf(out, n, "cross");
    else if (!strncmp(stage, "decoder.", 8))
        snprintf(out, n, strstr(stage, "embed") || strstr(stage, "token") ? "embed" : "logits");
    else if (!strcmp(stage, "mel"))
        snprintf(out, n, "mel, stem");
    else
        snprintf(out, n, "%.16s", stage);
}

static void range_of(const picture_errors *p, double *low, double *high) {
    *low = INFINITY, *high = 0;
    for (int i = 0; i < p->n; i++) {
        for (int k = -1; k < p->n_series; k++) {
            double v = k < 0 ? p->bounds[i] : p->errors[k][i];
            *low = isfinite(v) && v > 0 && v < *low ? v : *low;
            *high = isfinite(v) && v > *high ? v : *high;
        }
    }
    if (!(*high > 0))
        *low = 1e-9, *high = 1;
}

/* A line where a block begins; its name under the axis, turned, where there is room. */
static void put_groups(const chart *c, const picture_errors *p) {
    char last[32] = "", now[32];
    double free_from = 0;
    for (int i = 0; i < p->n; i++) {
        group_of(p->stages[i], now, sizeof(now));
        if (!strcmp(now, last))
            continue;
        double x = chart_x(c, i);
        draw_color(c->sheet, CHART_FAINT, 1);
        draw_line(c->sheet, x, c->top, x, c->bottom + 4, 1, 0);
        draw_color(c->sheet, CHART_INK, 1);
        if (x + 4 >= free_from) {
            draw_turned(c->sheet, x + 9, c->bottom + 8, now, LETTERS, DRAW_RIGHT);
            free_from = x + 4 + LETTERS + 2;
        }
        snprintf(last, sizeof(last), "%s", now);
    }
}

static double height_of(const chart *c, double value) {
    return value > c->y.low ? chart_y(c, value) : c->bottom;
}

/* A line through what was seen, a dot for each stage; an error of 0 lies on the axis. */
static void put_series(const chart *c, const picture_errors *p, const double *values, uint32_t color, int bound) {
    double *xy = malloc(2 * (size_t)p->n * sizeof(*xy));
    int n = 0;
    draw_color(c->sheet, color, bound ? 0.9 : 0.45);
    for (int i = 0; xy && i < p->n; i++) {
        if (!isfinite(values[i]))
            continue;
        xy[2 * n] = chart_x(c, i);
        xy[2 * n++ + 1] = height_of(c, values[i]);
    }
    if (n > 1)
        draw_path(c->sheet, xy, n, 1.2, bound);
    draw_color(c->sheet, color, 1);
    for (int i = 0; i < n && !bound; i++)
        draw_disc(c->sheet, xy[2 * i], xy[2 * i + 1], 2.1);
    free(xy);
}

void picture_errors_draw(draw_sheet *s, const picture_errors *p) {
    chart c = {.sheet = s, .left = left, .top = TOP, .right = right, .bottom = s->height - BELOW};
    double low, high, x = left;
    range_of(p, &low, &high);
    c.x = (chart_axis){-1, p->n > 0 ? p->n : 1, 0};
    c.y = chart_decades(low / 3, high * 1.5);
    chart_frame(&c, "", "‖b − a‖ / ‖a‖");
    put_groups(&c, p);
    put_series(&c, p, p->bounds, CHART_GREY, 1);
    for (int i = 0; i < p->n_series; i++)
        put_series(&c, p, p->errors[i], draw_series_color(p->colors[i]), 0);
    chart title = c;
    title.top = TOP - 14;
    chart_title(&title, "Error by layer, against engine cpu",
                p->n_series > 0 && p->n > 0 ? "relative, stage by stage in the order of the run; on the axis: equal"
                                            : "no other engine runs here");
    for (int i = 0; i < p->n_series; i++)
        x = chart_legend(s, x, TOP - 12, p->names[i], draw_series_color(p->colors[i]));
    if (p->n > 0)
        chart_legend(s, x, TOP - 12, "bound (dashed): what rounding explains", CHART_GREY);
}
