/* cli/report/chart.c - see chart.h. */
#include "report/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TICKS = 6, LETTERS = 11 };

static double share_of(const chart_axis *a, double value) {
    if (a->logarithmic)
        return (log10(value) - log10(a->low)) / (log10(a->high) - log10(a->low));
    return (value - a->low) / (a->high - a->low);
}

double chart_x(const chart *c, double value) { return c->left + share_of(&c->x, value) * (c->right - c->left); }
double chart_y(const chart *c, double value) { return c->bottom - share_of(&c->y, value) * (c->bottom - c->top); }

/* 1, 2 or 5 times a power of ten, so that there are about TICKS of them. */
static double step_of(const chart_axis *a) {
    double rough = (a->high - a->low) / TICKS, power = pow(10, floor(log10(rough))), digit = rough / power;
    return power * (digit > 5 ? 10 : digit > 2 ? 5 : digit > 1 ? 2 : 1);
}

chart_axis chart_around(double low, double high) {
    chart_axis a = {low, high, 0};
    if (!isfinite(low) || !isfinite(high) || !(high > low))
        a.low = isfinite(low) ? low : 0, a.high = a.low + (fabs(a.low) > 0 ? fabs(a.low) : 1);
    double step = step_of(&a);
    a.low = floor(a.low / step + 1e-9) * step;
    a.high = ceil(a.high / step - 1e-9) * step;
    return a;
}

chart_axis chart_decades(double low, double high) {
    int good = isfinite(low) && isfinite(high) && low > 0 && high >= low;
    chart_axis a = {pow(10, floor(log10(good ? low : 1) + 1e-9)), pow(10, ceil(log10(good ? high : 1) - 1e-9)), 1};
    if (!(a.high > a.low))
        a.high = 10 * a.low;
    return a;
}

void chart_number(double value, double step, char *text, size_t size) {
    int decimals = step > 0 && step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    snprintf(text, size, "%.*f", decimals, fabs(value) < step / 1e6 ? 0.0 : value);
}

/* "10" with the exponent raised where the number would be long. */
static void put_decade(draw_sheet *s, double x, double y, double value, draw_anchor anchor) {
    int power = (int)lrint(log10(value));
    char text[32], raised[16];
    if (power >= -2 && power <= 4) {
        snprintf(text, sizeof(text), "%g", pow(10, power));
        draw_text(s, x, y, text, LETTERS, anchor);
        return;
    }
    snprintf(raised, sizeof(raised), power < 0 ? "−%d" : "%d", power < 0 ? -power : power);
    double ten = draw_text_width(s, "10", LETTERS), small = draw_text_width(s, raised, 8);
    double left = anchor == DRAW_RIGHT ? x - ten - small : anchor == DRAW_CENTER ? x - (ten + small) / 2 : x;
    draw_text(s, left, y, "10", LETTERS, DRAW_LEFT);
    draw_text(s, left + ten, y - 5, raised, 8, DRAW_LEFT);
}

static void tick(const chart *c, int upright, double value, double step) {
    char text[32];
    double at = upright ? chart_y(c, value) : chart_x(c, value);
    draw_color(c->sheet, CHART_FAINT, 1);
    if (upright)
        draw_line(c->sheet, c->left, at, c->right, at, 1, 0);
    else
        draw_line(c->sheet, at, c->top, at, c->bottom, 1, 0);
    draw_color(c->sheet, CHART_INK, 1);
    double x = upright ? c->left - 6 : at, y = upright ? at + 4 : c->bottom + 15;
    if (step == 0) {
        put_decade(c->sheet, x, y, value, upright ? DRAW_RIGHT : DRAW_CENTER);
        return;
    }
    chart_number(value, step, text, sizeof(text));
    draw_text(c->sheet, x, y, text, LETTERS, upright ? DRAW_RIGHT : DRAW_CENTER);
}

static void ticks(const chart *c, int upright) {
    const chart_axis *a = upright ? &c->y : &c->x;
    if (a->logarithmic) {
        int decades = (int)lrint(log10(a->high / a->low)), every = decades > 10 ? 2 : 1;
        for (int i = 0; i <= decades; i += every)
            tick(c, upright, a->low * pow(10, i), 0);
        return;
    }
    double step = step_of(a);
    for (double value = ceil(a->low / step - 1e-9) * step; value <= a->high + step * 1e-9; value += step)
        tick(c, upright, value, step);
}

void chart_frame(const chart *c, const char *x_label, const char *y_label) {
    if (*x_label)
        ticks(c, 0);
    if (*y_label)
        ticks(c, 1);
    draw_color(c->sheet, CHART_GREY, 1);
    draw_path(c->sheet, (double[]){c->left, c->top, c->left, c->bottom, c->right, c->bottom}, 3, 1, 0);
    draw_color(c->sheet, CHART_INK, 1);
    draw_text(c->sheet, (c->left + c->right) / 2, c->bottom + 33, x_label, LETTERS, DRAW_CENTER);
    draw_turned(c->sheet, c->left - 46, (c->top + c->bottom) / 2, y_label, LETTERS, DRAW_CENTER);
}

void chart_title(const chart *c, const char *title, const char *note) {
    char cut[512];
    double width = c->sheet->width - c->left - 10;
    draw_color(c->sheet, CHART_INK, 1);
    chart_fit(c->sheet, title, 15, width / 1.15, cut, sizeof(cut));
    draw_bold(c->sheet, c->left, c->top - 28, cut, 15, DRAW_LEFT);
    draw_color(c->sheet, CHART_GREY, 1);
    chart_fit(c->sheet, note, LETTERS, width, cut, sizeof(cut));
    draw_text(c->sheet, c->left, c->top - 11, cut, LETTERS, DRAW_LEFT);
}

double chart_legend(draw_sheet *s, double x, double y, const char *name, uint32_t color) {
    draw_color(s, color, 1);
    draw_box(s, x, y - 5, 10, 10);
    draw_color(s, CHART_INK, 1);
    draw_text(s, x + 15, y + 4, name, LETTERS, DRAW_LEFT);
    return x + 15 + draw_text_width(s, name, LETTERS) + 18;
}

void chart_fit(draw_sheet *s, const char *text, double size, double width, char *out, size_t n) {
    size_t length = strlen(text);
    snprintf(out, n, "%s", text);
    while (length > 0 && (strlen(out) < length || draw_text_width(s, out, size) > width)) {
        do
            length--;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80);
        if (length + 4 <= n)
            snprintf(out, n, "%.*s…", (int)length, text);
        if (length + 4 <= n && draw_text_width(s, out, size) <= width)
            return;
    }
}
