/* cli/report/draw.h - a sheet to draw on, as SVG, PNG or PDF; and the border to the module that does it with cairo.
 *
 * In: points and sizes in pixels from the upper left corner, colours as 0xRRGGBB. Out: the picture's bytes.
 * Invariants: a number that is not finite draws nothing and is counted, so that a picture can say that it is whole;
 * text that is not UTF-8 is drawn with '?' in it. Cairo is opened when the first picture is drawn: no other run needs
 * it.
 */
#ifndef CLI_REPORT_DRAW_H
#define CLI_REPORT_DRAW_H

#include <stddef.h>
#include <stdint.h>

typedef enum draw_kind { DRAW_SVG, DRAW_PNG, DRAW_PDF } draw_kind;
typedef enum draw_anchor { DRAW_LEFT, DRAW_CENTER, DRAW_RIGHT } draw_anchor;

/* Bytes of the picture as they come; 0, or non-zero to stop. */
typedef int (*draw_write_fn)(void *user, const void *bytes, size_t n);

/* What a module exports; `pen` is its own. Everything is finite and valid by the time it comes here. */
typedef struct draw_table {
    void *(*open)(draw_kind kind, double width, double height, draw_write_fn write, void *user);
    const char *(*close)(void *pen); /* NULL, or why the picture is not whole */
    void (*color)(void *pen, double r, double g, double b, double alpha);
    void (*stroke)(void *pen, const double *xy, int n_points, double width, int dashed);
    void (*fill)(void *pen, double x, double y, double w, double h);
    void (*disc)(void *pen, double x, double y, double radius);
    /* y is the baseline; turned: upwards, a quarter turn to the left */
    void (*text)(void *pen, double x, double y, const char *text, double size, int bold, int turned);
    double (*text_width)(void *pen, const char *text, double size, int bold);
    void (*image)(void *pen, double x, double y, double w, double h, const uint8_t *rgb, int columns, int rows);
} draw_table;

/* What a module exports under the name of any module, and what it must be told. */
#define DRAW_MODULE_ENTRY "mx_module_open"
#define DRAW_MODULE_ABI 0x4d584402u

typedef struct draw_sheet {
    const draw_table *table;
    void *pen;
    double width, height;
    int n_refused; /* things that were not finite */
} draw_sheet;

typedef struct draw_bytes {
    uint8_t *data;
    size_t n, room;
} draw_bytes;

/* The module's table; NULL: *why is one line. */
const draw_table *draw_module(const char **why);
/* By its ending: .svg, .png or .pdf; -1 for another. */
int draw_kind_of(const char *path);
/* 1, or 0 when there is no memory. */
int draw_open(draw_sheet *s, const draw_table *table, draw_kind kind, double width, double height, draw_bytes *bytes);
/* NULL, or why the picture is not whole. */
const char *draw_close(draw_sheet *s);

void draw_color(draw_sheet *s, uint32_t rgb, double alpha);
void draw_line(draw_sheet *s, double x0, double y0, double x1, double y1, double width, int dashed);
void draw_path(draw_sheet *s, const double *xy, int n_points, double width, int dashed);
void draw_box(draw_sheet *s, double x, double y, double w, double h);
void draw_disc(draw_sheet *s, double x, double y, double radius);
void draw_text(draw_sheet *s, double x, double y, const char *text, double size, draw_anchor anchor);
void draw_bold(draw_sheet *s, double x, double y, const char *text, double size, draw_anchor anchor);
void draw_turned(draw_sheet *s, double x, double y, const char *text, double size, draw_anchor anchor);
double draw_text_width(draw_sheet *s, const char *text, double size);
/* values [rows][columns], low and below to high and above, through a scale of colours from dark to light; row 0 on top
 * unless upward. */
void draw_heat(draw_sheet *s, double x, double y, double w, double h, const float *values, int columns, int rows,
               int upward, double low, double high);
/* The colour of a share 0 to 1 of that scale. */
uint32_t draw_heat_color(double share);
/* Colours that can be told apart, also by who does not see red and green; i from 0. */
uint32_t draw_series_color(int i);

#endif
