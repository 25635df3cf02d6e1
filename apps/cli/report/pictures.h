/* cli/report/pictures.h - the pictures of `report` and `bench --plot`.
 *
 * In: numbers that a run measured. Out: a sheet drawn on; its size is what the matching _height says (widths are all
 * PICTURE_WIDTH). Invariants: no number is drawn that was not given; nothing to draw makes an empty frame that says so.
 */
#ifndef CLI_REPORT_PICTURES_H
#define CLI_REPORT_PICTURES_H

#include "report/draw.h"

#define PICTURE_WIDTH 1060.0

/* ---- log-mel with the words under it (picture_words.c) ---- */

typedef struct picture_word {
    double start, end; /* seconds from the beginning of the window */
    const char *text;
} picture_word;

typedef struct picture_words {
    const float *mel; /* [frames][mels], 10 ms a frame */
    int frames, mels;
    const picture_word *words;
    int n_words;
    const char *title;
} picture_words;
double picture_words_height(const picture_words *p);
void picture_words_draw(draw_sheet *s, const picture_words *p);

/* ---- attention and its path (picture_alignment.c) ---- */

typedef struct picture_alignment {
    const float *matrix;      /* [rows][columns], 20 ms a column */
    const int32_t *frames;    /* [rows]: the column in which each row begins */
    const char *const *names; /* [rows]: the tokens, last the end of text */
    int rows, columns;
    const char *title;
} picture_alignment;
double picture_alignment_height(const picture_alignment *p);
void picture_alignment_draw(draw_sheet *s, const picture_alignment *p);

/* ---- error by layer (picture_errors.c) ---- */

enum { PICTURE_SERIES = 10, PICTURE_STAGES = 8 };

typedef struct picture_errors {
    const char *const *stages; /* [n] names, in the order of the run */
    const double *bounds;      /* [n] */
    const double *errors[PICTURE_SERIES]; /* [n] each; NaN: not seen */
    const char *names[PICTURE_SERIES];
    int colors[PICTURE_SERIES]; /* of draw_series_color */
    int n, n_series;
} picture_errors;
#define PICTURE_ERRORS_HEIGHT 430.0
void picture_errors_draw(draw_sheet *s, const picture_errors *p);

/* ---- time by stage (picture_bars.c): a bar for each engine, or for each run ---- */

typedef struct picture_bar {
    char name[80];
    double ms[PICTURE_STAGES];
    double total;  /* what is told of the whole; 0: the sum */
    char note[64]; /* behind the bar */
} picture_bar;

typedef struct picture_bars {
    const char *title, *note;
    const char *stages[PICTURE_STAGES];
    int n_stages, n_bars;
    const picture_bar *bars;
} picture_bars;
double picture_bars_height(const picture_bars *p);
/* top: where on the sheet it begins, so that one sheet holds several. */
void picture_bars_draw(draw_sheet *s, double top, const picture_bars *p);

/* ---- roofline (picture_roofline.c) ---- */

typedef struct picture_kernel {
    char name[96];
    int series;             /* which engine */
    int64_t calls;
    double flops, bytes, ms; /* in all calls */
} picture_kernel;

enum { PICTURE_ROOFS = 6 };

/* What a device does at most: of arithmetic of one kind, and of bytes from memory. */
typedef struct picture_roof {
    const char *device;
    const char *arithmetic; /* "in registers" */
    double gflops, gbs;
} picture_roof;

typedef struct picture_roofline {
    const picture_kernel *kernels;
    int n;
    const char *series[PICTURE_SERIES]; /* NULL: has no kernel here */
    int n_series;
    picture_roof roofs[PICTURE_ROOFS]; /* those of a device one after the other */
    int n_roofs;                       /* 0: not measured */
} picture_roofline;
double picture_roofline_height(const picture_roofline *p);
void picture_roofline_draw(draw_sheet *s, const picture_roofline *p);

#endif
