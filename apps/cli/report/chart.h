/* cli/report/chart.h - axes on a sheet: where a value lies, ticks with round numbers, labels with units, a legend. */
#ifndef CLI_REPORT_CHART_H
#define CLI_REPORT_CHART_H

#include "report/draw.h"

#define CHART_INK 0x222222
#define CHART_FAINT 0xdddddd
#define CHART_GREY 0x666666

typedef struct chart_axis {
    double low, high; /* of the values; of a logarithmic axis above 0 */
    int logarithmic;
} chart_axis;

typedef struct chart {
    draw_sheet *sheet;
    double left, top, right, bottom; /* the frame, in pixels */
    chart_axis x, y;
} chart;

double chart_x(const chart *c, double value);
double chart_y(const chart *c, double value);
/* An axis whose ends are round numbers around low and high; never empty. */
chart_axis chart_around(double low, double high);
/* Powers of ten around them; both must be above 0. */
chart_axis chart_decades(double low, double high);
/* The frame, grid lines, numbers and what they are, with the unit. An empty label: no numbers either. */
void chart_frame(const chart *c, const char *x_label, const char *y_label);
/* The title above the frame, and what is said under it in smaller letters. */
void chart_title(const chart *c, const char *title, const char *note);
/* A number as it stands at a tick: 0.2, 1500, 10^-7 where it is logarithmic. */
void chart_number(double value, double step, char *text, size_t size);
/* Squares with names, from x on in a row with y as its middle; the x behind the last one. */
double chart_legend(draw_sheet *s, double x, double y, const char *name, uint32_t color);
/* The text, cut with "…" so that it is no wider than `width`. */
void chart_fit(draw_sheet *s, const char *text, double size, double width, char *out, size_t n);

#endif
