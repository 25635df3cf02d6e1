/* cli/bench.h - what the files of `bench` share: the runs of one recording, their statistics, the work they were. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli.h"

enum { BENCH_MAX_RUNS = 1000 };

/* The parts of a run, in the order of the table. OTHER is what is in no other one: search, text, copies. */
typedef enum bench_stage {
    BENCH_MEL,
    BENCH_ENCODE,
    BENCH_CROSS,
    BENCH_PROMPT,
    BENCH_STEP,
    BENCH_OTHER,
    BENCH_TOTAL,
    BENCH_STAGES
} bench_stage;

/* What one run did and how long each part took. */
typedef struct bench_run {
    double ms[BENCH_STAGES];
    mxw_model_use use; /* of this run alone */
} bench_run;

typedef struct bench_statistics {
    double median, least, mean, deviation;
} bench_statistics;

/* Work of one unit of a stage: a window, or a step. 0: not counted. */
typedef struct bench_work {
    double flops, bytes;
} bench_work;

/* Everything about one recording. */
typedef struct bench_record {
    const char *path;
    double audio_s;
    int64_t characters;
    int steady; /* every run gave the same text */
    int n_runs;
    bench_run runs[BENCH_MAX_RUNS];
    double first_ms; /* the first run after loading, warm-up or not */
    int n_starts;
    double starts_ms[BENCH_MAX_RUNS]; /* process start to the start of the first encoding */
    int64_t peak_kib;
    mxw_model_info model;
    mxw_device_peak peak;
} bench_record;

typedef struct bench_options {
    common_options common;
    model_choice model;
    const char *language;
    int64_t beam_size, runs, warm_up, starts;
    int json;
    const char *save;
    const char *baseline; /* a file that --save wrote, or a program */
    double tolerance;     /* percent */
} bench_options;

/* Of n numbers; the order of the numbers is lost. */
bench_statistics bench_describe(double *values, int n);
/* What one window or one step must compute and read at the least, on average over the runs. */
bench_work bench_work_of(const bench_record *record, bench_stage stage);
/* Windows or steps of a stage in a run; 0 where there is no such unit. */
int64_t bench_units(const bench_run *run, bench_stage stage);

/* The table on standard output. */
void bench_print(const bench_record *record);
/* One JSON object on a line. */
void bench_write(const bench_record *record, FILE *file);

const char *bench_stage_name(bench_stage stage);
void bench_device_of(const bench_record *record, mxw_device_info *info);

/* How many times as long as then: of the medians, and the interval that holds 95 of 100 resampled ones. */
typedef struct bench_ratio {
    double middle, low, high;
} bench_ratio;
bench_ratio bench_compare(const double *now, int n_now, const double *then, int n_then);
int bench_is_program(const char *path);
/* One run of the program --baseline, kept in the file `path`. 0, or the exit status after saying why. */
int bench_run_other(const bench_options *options, const char *recording, const char *path);
/* The record beside the former one, or beside `others`, what bench_run_other kept. EXIT_FAILED if it is slower. */
int bench_judge(const bench_options *options, const bench_record *record, const char *others);

/* Starts this program anew, n times, on the recording; the time to the first encoding of each. 0, or the exit status
 * after saying why. */
int bench_start(const bench_options *options, const char *path, double *ms, int n);

#endif
