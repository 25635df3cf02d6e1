/* cli/report/picture_roofline.c - kernels under the device's roofline: rate over arithmetic intensity. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/chart.h"
#include "report/pictures.h"

enum { TOP = 74, BELOW = 52, FRAME = 380, LINE = 15, LETTERS = 11, N_NUMBERED = 30 };
static const double left = 78, right = 640;

static int is_drawn(const picture_kernel *k) {
    return isfinite(k->flops) && isfinite(k->bytes) && k->flops > 0 && k->bytes > 0 && k->ms > 0;
}

static int n_drawn(const picture_roofline *p) {
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n += is_drawn(&p->kernels[i]);
    return n < N_NUMBERED ? n : N_NUMBERED;
}

double picture_roofline_height(const picture_roofline *p) {
    double list = TOP + 10 + n_drawn(p) * LINE * 2;
    return list > TOP + FRAME + BELOW ? list : TOP + FRAME + BELOW;
}

static double intensity(const picture_kernel *k) { return k->flops / k->bytes; }
static double rate(const picture_kernel *k) { return k->flops / k->ms / 1e6; }

static void set_axes(chart *c, const picture_roofline *p) {
    double x0 = 1, x1 = 10, y0 = 1, y1 = 1;
    for (int i = 0; i < p->n_roofs; i++) {
        double ridge = p->roofs[i].gflops / p->roofs[i].gbs;
        x0 = i ? fmin(x0, ridge) : ridge, x1 = i ? fmax(x1, ridge) : ridge;
        y0 = i ? fmin(y0, p->roofs[i].gflops) : p->roofs[i].gflops, y1 = i ? fmax(y1, p->roofs[i].gflops) : y0;
    }
    for (int i = 0; i < p->n; i++) {
        if (!is_drawn(&p->kernels[i]))
            continue;
        x0 = fmin(x0, intensity(&p->kernels[i])), x1 = fmax(x1, intensity(&p->kernels[i]));
        y0 = fmin(y0, rate(&p->kernels[i])), y1 = fmax(y1, rate(&p->kernels[i]));
    }
    c->x = chart_decades(x0 / 1.5, x1 * 1.5);
    c->y = chart_decades(y0 / 1.3, y1 * 1.3);
}

/* What is drawn already: names, discs and numbers. */
typedef struct taken {
    double x, y, w, h; /* its middle, and its size */
} taken;

typedef struct place_list {
    taken all[2 * N_NUMBERED + 2 * PICTURE_ROOFS];
    int n;
} place_list;

static int is_free(const place_list *p, const taken *t) {
    for (int i = 0; i < p->n; i++)
        if (fabs(p->all[i].x - t->x) * 2 < p->all[i].w + t->w && fabs(p->all[i].y - t->y) * 2 < p->all[i].h + t->h)
            return 0;
    return 1;
}

/* A name, which then has its place; at_end: x is its end. */
static void put_name(const chart *c, double x, double y, const char *text, int at_end, place_list *taken_by) {
    double width = draw_text_width(c->sheet, text, LETTERS);
    draw_text(c->sheet, x, y, text, LETTERS, at_end ? DRAW_RIGHT : DRAW_LEFT);
    taken_by->all[taken_by->n++] = (taken){at_end ? x - width / 2 : x + width / 2, y - 4, width + 4, LETTERS + 2};
}

/* Memory as a slope, arithmetic as a level; from one edge of the frame to the other. device: what the names begin with;
 * with_slope: the slope has no name yet. */
static void put_roof(const chart *c, const picture_roof *p, const char *device, int with_slope, place_list *taken_by) {
    char text[96];
    double ridge = p->gflops / p->gbs, begin = fmax(c->x.low, c->y.low / p->gbs), end = fmin(ridge, c->x.high);
    draw_color(c->sheet, CHART_INK, 1);
    if (end > begin)
        draw_line(c->sheet, chart_x(c, begin), chart_y(c, begin * p->gbs), chart_x(c, end), chart_y(c, end * p->gbs),
                  2, 0);
    if (ridge < c->x.high)
        draw_line(c->sheet, chart_x(c, fmax(ridge, c->x.low)), chart_y(c, p->gflops), c->right, chart_y(c, p->gflops),
                  2, 0);
    snprintf(text, sizeof(text), "%s%s%.0f GFLOP/s %s", device, device[0] ? ": " : "", p->gflops, p->arithmetic);
    put_name(c, c->right - 4, chart_y(c, p->gflops) - 6, text, 1, taken_by);
    if (!with_slope)
        return;
    snprintf(text, sizeof(text), "%s%s%.1f GB/s from memory", device, device[0] ? ": " : "", p->gbs);
    double width = draw_text_width(c->sheet, text, LETTERS);
    for (double share = 0.75; end > begin && share > 0.1; share -= 0.15) { /* beside the slope, if there is room */
        double at = begin * pow(end / begin, share), x = chart_x(c, at) - 8, y = chart_y(c, at * p->gbs) - 4;
        taken t = {x - width / 2, y - 4, width + 4, LETTERS + 2};
        if (x - width > c->left + 6 && is_free(taken_by, &t)) {
            put_name(c, x, y, text, 1, taken_by);
            return;
        }
    }
    taken t = {c->left + 8 + width / 2, c->top + 10, width + 4, LETTERS + 2};
    while (!is_free(taken_by, &t) && t.y < c->bottom)
        t.y += LETTERS + 4;
    put_name(c, c->left + 8, t.y + 4, text, 0, taken_by);
}

/* A device is named where there are several. */
static void put_roofs(const chart *c, const picture_roofline *p, place_list *taken_by) {
    int several = 0;
    for (int i = 1; i < p->n_roofs; i++)
        several |= strcmp(p->roofs[i].device, p->roofs[0].device) != 0;
    for (int i = 0; i < p->n_roofs; i++) {
        const picture_roof *roof = &p->roofs[i];
        int first = i == 0 || strcmp(p->roofs[i - 1].device, roof->device);
        put_roof(c, roof, several ? roof->device : "", first, taken_by);
    }
}

static double radius_of(const picture_kernel *k, double all_ms) {
    return 3.5 + 6 * sqrt(all_ms > 0 ? k->ms / all_ms : 0);
}

/* The number beside its disc, at the nearest of some places around it that nothing else takes. */
static void put_number(const chart *c, const picture_kernel *k, int number, double radius, place_list *taken_by) {
    static const double around[][2] = {{1, 0},       {-1, 0},       {0, -1},    {0, 1},
                                       {0.8, -0.8}, {-0.8, -0.8}, {0.8, 0.8}, {-0.8, 0.8}};
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    double x = chart_x(c, intensity(k)), y = chart_y(c, rate(k));
    taken t = {x, y, draw_text_width(c->sheet, text, LETTERS) + 3, LETTERS + 1};
    int found = 0;
    for (int i = 0; i < 8 * 4 && !found; i++) {
        double away = radius + 8 + 9 * (i / 8);
        t.x = x + around[i % 8][0] * away;
        t.y = y + around[i % 8][1] * away;
        found = is_free(taken_by, &t) && t.x > c->left && t.x < c->right && t.y > c->top && t.y < c->bottom;
    }
    taken_by->all[taken_by->n++] = t;
    draw_color(c->sheet, draw_series_color(k->series), 1);
    double dx = t.x - x, dy = t.y - y;   /* hypot() would need glibc 2.35 */
    if (sqrt(dx * dx + dy * dy) > radius + 14)
        draw_line(c->sheet, x, y, x + 0.75 * (t.x - x), y + 0.75 * (t.y - y), 0.8, 0);
    draw_bold(c->sheet, t.x, t.y + 4, text, LETTERS, DRAW_CENTER);
}

/* Discs first, so that every number knows where they are. */
static void put_kernels(const chart *c, const picture_roofline *p, place_list *taken_by) {
    double ms[PICTURE_SERIES] = {0};
    int n = 0, number = 0;
    for (int i = 0; i < p->n; i++)
        ms[p->kernels[i].series] += p->kernels[i].ms;
    for (int i = 0; i < p->n && n < N_NUMBERED; i++) {
        const picture_kernel *k = &p->kernels[i];
        if (!is_drawn(k))
            continue;
        double radius = radius_of(k, ms[k->series]), x = chart_x(c, intensity(k)), y = chart_y(c, rate(k));
        draw_color(c->sheet, draw_series_color(k->series), 0.75);
        draw_disc(c->sheet, x, y, radius);
        taken_by->all[taken_by->n++] = (taken){x, y, 2 * radius, 2 * radius};
        n++;
    }
    for (int i = 0; i < p->n && number < N_NUMBERED; i++)
        if (is_drawn(&p->kernels[i]))
            put_number(c, &p->kernels[i], ++number, radius_of(&p->kernels[i], ms[p->kernels[i].series]), taken_by);
}

/* Number, name, and under it the figures. */
static void put_line(draw_sheet *s, double y, const picture_kernel *k, int number) {
    char text[160], cut[160];
    draw_color(s, draw_series_color(k->series), 1);
    snprintf(text, sizeof(text), "%d", number);
    draw_bold(s, right + 46, y, text, LETTERS, DRAW_RIGHT);
    draw_color(s, CHART_INK, 1);
    chart_fit(s, k->name, LETTERS, PICTURE_WIDTH - right - 66, cut, sizeof(cut));
    draw_text(s, right + 54, y, cut, LETTERS, DRAW_LEFT);
    draw_color(s, CHART_GREY, 1);
    snprintf(text, sizeof(text), "%.1f ms, %.1f GFLOP/s, %.1f GB/s, %.*f FLOP/byte", k->ms, rate(k),
             k->bytes / k->ms / 1e6, intensity(k) < 10 ? 2 : 0, intensity(k));
    draw_text(s, right + 54, y + 13, text, 10, DRAW_LEFT);
}

void picture_roofline_draw(draw_sheet *s, const picture_roofline *p) {
    chart c = {.sheet = s, .left = left, .top = TOP, .right = right, .bottom = TOP + FRAME};
    place_list taken_by = {.n = 0};
    double x = left;
    int number = 0;
    set_axes(&c, p);
    chart_frame(&c, "FLOP to a byte that must be moved", "GFLOP/s");
    put_roofs(&c, p, &taken_by);
    put_kernels(&c, p, &taken_by);
    for (int i = 0; i < p->n && number < N_NUMBERED; i++)
        if (is_drawn(&p->kernels[i])) {
            put_line(s, TOP + 6 + number * LINE * 2, &p->kernels[i], number + 1);
            number++;
        }
    chart title = c;
    title.top = TOP - 14;
    chart_title(&title, "Roofline of the kernels",
                number == 0          ? "no kernel that multiplies was timed"
                : p->n_roofs         ? "lines: what this machine does at most, measured in this run; a disc's size is "
                                       "its share of the engine's time"
                                     : "what the machine does at most was not measured");
    for (int i = 0; i < p->n_series; i++)
        if (p->series[i])
            x = chart_legend(s, x, TOP - 12, p->series[i], draw_series_color(i));
}
