/* feature/filters.h - internal to feature/: the Slaney mel filter bank of librosa.filters.mel(sr=16000, n_fft=400). */
#ifndef MX_FILTERS_H
#define MX_FILTERS_H
#include "base/status.h"

#define MX_FILTERS_MAX 128
#define MX_FILTERS_BINS 201

/* Each filter is a triangle over few bins; the weights of all filters are stored back to back. Triangles overlap by
 * half, so no bin has more than three non-zero weights. */
typedef struct mx_filters {
    int n_mels;
    int first[MX_FILTERS_MAX], count[MX_FILTERS_MAX], offset[MX_FILTERS_MAX];   /* bins, and where in weight */
    float weight[3 * MX_FILTERS_BINS];
} mx_filters;

void mx_filters_init(mx_filters *filters, int n_mels);   /* 80 or 128 */
#endif
