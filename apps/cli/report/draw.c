/* cli/report/draw.c - see draw.h: checks what is drawn, and finds the module that draws it. */
#include "report/draw.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/module.h"

/* ---- the module ----------------------------------------------------------------------------------------- */

const draw_table *draw_module(const char **why) {
    static const draw_table *table;
    static char reason[PATH_MAX + 300];
    char problem[PATH_MAX + 200];
    const draw_table *(*entry)(uint32_t abi);
    *why = reason;
    if (table)
        return table;
    void *symbol = module_entry("cairo", DRAW_MODULE_ENTRY, problem, sizeof(problem));
    if (!symbol) {
        snprintf(reason, sizeof(reason), "pictures need the cairo module: %s", problem);
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof(entry));
    table = entry(DRAW_MODULE_ABI);
    if (!table)
        snprintf(reason, sizeof(reason), "the cairo module was built for another version");
    return table;
}

int draw_kind_of(const char *path) {
    static const char *const endings[] = {".svg", ".png", ".pdf"};
    const char *dot = strrchr(path, '.');
    for (int i = 0; dot && i < 3; i++)
        if (!strcmp(dot, endings[i]))
            return i;
    return -1;
}

/* ---- a sheet -------------------------------------------------------------------------------------------- */

static int keep_bytes(void *user, const void *data, size_t n) {
    draw_bytes *b = user;
    if (b->n + n > b->room) {
        size_t room = 2 * (b->n + n) + 4096;
        uint8_t *grown = realloc(b->data, room);
        if (!grown)
            return 1;
        b->data = grown;
        b->room = room;
    }
    memcpy(b->data + b->n, data, n);
    b->n += n;
    return 0;
}

int draw_open(draw_sheet *s, const draw_table *table, draw_kind kind, double width, double height, draw_bytes *bytes) {
    *bytes = (draw_bytes){NULL, 0, 0};
    *s = (draw_sheet){.table = table, .width = width, .height = height};
    s->pen = table->open(kind, width, height, keep_bytes, bytes);
    if (!s->pen)
        return 0;
    draw_color(s, 0xffffff, 1);
    draw_box(s, 0, 0, width, height);
    return 1;
}

const char *draw_close(draw_sheet *s) {
    const char *why = s->table->close(s->pen);
    s->pen = NULL;
    return why;
}

static int all_finite(draw_sheet *s, const double *values, int n) {
    for (int i = 0; i < n; i++)
        if (!isfinite(values[i]) || fabs(values[i]) > 1e6) {
            s->n_refused++;
            return 0;
        }
    return 1;
}

void draw_color(draw_sheet *s, uint32_t rgb, double alpha) {
    s->table->color(s->pen, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0, alpha);
}

void draw_path(draw_sheet *s, const double *xy, int n_points, double width, int dashed) {
    if (n_points > 1 && all_finite(s, xy, 2 * n_points))
        s->table->stroke(s->pen, xy, n_points, width, dashed);
}

void draw_line(draw_sheet *s, double x0, double y0, double x1, double y1, double width, int dashed) {
    draw_path(s, (double[]){x0, y0, x1, y1}, 2, width, dashed);
}

void draw_box(draw_sheet *s, double x, double y, double w, double h) {
    if (all_finite(s, (double[]){x, y, w, h}, 4) && w > 0 && h > 0)
        s->table->fill(s->pen, x, y, w, h);
}

void draw_disc(draw_sheet *s, double x, double y, double radius) {
    if (all_finite(s, (double[]){x, y, radius}, 3) && radius > 0)
        s->table->disc(s->pen, x, y, radius);
}

/* ---- text ----------------------------------------------------------------------------------------------- */

/* Bytes of the character at p, or 0 if it is none. */
static int utf8_length(const unsigned char *p) {
    int n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
          : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if (n == 3 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0)))
        return 0;
    if (n == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90)))
        return 0;
    return n;
}

/* What can be drawn of a text: at most 500 bytes, no control characters. */
static const char *drawable(const char *text, char room[512]) {
    const unsigned char *p = (const unsigned char *)text;
    size_t n = 0;
    while (*p && n < 500) {
        int length = *p < 0x20 || *p == 0x7f ? 0 : utf8_length(p);
        if (length == 0)
            room[n++] = '?', p++;
        for (int i = 0; i < length; i++)
            room[n++] = (char)*p++;
    }
    room[n] = 0;
    return room;
}

double draw_text_width(draw_sheet *s, const char *text, double size) {
    char room[512];
    return s->table->text_width(s->pen, drawable(text, room), size, 0);
}

static void put_text(draw_sheet *s, double x, double y, const char *text, double size, draw_anchor anchor, int bold,
                     int turned) {
    char room[512];
    if (!all_finite(s, (double[]){x, y, size}, 3) || !*drawable(text, room))
        return;
    double width = anchor == DRAW_LEFT ? 0 : s->table->text_width(s->pen, room, size, bold);
    double back = anchor == DRAW_CENTER ? width / 2 : width;
    s->table->text(s->pen, turned ? x : x - back, turned ? y + back : y, room, size, bold, turned);
}

void draw_text(draw_sheet *s, double x, double y, const char *text, double size, draw_anchor anchor) {
    put_text(s, x, y, text, size, anchor, 0, 0);
}

void draw_bold(draw_sheet *s, double x, double y, const char *text, double size, draw_anchor anchor) {
    put_text(s, x, y, text, size, anchor, 1, 0);
}

void draw_turned(draw_sheet *s, double x, double y, const char *text, double size, draw_anchor anchor) {
    put_text(s, x, y, text, size, anchor, 0, 1);
}

/* ---- colours -------------------------------------------------------------------------------------------- */

uint32_t draw_series_color(int i) {
    static const uint32_t colors[] = {0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xb08a00, 0x777777};
    return colors[(unsigned)i % (sizeof(colors) / sizeof(*colors))];
}

uint32_t draw_heat_color(double share) {
    static const uint8_t scale[][3] = {{8, 6, 28},    {49, 17, 92},   {107, 28, 110}, {165, 44, 96},
                                       {216, 77, 62}, {245, 130, 36}, {251, 190, 65}, {252, 250, 190}};
    const int last = (int)(sizeof(scale) / sizeof(*scale)) - 1;
    uint32_t rgb = 0;
    share = share > 0 ? share < 1 ? share : 1 : 0; /* NaN is 0 */
    double at = share * last;
    int i = at >= last ? last - 1 : (int)at;
    for (int c = 0; c < 3; c++)
        rgb = rgb << 8 | (uint32_t)lrint(scale[i][c] + (at - i) * (scale[i + 1][c] - scale[i][c]));
    return rgb;
}

void draw_heat(draw_sheet *s, double x, double y, double w, double h, const float *values, int columns, int rows,
               int upward, double low, double high) {
    if (columns < 1 || rows < 1 || !all_finite(s, (double[]){x, y, w, h, low, high}, 6) || !(high > low))
        return;
    uint8_t *rgb = malloc(3 * (size_t)columns * (size_t)rows), *to = rgb;
    for (int r = 0; rgb && r < rows; r++)
        for (int c = 0; c < columns; c++, to += 3) {
            double value = (double)values[(size_t)(upward ? rows - 1 - r : r) * (size_t)columns + (size_t)c];
            uint32_t color = draw_heat_color((value - low) / (high - low));
            to[0] = (uint8_t)(color >> 16), to[1] = (uint8_t)(color >> 8), to[2] = (uint8_t)color;
        }
    if (rgb)
        s->table->image(s->pen, x, y, w, h, rgb, columns, rows);
    else
        s->n_refused++;
    free(rgb);
}
