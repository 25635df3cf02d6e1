/* cli/bench/bench.h - shared by the files of `bench`: the runs of a recording, their statistics, their work. */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

#include "lab/stages.h"

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

/* What the stages of a model did. */
typedef struct bench_counters {
    mxw_stage_counters encode, cross, prompt, step;
} bench_counters;

/* What one run did and how long each part took. */
typedef struct bench_run {
    double ms[BENCH_STAGES];
    bench_counters counters; /* of this run alone */
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
    char *text; /* of the first run */
    int steady; /* every run gave the same text */
    int n_runs;
    bench_run runs[BENCH_MAX_RUNS];
    double first_ms; /* the first run after loading, warm-up or not */
    int n_starts;
    double starts_ms[BENCH_MAX_RUNS]; /* process start to the start of the first encoding */
    int cold;             /* the model was opened for it: its first run met nothing warm */
    int64_t peak_kib;
    uint64_t free_before; /* of a GPU's memory, before the model was opened; 0: not known */
    int64_t gpu_kib;      /* of it, what model and runs took; 0: none, or not known */
    mxw_model_info model;
    mxw_checkpoint_info checkpoint;
    mxw_dims dims;
    mxw_device_peak peak;
} bench_record;

typedef struct bench_options {
    common_options common;
    model_choice model;
    const char *language;
    int64_t beam_size, runs, warm_up, starts, batch;
    int greedy, json;
    const char *save, *plot;
    const char *baseline; /* a file that --save wrote, or a program */
    double tolerance;     /* percent */
    uint64_t free_before; /* not an option: see bench_record */
} bench_options;

/* What the model did since it was opened. */
void bench_count(const mxw_model *model, bench_counters *counters);
/* One run over the samples, to the last segment, without temperature fallback; the session is the caller's to close,
 * after a failure too. */
mxw_status bench_hear(mxw_model *model, const bench_options *o, const lab_samples *samples, mxw_session **session);
/* Runs the model over the samples as often as the options say; fills in all but path, starts and what was known.
 * others: where the runs of the program that this one is compared with are kept, in turn with its own; or NULL. */
mxw_status bench_measure(mxw_model *model, const bench_options *o, const lab_samples *samples, bench_record *record,
                         const char *others);
/* All recordings at once, o->batch at a time; prints or writes what that took. */
int bench_together(const bench_options *o, const lab_samples *samples, int n);

/* A former record, as a file that --save wrote has it: medians of the stages. */
typedef struct bench_past {
    char version[32], date[32];
    double ms[BENCH_STAGES];
} bench_past;
/* The last (at most `most`) records of the same work on this machine, oldest first; how many. */
int bench_history(const char *path, const bench_record *now, bench_past *past, int most);

typedef struct bench_plot bench_plot;
int bench_check_plot(const char *value, char *message, size_t size);
int bench_plot_open(const bench_options *o, bench_plot **plot);
void bench_plot_add(bench_plot *plot, const bench_options *o, const bench_record *record);
int bench_plot_save(bench_plot *plot, const bench_options *o);
void bench_plot_close(bench_plot *plot);

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

/* Starts this program n times, on the recording; the time to the first encoding of each. 0, or the exit status
 * after saying why. */
int bench_start(const bench_options *options, const char *path, double *ms, int n);

#endif
