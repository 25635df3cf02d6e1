/* words/dtw.c - dynamic time warping: the path through the matrix that advances by one row, one frame or both at a time
 * and has the greatest sum. Ties as in openai-whisper: both, then a row, then a frame, each only if it is strictly
 * best. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "words/words.h"

enum { STEP_BOTH, STEP_ROW, STEP_FRAME };

/* The costs of one frame from those of the frame before; trace [n + 1] has the predecessors. */
static void next_costs(const float *matrix, size_t n, size_t n_frames, size_t frame, const double *before, double *cost,
                  uint8_t *trace) {
    cost[0] = INFINITY;
    trace[0] = STEP_FRAME;
    for (size_t i = 1; i <= n; i++) {
        double both = before[i - 1], row = cost[i - 1], on = before[i], least = on;
        trace[i] = STEP_FRAME;
        if (both < row && both < on) {
            least = both;
            trace[i] = STEP_BOTH;
        } else if (row < both && row < on) {
            least = row;
            trace[i] = STEP_ROW;
        }
        cost[i] = least - (double)matrix[(i - 1) * n_frames + frame];
    }
}

/* Backtracking: the last frame visited in a row is its first. With a single frame all values are NaN (0 / 0), and the
 * reference's path then leaves the matrix before its first frame, which is -1. */
static void trace_back(const uint8_t *trace, size_t n, size_t n_frames, int32_t *frames) {
    size_t i = n, j = n_frames;
    while (i > 0) {
        frames[i - 1] = (int32_t)j - 1;
        int step = j == 0 ? STEP_ROW : trace[(j - 1) * (n + 1) + i];
        i -= step != STEP_FRAME;
        j -= step != STEP_ROW;
    }
}

mxw_status mx_words_dtw(const float *matrix, size_t n, size_t n_frames, int32_t *frames) {
    double *before = mx_alloc_array(n + 1, sizeof(*before)), *cost = mx_alloc_array(n + 1, sizeof(*cost));
    uint8_t *trace = mx_alloc_array(n_frames, n + 1);
    int whole = before && cost && trace;
    for (size_t i = 0; whole && i <= n; i++)
        before[i] = i == 0 ? 0 : INFINITY;
    for (size_t j = 0; whole && j < n_frames; j++) {
        double *swapped = before;
        next_costs(matrix, n, n_frames, j, before, cost, trace + j * (n + 1));
        before = cost;
        cost = swapped;
    }
    if (whole)
        trace_back(trace, n, n_frames, frames);
    mx_free(before);
    mx_free(cost);
    mx_free(trace);
    return whole ? MXW_OK : MXW_E_MEMORY;
}
