/* cli/report/report.h - what the files of `report` share: everything that was measured, and nothing else.
 *
 * Invariants: every number of the report comes out of these structures, and they are filled by runs of this process. */
#ifndef CLI_REPORT_REPORT_H
#define CLI_REPORT_REPORT_H

#include "bench/bench.h"
#include "max_whisper/lab.h"
#include "report/doc.h"
#include "report/pictures.h"

enum { REPORT_ENGINES = 10, REPORT_KERNELS = 96 };

typedef struct report_options {
    common_options common;
    const char *output; /* folder */
    const char *model, *model_dir, *language;
    int64_t runs, warm_up, beam_size, threads;
    int precision, greedy;
} report_options;

/* One stage of an engine beside engine cpu's. */
typedef struct report_stage {
    char *name;
    double relative, bound, max_abs, cosine;
    int seen, bad;
} report_stage;

typedef struct report_engine {
    mxw_engine engine;
    char device[32], name[48]; /* "max on cpu" */
    int precision;
    char why[256];    /* why it did not run, or where it failed; "": it ran */
    int skipped;      /* it cannot run here, which is no failure */
    bench_record *record;
    report_stage *stages; /* against engine cpu, in the order of the run; of engine cpu none */
    int n_stages, n_bad;
    char finding[600];    /* of the first bad stage */
    picture_kernel kernels[REPORT_KERNELS]; /* longest first */
    int n_kernels;
} report_engine;

typedef struct report_run {
    const report_options *options;
    const char *path;
    lab_samples samples;
    mxw_features *reference;
    mxw_op_checks *checks;
    report_engine engines[REPORT_ENGINES];
    int n_engines;
    const report_engine *speaker; /* the engine whose words are shown, or NULL */
    mxw_features *seen;           /* its window, with the attention of the words */
    char **token_names;           /* [rows of the attention] */
    int n_names;
    mxw_model *model;             /* the speaker's; the session below is its */
    mxw_session *session;         /* with word times */
    const mxw_result *result;     /* of it */
    const char *manifest;
    char sha256[65];
    double seconds;
} report_run;

/* Fills everything in; an engine that fails is told and stops no other. 0 only if nothing could be run at all. */
int report_measure(report_run *r);
void report_free(report_run *r);
/* Kernels of a run of the engine, into e. */
void report_trace(const report_run *r, report_engine *e);
/* A model of this engine. */
mxw_status report_open(const report_run *r, const report_engine *e, int names,
                       void (*on_trace)(void *, const mxw_trace_event *), void *user, mxw_model **model);

/* Whether every run of it gave the same text and, except in 8 bits, where that is not judged, engine cpu's. */
int report_text_holds(const report_run *r, const report_engine *e);
/* The whole report, into DIR/COMPLETE_RESULTS.md, .html and its pictures; the exit status. */
int report_write(const report_run *r);
/* A picture as SVG into bytes: what is drawn is `which`, one of the names below; 0 if there is none to draw. */
typedef enum report_picture {
    REPORT_WORDS, REPORT_STAGES, REPORT_ERRORS, REPORT_ALIGNMENT, REPORT_ROOFLINE, REPORT_PICTURES
} report_picture;
const char *report_picture_name(report_picture which);
/* NULL, or why it is not whole. */
const char *report_draw(const report_run *r, report_picture which, const draw_table *table, draw_bytes *bytes);
const mxw_feature *report_feature(const report_run *r, const char *name, mxw_feature *feature);

#endif
