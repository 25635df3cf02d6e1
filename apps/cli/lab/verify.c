/* cli/lab/verify.c - `verify`: proves on this machine, model and recording that every engine computes what it should.
 *
 * First every op of engine cpu against float64, each output within a bound that follows from its own sums. Then each
 * engine and device against engine cpu, stage by stage through to tokens and text. Invariants: exit 0 only if nothing
 * drifts; an engine that cannot run here is told as skipped, never as passed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/stdout.h"
#include "lab/stages.h"

typedef struct verify_options {
    common_options common;
    const char *model, *model_dir, *device, *inject;
    int64_t threads;
    int json, all, ops, engine, precision;
} verify_options;

_Static_assert(sizeof(verify_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

#define AT(member) .target = offsetof(verify_options, member)

static const char *const which_names[] = {"cpu", "gpu", "max", "all", NULL};
enum { ALL_ENGINES = 3, MAX_RUNS = 8 };

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    {.name = "all", .kind = OPTION_FLAG, .fallback = "False", .group = "Checks", AT(all),
     .help = "Check every output of every op against float64, not just 4,096 per call."},
    {.name = "ops-only", .kind = OPTION_FLAG, .fallback = "False", .group = "Checks", AT(ops),
     .help = "Only check engine cpu against float64."},
    JSON_ROW(verify_options, json),
    INJECT_ROW(verify_options, inject),
    MODEL_NAME_ROW(verify_options, model),
    MODEL_DIR_ROW(verify_options, model_dir),
    {.name = "engine", .kind = OPTION_CHOICE, .fallback = "all", .placeholder = "ENGINE", .group = "Model and device",
     AT(engine), .choices = which_names, .help = "Engine to verify: cpu, gpu or max; all: every engine that runs "
                                                 "here."},
    DEVICE_ROW(verify_options, device, "Device of engine max; auto: every device it runs on."),
    THREADS_ROW(verify_options, threads),
    PRECISION_ROW(verify_options, precision),
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

/* One engine on one device against engine cpu. */
typedef struct proof {
    mxw_engine engine;
    const char *device;
    char why[200];             /* why it was skipped, or failed to run; "": it ran */
    int ran;
    size_t n_stages, n_bad;
    char worst[96];            /* the stage nearest to its bound */
    double worst_share, text_equal;
    char stage[96], fault[64], words[420];   /* the first that drifts */
} proof;

typedef struct session {
    const verify_options *options;
    lab_samples samples;
    mxw_features *reference;
    mxw_op_checks *checks;
    proof proofs[MAX_RUNS];
    int n_proofs;
    double seconds;
} session;

static model_choice choice_of(const verify_options *o, mxw_engine engine, const char *device) {
    return (model_choice){.model = o->model, .model_dir = o->model_dir, .engine = (int)engine, .device = device,
                          .threads = o->threads};
}

/* ---- engine cpu ----------------------------------------------------------------------------------------- */

/* The reference: engine cpu, without a fault but for the one that is asked of it when it is to be proved itself. */
static int run_reference(session *s) {
    model_choice choice = choice_of(s->options, MXW_ENGINE_CPU, "cpu");
    mxw_model *model = NULL;
    mxw_features_options options;
    mxw_session_options decoding;
    mxw_features_options_default(&options);
    lab_session_options(&decoding);
    options.session = &decoding;
    int exit_status = lab_open(&choice, 1, NULL, &model);
    if (exit_status != EXIT_OK)
        return exit_status;
    mxw_status status = mxw_op_checks_open(model, s->samples.data, s->samples.n, s->options->all, &s->checks);
    if (status >= 0 && !s->options->ops)
        status = mxw_features_capture(model, s->samples.data, s->samples.n, &options, &s->reference);
    if (status < 0)
        log_failure(NULL, status);
    mxw_model_close(model);
    return status < 0 ? EXIT_FAILED : EXIT_OK;
}

static int ops_hold(const session *s) {
    mxw_op_check c = {.struct_size = sizeof(c)};
    for (size_t i = 0; i < mxw_op_checks_count(s->checks); i++)
        if (mxw_op_checks_get(s->checks, i, &c) >= 0 && !(c.of_bound <= 1))
            return 0;
    return 1;
}

/* ---- an engine against it ------------------------------------------------------------------------------- */

static int precision_of(const session *s, const proof *p) {
    return precision_for(s->options->precision, (int)p->engine, p->device);
}

static mxw_features *capture(const session *s, const proof *p, int names) {
    model_choice choice = choice_of(s->options, p->engine, p->device);
    model_needs needs = {.keep_names = names, .inject = s->options->inject};
    mxw_features_options options;
    mxw_model *model = NULL;
    mxw_features *features = NULL;
    choice.precision = precision_of(s, p);
    mxw_session_options decoding;
    mxw_features_options_default(&options);
    lab_session_options(&decoding);
    options.session = &decoding;
    options.like = s->reference;
    if (model_open(&choice, &needs, &model) >= 0)
        mxw_features_capture(model, s->samples.data, s->samples.n, &options, &features);
    mxw_model_close(model);
    return features;
}

static void measure(proof *p, const mxw_comparison *c) {
    mxw_difference d = {.struct_size = sizeof(d)};
    for (size_t i = 0; i < mxw_comparison_count(c) && mxw_comparison_get(c, i, &d) >= 0; i++) {
        p->n_stages += !d.apart;
        p->n_bad += d.bad != 0;
        if (!d.apart && d.bound > 0 && d.relative / d.bound >= p->worst_share) {
            p->worst_share = d.relative / d.bound;
            snprintf(p->worst, sizeof(p->worst), "%s", d.name);
        }
        if (!strcmp(d.name, "recording.text"))
            p->text_equal = d.relative == 0;
    }
}

/* What drifted is looked for with every stage in sight. */
static void diagnose(session *s, proof *p) {
    mxw_comparison *c = NULL;
    mxw_finding f = {.struct_size = sizeof(f)};
    mxw_checkpoint *weights = NULL;
    mxw_features *seen = capture(s, p, 1);
    mxw_checkpoint_open(s->options->model, s->options->model_dir, &weights);
    if (seen && mxw_comparison_open(s->reference, seen, &c) >= 0 && mxw_comparison_diagnose(c, weights, &f) >= 0 &&
        f.stage) {
        snprintf(p->stage, sizeof(p->stage), "%s", f.stage);
        snprintf(p->fault, sizeof(p->fault), "%s", f.fault);
        snprintf(p->words, sizeof(p->words), "%s", f.explanation);
    }
    mxw_comparison_close(c);
    mxw_checkpoint_close(weights);
    mxw_features_close(seen);
}

static void prove(session *s, proof *p) {
    mxw_comparison *c = NULL;
    mxw_features *run = capture(s, p, 0);
    if (!run || mxw_comparison_open(s->reference, run, &c) < 0) {
        snprintf(p->why, sizeof(p->why), "%s", mxw_last_error());
    } else {
        p->ran = 1;
        measure(p, c);
    }
    mxw_comparison_close(c);
    mxw_features_close(run);
    if (p->n_bad)
        diagnose(s, p);
}

static void add_proof(session *s, mxw_engine engine, const char *device, const char *why) {
    if (s->n_proofs == MAX_RUNS)
        return;
    proof *p = &s->proofs[s->n_proofs++];
    *p = (proof){.engine = engine, .device = device, .text_equal = -1};
    if (why)
        snprintf(p->why, sizeof(p->why), "%s", why);
    else
        prove(s, p);
}

/* Every engine that was asked for, everywhere it runs; a GPU that is not there is told. */
static void prove_engines(session *s) {
    const verify_options *o = s->options;
    int any = o->engine == ALL_ENGINES, everywhere = !strcmp(o->device, "auto"), n_gpus = 0;
    mxw_device_info info = {.struct_size = sizeof(info)};
    const char *why = "there is no CUDA device";
    if (o->engine == MXW_ENGINE_CPU)   /* against itself: repeated, or with a fault in it */
        add_proof(s, MXW_ENGINE_CPU, "cpu", NULL);
    if ((any || o->engine == MXW_ENGINE_MAX) && (everywhere || !strcmp(o->device, "cpu")))
        add_proof(s, MXW_ENGINE_MAX, "cpu", NULL);
    for (int i = 0; i < mxw_device_count(); i++) {
        if (mxw_device_get(i, &info) < 0 || strcmp(info.kind, "cuda"))
            continue;
        why = info.reason ? info.reason : why;
        if (!info.usable || (!everywhere && strcmp(o->device, "cuda") && strcmp(o->device, info.id)))
            continue;
        n_gpus++;
        if (any || o->engine == MXW_ENGINE_GPU)
            add_proof(s, MXW_ENGINE_GPU, info.id, NULL);
        if (any || o->engine == MXW_ENGINE_MAX)
            add_proof(s, MXW_ENGINE_MAX, info.id, NULL);
    }
    if (n_gpus || !strcmp(o->device, "cpu"))
        return;
    if (any || o->engine == MXW_ENGINE_GPU)
        add_proof(s, MXW_ENGINE_GPU, "cuda", why);
    if (any || (o->engine == MXW_ENGINE_MAX && !everywhere))
        add_proof(s, MXW_ENGINE_MAX, "cuda", why);
}

/* ---- the report ----------------------------------------------------------------------------------------- */

static const char *verdict(const proof *p) { return !p->ran ? "skipped" : p->n_bad ? "DRIFTS" : "holds"; }

static int all_hold(const session *s, int *n_ran) {
    int hold = ops_hold(s);
    *n_ran = 0;
    for (int i = 0; i < s->n_proofs; i++) {
        *n_ran += s->proofs[i].ran;
        hold = hold && !s->proofs[i].n_bad;
    }
    return hold;
}

static void print_ops(const session *s) {
    mxw_op_check c = {.struct_size = sizeof(c)};
    out_print("%-18s %7s %12s %10s %10s %8s %9s  %s\n", "engine cpu, op", "calls", "checked", "max abs", "relative",
              "ulp", "of bound", "worst at");
    for (size_t i = 0; i < mxw_op_checks_count(s->checks) && mxw_op_checks_get(s->checks, i, &c) >= 0; i++) {
        char a[32], b[32], u[32];
        out_print("%-18s %7lld %12lld %10s %10s %8s %8.2f%%  %s%s\n", c.op, (long long)c.calls, (long long)c.checked,
                  lab_short(c.max_abs, a), lab_short(c.max_relative, b), lab_short(c.max_ulp, u), 100 * c.of_bound,
                  c.worst, c.of_bound <= 1 ? "" : "   <-- DRIFTS");
    }
}

static void print_proofs(const session *s) {
    out_print("\n%-10s %-8s %-9s %7s %-36s %9s %6s  %s\n", "engine", "device", "precision", "stages",
              "nearest to its bound", "of bound", "text", "verdict");
    for (int i = 0; i < s->n_proofs; i++) {
        const proof *p = &s->proofs[i];
        if (!p->ran) {
            out_print("%-10s %-8s %-9s %s: %s\n", engine_names[p->engine], p->device,
                      precision_names[precision_of(s, p)], verdict(p), p->why);
            continue;
        }
        out_print("%-10s %-8s %-9s %7zu %-36s %8.2f%% %6s  %s\n", engine_names[p->engine], p->device,
                  precision_names[precision_of(s, p)], p->n_stages, p->worst, 100 * p->worst_share,
                  p->text_equal > 0 ? "equal" : "OTHER", verdict(p));
        if (p->stage[0])
            out_print("    first at %s: %s. %s.\n", p->stage, p->fault, p->words);
    }
}

static void print_report(const session *s, int hold, int n_ran) {
    const char *inject = s->options->inject;
    if (inject)
        out_print("injected: %s - the engines below are wrong on purpose\n\n", inject);
    print_ops(s);
    if (!s->options->ops)
        print_proofs(s);
    out_print("\nBounds: an op's from its own sums in f32 (u = 2^-24); a stage's 128 u times the root of the stages "
              "so far; ids, tokens and text equal. See docs/lab.md.\n%s%d of %d engines ran, %.1f s: %s\n",
              inject ? "injected fault: " : "", n_ran, s->n_proofs, s->seconds,
              hold ? "everything holds" : "SOMETHING DRIFTS");
}

static void write_report(const session *s, int hold, const char *path) {
    json_writer json;
    mxw_op_check c = {.struct_size = sizeof(c)};
    json_start(&json, stdout, 1);
    json_begin(&json, NULL);
    json_text(&json, "model", s->options->model);
    json_text(&json, "audio", path ? path : "synthetic");
    json_text(&json, "injected", s->options->inject);
    json_bool(&json, "holds", hold);
    json_number(&json, "seconds", s->seconds, 3);
    json_list(&json, "ops");
    for (size_t i = 0; i < mxw_op_checks_count(s->checks) && mxw_op_checks_get(s->checks, i, &c) >= 0; i++) {
        json_begin(&json, NULL);
        json_text(&json, "op", c.op);
        json_whole(&json, "calls", c.calls);
        json_whole(&json, "outputs", c.outputs);
        json_whole(&json, "checked", c.checked);
        json_number(&json, "max_abs", c.max_abs, 12);
        json_number(&json, "max_relative", c.max_relative, 12);
        json_number(&json, "max_ulp", c.max_ulp, 3);
        json_number(&json, "of_bound", c.of_bound, 6);
        json_text(&json, "worst", c.worst);
        json_text(&json, "bound", c.bound);
        json_end(&json);
    }
    json_end(&json);
    json_list(&json, "engines");
    for (int i = 0; i < s->n_proofs; i++) {
        const proof *p = &s->proofs[i];
        json_begin(&json, NULL);
        json_text(&json, "engine", engine_names[p->engine]);
        json_text(&json, "device", p->device);
        json_text(&json, "precision", precision_names[precision_of(s, p)]);
        json_text(&json, "verdict", verdict(p));
        json_text(&json, "skipped", p->ran ? NULL : p->why);
        json_whole(&json, "stages", (int64_t)p->n_stages);
        json_whole(&json, "bad_stages", (int64_t)p->n_bad);
        json_text(&json, "nearest", p->worst);
        json_number(&json, "of_bound", p->worst_share, 6);
        json_bool(&json, "text_equal", p->text_equal > 0);
        json_text(&json, "first_bad_stage", p->stage[0] ? p->stage : NULL);
        json_text(&json, "fault", p->fault[0] ? p->fault : NULL);
        json_text(&json, "words", p->words[0] ? p->words : NULL);
        json_end(&json);
    }
    json_end(&json);
    json_end(&json);
}

static int run(const void *chosen, char **words, int n_words) {
    session *s = calloc(1, sizeof(*s));
    struct timespec start, end;
    const char *path = n_words ? words[0] : NULL;
    if (!s) {
        log_error("out of memory");
        return EXIT_FAILED;
    }
    s->options = chosen;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int exit_status = lab_read(path, &s->samples) ? run_reference(s) : EXIT_FAILED;
    if (exit_status == EXIT_OK) {
        int n_ran = 0;
        if (!s->options->ops)
            prove_engines(s);
        clock_gettime(CLOCK_MONOTONIC, &end);
        s->seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
        int hold = all_hold(s, &n_ran);
        if (s->options->json)
            write_report(s, hold, path);
        else
            print_report(s, hold, n_ran);
        exit_status = hold && (n_ran || s->options->ops) ? EXIT_OK : EXIT_FAILED;
    }
    mxw_op_checks_close(s->checks);
    mxw_features_close(s->reference);
    free(s->samples.data);
    free(s);
    return exit_status;
}

const command command_verify = {
    .arguments = "[FILE]",
    .max_words = 1,
    .summary = "Verify every engine on this machine, with this model and recording.",
    .details = "Checks engine cpu against float64, op by op; then every engine and device against engine cpu, stage "
               "by stage, down to tokens and text. Shows the first stage that is off and what the fault looks like. "
               "Without FILE, uses built-in synthetic audio. The exit status is 1 if anything is outside its error "
               "bound.",
    .options = rows,
    .options_size = sizeof(verify_options),
    .run = run,
};
