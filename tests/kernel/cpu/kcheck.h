/* kcheck.h - the harness of the kernel checks: memory with guards, random data, bounds, and the record of results.
 *
 * A check_*.c file has a test for each of its kernels and lists them in an array, which kcheck.c knows by a line; every
 * test runs once for each implementation that this processor has, with K set to it. */
#ifndef KCHECK_H
#define KCHECK_H
#include "device/cpu/kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kcheck_test {
    const char *name;     /* of the kernel, as in kernels.def; NULL ends the array */
    void (*run)(void);
    int exact;            /* what it records must be the baseline's bits in every implementation */
} kcheck_test;

extern const kcheck_test kcheck_plain[];      /* check_plain.c */
extern const kcheck_test kcheck_elementwise[]; /* check_elementwise.c */
extern const kcheck_test kcheck_gemm[];   /* check_gemm.c */
extern const kcheck_test kcheck_lstm[];       /* check_lstm.c */
extern const kcheck_test kcheck_attention[];  /* check_attention.c */
extern const kcheck_test kcheck_select[];     /* check_select.c */
extern const kcheck_test kcheck_logits_int8[];     /* check_logits_int8.c */
extern const kcheck_test kcheck_w8a8[];       /* check_w8a8.c */

extern const mx_kernels *K;       /* under test */
extern const char *isa_name;

/* ---- checks ------------------------------------------------------------------------------------------------------ */

int kcheck_that(int ok, const char *file, int line, const char *what);
int kcheck_int(int64_t got, int64_t want, const char *file, int line, const char *what);
#define CHECK(cond) kcheck_that((cond) ? 1 : 0, __FILE__, __LINE__, #cond)
#define CHECK_EQ_INT(got, want) kcheck_int((int64_t)(got), (int64_t)(want), __FILE__, __LINE__, #got " == " #want)

/* got within bound of want; counts what is off and shows the first. NOTHING_OFF() makes a check of the count. */
void near(double got, double want, double bound);
extern int64_t n_off;
#define NOTHING_OFF()                                                                                                  \
    do {                                                                                                               \
        CHECK_EQ_INT(n_off, 0);                                                                                        \
        n_off = 0;                                                                                                     \
    } while (0)
#define EPS 5.9604644775390625e-8   /* half a unit in the last place of 1.0f */

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* bytes that start `shift` past a 64-byte boundary, guards on both sides. */
void *take(size_t bytes, size_t shift);
/* Checks all guards, frees all blocks. */
void done(void);
/* Keeps these bytes, to be compared with those of the baseline. */
void record(const void *bytes, size_t n);

uint32_t word(void);                                           /* 31 random bits */
double uniform(double low, double high);
float *floats(int64_t n, double scale, size_t shift);          /* random in [-scale, scale) */
const void *as_halves(float *x, int64_t n);   /* at an address that is no float's; x becomes what they are */

/* ---- speed ------------------------------------------------------------------------------------------------------- */

/* kcheck --bench [filter]: lines whose text has the filter in it. */
int kcheck_bench(const char *filter);
#endif
