/* lab/suspect.h - inside lab/: one stage that parts, what it is made from, and the explanations that were tried.
 *
 * A stage's inputs agree (it is the first that does not), so each explanation is made again from them in float64 on
 * some of its rows and held against what the run has there. */
#ifndef MX_LAB_SUSPECT_H
#define MX_LAB_SUSPECT_H
#include "lab/lab.h"

#define MX_SUSPECT_ROWS 48

/* A stage as rows [n][width] of f32. */
typedef struct mx_stage_rows {
    const float *data;      /* NULL: not seen */
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
    double *guess;          /* [n_rows][width]: what an explanation gives */
    /* the best so far */
    double error;           /* relative: of guess against wrong */
    const char *fault;
    char words[400];
} mx_suspect;

mx_stage_rows mx_stage_rows_of(const mx_features *f, const char *name);
/* The guess was filled: keeps it if it explains what is there better than anything so far. */
void mx_suspect_offer(mx_suspect *s, const char *fault, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Of guess against the run: l2 of the difference over l2 of the run's. */
double mx_suspect_error(const mx_suspect *s);

/* suspect.c: what this stage's own op could have done wrong. */
mxw_status mx_suspect_op(mx_suspect *s);
/* fits.c: what can be said of two blocks of numbers whatever made them. */
void mx_suspect_fit(mx_suspect *s, const mx_stage_rows *input);
void mx_suspect_mel(mx_suspect *s);
/* Sizes that differ: every so many rows of the right stage? */
int mx_suspect_stride(mx_suspect *s);
#endif
