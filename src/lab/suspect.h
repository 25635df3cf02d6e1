/* lab/suspect.h - internal to lab/: one diverging stage, its inputs, and the explanations that were tried.
 *
 * The inputs of the first diverging stage agree, so each explanation is computed from them in float64 on some of its
 * rows and compared with the run's values. */
#ifndef MX_LAB_SUSPECT_H
#define MX_LAB_SUSPECT_H
#include "lab/lab.h"

#define MX_SUSPECT_ROWS 48

/* A stage as rows [n][width] of f32. */
typedef struct mx_stage_rows {
    const float *data;      /* NULL: not captured */
    int64_t n, width;
} mx_stage_rows;

typedef struct mx_suspect {
    const char *name;
    mx_stage_rows right, wrong;   /* the stage in each run */
    int64_t rows[MX_SUSPECT_ROWS];
    int n_rows;
    const mx_features *a, *b;
    const mx_weights *weights;   /* or NULL */
    mx_arena *arena;
    double *guess;          /* [n_rows][width]: what an explanation predicts */
    /* the best so far */
    double error;           /* relative: of guess against wrong */
    const char *fault;
    char words[400];
} mx_suspect;

mx_stage_rows mx_stage_rows_of(const mx_features *f, const char *name);
/* Records the filled guess if it explains the values better than any before. */
void mx_suspect_offer(mx_suspect *s, const char *fault, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Of guess against the run: l2 of the difference over l2 of the run's. */
double mx_suspect_error(const mx_suspect *s);

/* suspect.c: faults of this stage's own op. */
mxw_status mx_suspect_op(mx_suspect *s);
/* fits.c: explanations that do not depend on the op. */
void mx_suspect_fit(mx_suspect *s, const mx_stage_rows *input);
void mx_suspect_mel(mx_suspect *s);
/* Different sizes: is it every n-th row of the right stage? */
int mx_suspect_stride(mx_suspect *s);
#endif
