/* cli/report/picture_bars.c - where the time went: a bar for each engine or run, in the colours of its stages. */
#include <math.h>
#include <stdio.h>

#include "report/chart.h"
#include "report/pictures.h"

enum { TOP = 76, BELOW = 52, BAR = 22, GAP = 10, LETTERS = 11 };
static const double left = 190, right = PICTURE_WIDTH - 190;

static double length_of(const picture_bars *p, const picture_bar *bar) {
    double sum = 0;
    for (int i = 0; i < p->n_stages; i++)
        sum += isfinite(bar->ms[i]) && bar->ms[i] > 0 ? bar->ms[i] : 0;
    return sum;
}

double picture_bars_height(const picture_bars *p) {
    return TOP + BELOW + (p->n_bars > 0 ? p->n_bars : 1) * (BAR + GAP);
}

static void put_bar(const chart *c, const picture_bars *p, int i) {
    const picture_bar *bar = &p->bars[i];
    char text[128], cut[128];
    double y = c->top + i * (BAR + GAP) + GAP / 2.0, at = 0;
    for (int k = 0; k < p->n_stages; k++) {
        double ms = isfinite(bar->ms[k]) && bar->ms[k] > 0 ? bar->ms[k] : 0;
        draw_color(c->sheet, draw_series_color(k), 1);
        draw_box(c->sheet, chart_x(c, at), y, chart_x(c, at + ms) - chart_x(c, at), BAR);
        at += ms;
    }
    draw_color(c->sheet, CHART_INK, 1);
    chart_fit(c->sheet, bar->name, LETTERS, left - 20, cut, sizeof(cut));
    draw_text(c->sheet, left - 8, y + BAR / 2.0 + 4, cut, LETTERS, DRAW_RIGHT);
    double total = bar->total > 0 ? bar->total : at;
    snprintf(text, sizeof(text), "%.*f ms%s%s", total < 100 ? 1 : 0, total, bar->note[0] ? ", " : "", bar->note);
    chart_fit(c->sheet, text, LETTERS, PICTURE_WIDTH - chart_x(c, at) - 10, cut, sizeof(cut));
    draw_color(c->sheet, 0xffffff, 0.9); /* over the lines of the grid */
    draw_box(c->sheet, chart_x(c, at) + 4, y + 3, draw_text_width(c->sheet, cut, LETTERS) + 4, BAR - 6);
    draw_color(c->sheet, CHART_INK, 1);
    draw_text(c->sheet, chart_x(c, at) + 6, y + BAR / 2.0 + 4, cut, LETTERS, DRAW_LEFT);
}

void picture_bars_draw(draw_sheet *s, double top, const picture_bars *p) {
    double longest = 0, x = left;
    for (int i = 0; i < p->n_bars; i++)
        longest = length_of(p, &p->bars[i]) > longest ? length_of(p, &p->bars[i]) : longest;
    chart c = {.sheet = s, .left = left, .top = top + TOP, .right = right,
               .bottom = top + picture_bars_height(p) - BELOW};
    c.x = chart_around(0, longest);
    c.y = (chart_axis){0, 1, 0};
    chart_frame(&c, "milliseconds", "");
    for (int i = 0; i < p->n_bars; i++)
        put_bar(&c, p, i);
    chart title = c;
    title.left = 20;
    title.top = top + TOP - 18;
    chart_title(&title, p->title, p->n_bars > 0 ? p->note : "there is no run");
    for (int i = 0; i < p->n_stages && p->n_bars > 0; i++)
        x = chart_legend(s, x, top + TOP - 10, p->stages[i], draw_series_color(i));
}
