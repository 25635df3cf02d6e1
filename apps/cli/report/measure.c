/* cli/report/measure.c - the runs behind `report`: proof and times of every engine, words of the best of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/progress.h"
#include "report/report.h"

mxw_status report_open(const report_run *r, const report_engine *e, int names,
                       void (*on_trace)(void *, const mxw_trace_event *), void *user, mxw_model **model) {
    model_choice choice = {.model = r->options->model, .model_dir = r->options->model_dir, .engine = (int)e->engine,
                           .precision = e->precision, .device = e->device, .threads = r->options->threads};
    model_needs needs = {.keep_names = names, .on_trace = on_trace, .trace_user = user};
    return model_open(&choice, &needs, model);
}

/* ---- which engines -------------------------------------------------------------------------------------- */

static void add_engine(report_run *r, mxw_engine engine, const char *device, const char *why) {
    if (r->n_engines == REPORT_ENGINES)
        return;
    report_engine *e = &r->engines[r->n_engines++];
    e->engine = engine;
    e->precision = precision_for(r->options->precision, (int)engine, device);
    snprintf(e->device, sizeof(e->device), "%s", device);
    snprintf(e->name, sizeof(e->name), engine == MXW_ENGINE_CPU ? "%s" : "%s on %s", engine_names[engine], device);
    snprintf(e->why, sizeof(e->why), "%s", why ? why : "");
    e->skipped = why != NULL;
}

/* Every engine, everywhere it runs; a GPU that is not there is told. */
static void list_engines(report_run *r) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    char why[200] = "there is no CUDA device";
    int n_gpus = 0;
    add_engine(r, MXW_ENGINE_CPU, "cpu", NULL);
    add_engine(r, MXW_ENGINE_MAX, "cpu", NULL);
    for (int i = 0; i < mxw_device_count(); i++) {
        if (mxw_device_get(i, &info) < 0 || strcmp(info.kind, "cuda"))
            continue;
        if (info.reason)
            snprintf(why, sizeof(why), "%s", info.reason);
        if (!info.usable)
            continue;
        n_gpus++;
        add_engine(r, MXW_ENGINE_GPU, info.id, NULL);
        add_engine(r, MXW_ENGINE_MAX, info.id, NULL);
    }
    if (!n_gpus) {
        add_engine(r, MXW_ENGINE_GPU, "cuda", why);
        add_engine(r, MXW_ENGINE_MAX, "cuda", why);
    }
}

static void fail_engine(report_engine *e, const char *what, mxw_status status) {
    const char *line = mxw_last_error();
    snprintf(e->why, sizeof(e->why), "%s: %s", what, line[0] ? line : mxw_status_text(status));
}

/* ---- proof ---------------------------------------------------------------------------------------------- */

static void session_options(const report_run *r, mxw_session_options *options) {
    lab_session_options(options);
    options->language = lab_language(r->options->language);
    options->beam_size = (int)r->options->beam_size;
}

/* Engine cpu: every op against float64, and the stages that the others are held against. */
static mxw_status prove_reference(report_run *r, report_engine *e) {
    mxw_model *model = NULL;
    mxw_features_options options;
    mxw_session_options decoding;
    mxw_features_options_default(&options);
    session_options(r, &decoding);
    options.session = &decoding;
    options.whole = 0;
    mxw_status status = report_open(r, e, 1, NULL, NULL, &model);
    if (status >= 0)
        status = mxw_op_checks_open(model, r->samples.data, r->samples.n, 0, &r->checks);
    if (status >= 0)
        status = mxw_features_capture(model, r->samples.data, r->samples.n, &options, &r->reference);
    mxw_model_close(model);
    return status;
}

static void keep_stage(report_engine *e, const mxw_difference *d) {
    report_stage *s = &e->stages[e->n_stages];
    *s = (report_stage){.relative = d->relative, .bound = d->bound, .max_abs = d->max_abs, .cosine = d->cosine,
                        .seen = !d->apart, .bad = d->bad, .name = strdup(d->name)};
    e->n_stages += s->name != NULL;
    e->n_bad += d->bad != 0;
}

static void diagnose(const report_run *r, report_engine *e, mxw_comparison *c) {
    mxw_checkpoint *weights = NULL;
    mxw_finding f = {.struct_size = sizeof(f)};
    mxw_checkpoint_open(r->options->model, r->options->model_dir, &weights);
    if (mxw_comparison_diagnose(c, weights, &f) >= 0 && f.stage)
        snprintf(e->finding, sizeof(e->finding), "%s: %s. %s.", f.stage, f.fault, f.explanation);
    mxw_checkpoint_close(weights);
}

/* Every stage in sight, as `features compare` has them. */
static mxw_status prove(const report_run *r, report_engine *e) {
    mxw_model *model = NULL;
    mxw_features *features = NULL;
    mxw_comparison *c = NULL;
    mxw_features_options options;
    mxw_session_options decoding;
    mxw_difference d = {.struct_size = sizeof(d)};
    mxw_features_options_default(&options);
    session_options(r, &decoding);
    options.session = &decoding;
    options.like = r->reference;
    options.whole = 0;
    mxw_status status = report_open(r, e, 1, NULL, NULL, &model);
    if (status >= 0)
        status = mxw_features_capture(model, r->samples.data, r->samples.n, &options, &features);
    if (status >= 0)
        status = mxw_comparison_open(r->reference, features, &c);
    size_t n = status >= 0 ? mxw_comparison_count(c) : 0;
    e->stages = calloc(n + 1, sizeof(*e->stages));
    for (size_t i = 0; e->stages && i < n && mxw_comparison_get(c, i, &d) >= 0; i++)
        keep_stage(e, &d);
    if (e->n_bad)
        diagnose(r, e, c);
    mxw_comparison_close(c);
    mxw_features_close(features);
    mxw_model_close(model);
    return status;
}

/* ---- times ---------------------------------------------------------------------------------------------- */

static mxw_status time_engine(report_run *r, report_engine *e) {
    const report_options *o = r->options;
    bench_options b = {.language = o->language, .beam_size = o->beam_size, .runs = o->runs, .warm_up = o->warm_up};
    mxw_model *model = NULL;
    mxw_device_info info = {.struct_size = sizeof(info)};
    bench_record *record = calloc(1, sizeof(*record));
    if (!record)
        return MXW_E_MEMORY;
    record->path = r->path;
    record->cold = 1;
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0 && !strcmp(info.id, e->device) && strcmp(info.kind, "cpu"))
            record->free_before = info.memory_free_bytes;
    mxw_status status = report_open(r, e, 0, NULL, NULL, &model);
    if (status >= 0)
        status = bench_measure(model, &b, &r->samples, record, NULL);
    /* What the model owns is gone once it is closed. */
    record->model.checkpoint = NULL;
    record->checkpoint = (mxw_checkpoint_info){0};
    record->model.device = e->device;
    mxw_model_close(model);
    e->record = record;
    return status;
}

/* ---- words ---------------------------------------------------------------------------------------------- */

/* The tokens of text, as they are in the vocabulary; the last row is the end. */
static void name_tokens(report_run *r) {
    mxw_feature tokens = {.struct_size = sizeof(tokens)}, matrix = {.struct_size = sizeof(matrix)};
    if (!report_feature(r, "window.tokens", &tokens) || !report_feature(r, "words.attention", &matrix))
        return;
    int rows = (int)matrix.tensor->dims[0];
    r->token_names = calloc((size_t)rows, sizeof(*r->token_names));
    for (int64_t i = 0; r->token_names && i < tokens.tensor->dims[0] && r->n_names < rows - 1; i++) {
        char text[128];
        size_t n = sizeof(text);
        if (mxw_model_decode(r->model, (const int32_t *)tokens.tensor->data + i, 1, text, &n) >= 0 && text[0])
            r->token_names[r->n_names++] = strdup(text[0] == ' ' && text[1] ? text + 1 : text);
    }
    if (r->token_names && r->n_names == rows - 1)
        r->token_names[r->n_names++] = strdup("(end)");
}

static mxw_status listen(report_run *r) {
    mxw_session_options options;
    mxw_features_options looking;
    const mxw_segment *segment;
    mxw_checkpoint *checkpoint = NULL;
    mxw_features_options_default(&looking);
    session_options(r, &options);
    options.word_timestamps = 1;
    looking.session = &options;
    looking.whole = 0;
    mxw_status status = report_open(r, r->speaker, 0, NULL, NULL, &r->model);
    if (status >= 0)
        status = mxw_session_open(r->model, &options, &r->session);
    if (status >= 0)
        status = mxw_session_feed(r->session, r->samples.data, r->samples.n);
    if (status >= 0)
        status = mxw_session_finish(r->session);
    while (status == MXW_OK)
        status = mxw_session_next(r->session, &segment);
    if (status >= 0)
        r->result = mxw_session_result(r->session);
    if (status >= 0)
        status = mxw_session_manifest(r->session, &r->manifest);
    if (status >= 0)
        status = mxw_features_capture(r->model, r->samples.data, r->samples.n, &looking, &r->seen);
    if (status >= 0)
        name_tokens(r);
    if (mxw_checkpoint_open(r->options->model, r->options->model_dir, &checkpoint) >= 0)
        mxw_checkpoint_sha256(checkpoint, r->sha256, NULL);
    mxw_checkpoint_close(checkpoint);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------------------ */

static mxw_status trace(report_run *r, report_engine *e) {
    report_trace(r, e);
    return MXW_OK;
}

static mxw_status prove_any(report_run *r, report_engine *e) {
    return e->engine == MXW_ENGINE_CPU ? prove_reference(r, e) : prove(r, e);
}

/* The same of every engine that is still without fault. */
static void each_engine(report_run *r, const char *what, mxw_status (*measure)(report_run *, report_engine *)) {
    char note[96];
    for (int i = 0; i < r->n_engines; i++) {
        report_engine *e = &r->engines[i];
        if (e->why[0])
            continue;
        snprintf(note, sizeof(note), "%s: %s", e->name, what);
        progress_note(note);
        mxw_status status = measure(r, e);
        if (status < 0)
            fail_engine(e, what, status);
    }
}

/* Times come first: what the others keep in memory is not the engines'. */
int report_measure(report_run *r) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    list_engines(r);
    each_engine(r, "times", time_engine);
    if (!r->engines[0].why[0])
        each_engine(r, "proof", prove_any);
    if (!r->reference) { /* without engine cpu there is nothing to hold the others against */
        log_error("report: engine cpu: %s", r->engines[0].why);
        return 0;
    }
    each_engine(r, "kernels", trace);
    for (int i = 0; i < r->n_engines; i++) /* in the order of their speed: max on a GPU, else max, else cpu */
        if (!r->engines[i].why[0] && (!r->speaker || r->engines[i].engine == MXW_ENGINE_MAX))
            r->speaker = &r->engines[i];
    progress_note("words");
    mxw_status status = r->speaker ? listen(r) : MXW_E_DEVICE;
    if (status < 0)
        log_failure(NULL, status);
    clock_gettime(CLOCK_MONOTONIC, &end);
    r->seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    return status >= 0;
}

const mxw_feature *report_feature(const report_run *r, const char *name, mxw_feature *feature) {
    int64_t at = r->seen ? mxw_features_find(r->seen, name) : -1;
    return at >= 0 && mxw_features_get(r->seen, (size_t)at, feature) >= 0 ? feature : NULL;
}

void report_free(report_run *r) {
    for (int i = 0; i < r->n_engines; i++) {
        report_engine *e = &r->engines[i];
        for (int j = 0; j < e->n_stages; j++)
            free(e->stages[j].name);
        free(e->stages);
        if (e->record)
            free(e->record->text);
        free(e->record);
    }
    for (int i = 0; i < r->n_names; i++)
        free(r->token_names[i]);
    free(r->token_names);
    mxw_op_checks_close(r->checks);
    mxw_features_close(r->reference);
    mxw_features_close(r->seen);
    mxw_session_close(r->session);
    mxw_model_close(r->model);
    free(r->samples.data);
    free(r);
}
