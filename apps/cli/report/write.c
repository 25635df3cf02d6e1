/* cli/report/write.c - what `report` measured, section by section: tables, pictures, and how it was made. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "common/log.h"
#include "common/stdout.h"
#include "report/report.h"

enum { KERNELS_TOLD = 14 };

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void row(doc *d, const char *name, const char *value) {
    doc_cell(d, "%s", name);
    doc_cell(d, "%s", value);
}

/* ---- how it was made ------------------------------------------------------------------------------------ */

/* What the device of an engine does at most, by the best measurement of it; once for each device. */
static void write_peak(doc *d, const report_run *r, int which) {
    const char *device = r->engines[which].device;
    mxw_device_peak peak = {0};
    char name[80], text[200];
    for (int i = 0; i < r->n_engines; i++) {
        const bench_record *record = strcmp(r->engines[i].device, device) ? NULL : r->engines[i].record;
        if (!strcmp(r->engines[i].device, device) && i < which)
            return;
        if (record && record->peak.gflops > peak.gflops)
            peak = record->peak;
    }
    if (!(peak.gflops > 0))
        return;
    int n = snprintf(text, sizeof(text), "%.1f GFLOP/s in registers, ", peak.gflops);
    if (peak.tensor_gflops > 0)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%.1f GFLOP/s of f16 on tensor cores, ", peak.tensor_gflops);
    if (peak.int8_gops > 0 && r->options->precision == MXW_PRECISION_INT8)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%.1f GOP/s of int8 in registers, ", peak.int8_gops);
    snprintf(text + n, sizeof(text) - (size_t)n, "%.1f GB/s read from memory", peak.read_gbs);
    snprintf(name, sizeof(name), "%s at most, measured here", device);
    row(d, name, text);
}

static void write_machine(doc *d, const report_run *r) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    struct utsname system;
    char text[400];
    if (!uname(&system)) {
        snprintf(text, sizeof(text), "%s %s, %s", system.sysname, system.release, system.machine);
        row(d, "system", text);
    }
    for (int i = 0; i < mxw_device_count(); i++) {
        if (mxw_device_get(i, &info) < 0)
            continue;
        snprintf(text, sizeof(text), "%s; %s; %d %s, %.1f GiB%s%s", info.description, info.features, info.cores,
                 strcmp(info.kind, "cpu") ? "multiprocessors" : "cores", (double)info.memory_bytes / (1 << 30),
                 info.usable ? "" : "; not usable: ", info.usable || !info.reason ? "" : info.reason);
        row(d, info.id, text);
    }
    for (int i = 0; i < r->n_engines; i++)
        write_peak(d, r, i);
}

static void write_manifest(doc *d, const report_run *r) {
    mxw_model_info model = {.struct_size = sizeof(model)};
    char text[400], date[40] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &utc);
    doc_heading(d, "How this was made");
    doc_paragraph(d, "Every number in this report comes from runs that max-whisper report made for it, in %.1f s.",
                  r->seconds);
    doc_table(d, "what|value");
    row(d, "version", mxw_version());
    row(d, "date", date);
    write_machine(d, r);
    if (mxw_model_get_info(r->model, &model) >= 0) {
        snprintf(text, sizeof(text), "%s, %s, %lld parameters", model.checkpoint->size_name, model.checkpoint->format,
                 (long long)model.checkpoint->n_parameters);
        row(d, "model", text);
        snprintf(text, sizeof(text), "%d", model.threads);
        row(d, "threads", text);
    }
    row(d, "model's SHA-256", r->sha256);
    snprintf(text, sizeof(text), "%.300s, %.2f s", base_name(r->path), r->result->duration_s);
    row(d, "recording", text);
    snprintf(text, sizeof(text), "%lld timed after %lld to warm up; language %s; beam %lld; temperature 0, no fallback",
             (long long)r->options->runs, (long long)r->options->warm_up, r->result->language,
             (long long)r->options->beam_size);
    row(d, "runs of each engine", text);
    doc_table_end(d);
    doc_fold(d, "Manifest of the run with word times");
    doc_verbatim(d, r->manifest ? r->manifest : "");
    doc_fold_end(d);
}

/* ---- engines -------------------------------------------------------------------------------------------- */

static bench_statistics statistics(const bench_record *record, int stage) {
    static double values[BENCH_MAX_RUNS];
    for (int i = 0; i < record->n_runs; i++)
        values[i] = record->runs[i].ms[stage];
    return bench_describe(values, record->n_runs);
}

static const char *proof_of(const report_run *r, const report_engine *e) {
    mxw_op_check c = {.struct_size = sizeof(c)};
    if (e->engine != MXW_ENGINE_CPU)
        return e->n_bad ? "DRIFTS" : "holds";
    for (size_t i = 0; i < mxw_op_checks_count(r->checks); i++)
        if (mxw_op_checks_get(r->checks, i, &c) >= 0 && !(c.of_bound <= 1))
            return "DRIFTS";
    return "holds (float64)";
}

static int same_text(const report_run *r, const report_engine *e) {
    const bench_record *record = e->record, *cpu = r->engines[0].record;
    return record && cpu && record->text && cpu->text && strcmp(cpu->text, record->text) == 0;
}

int report_text_holds(const report_run *r, const report_engine *e) {
    return e->record && e->record->text && e->record->steady &&
           (e->precision == MXW_PRECISION_INT8 || e->precision == MXW_PRECISION_F8 || same_text(r, e));
}

static void write_engine(doc *d, const report_run *r, const report_engine *e) {
    const bench_record *record = e->record, *cpu = r->engines[0].record;
    doc_cell(d, "%s", e->name);
    if (e->why[0] || !record) {
        doc_cell(d, "%s: %s", e->skipped ? "skipped" : "failed", e->why);
        for (int i = 0; i < 9; i++)
            doc_cell(d, "%s", "");
        return;
    }
    bench_statistics total = statistics(record, BENCH_TOTAL);
    double base = cpu && cpu->n_runs ? statistics(cpu, BENCH_TOTAL).median : 0;
    doc_cell(d, "%s", proof_of(r, e));
    doc_cell(d, "%s", !report_text_holds(r, e) ? "OTHER" : same_text(r, e) ? "equal" : "differs");
    doc_cell(d, "%.1f", total.median);
    doc_cell(d, "%.1f", total.least);
    doc_cell(d, "%.1f ± %.1f", total.mean, total.deviation);
    doc_cell(d, "%.1f", total.median > 0 ? 1000 * record->audio_s / total.median : 0);
    doc_cell(d, "%.2f", total.median > 0 ? base / total.median : 0);
    doc_cell(d, "%.1f", record->model.load_ms + record->model.compile_ms + record->first_ms);
    doc_cell(d, "%.1f", (double)record->peak_kib / 1024);
    if (record->gpu_kib)
        doc_cell(d, "%.1f", (double)record->gpu_kib / 1024);
    else
        doc_cell(d, "%s", "");
}

static void write_engines(doc *d, const report_run *r) {
    doc_heading(d, "Engines");
    doc_table(d, "engine|proof|text|>median ms|>least|>mean ± std|>× real time|>speed-up over cpu|>cold ms|>peak MiB|"
                 ">GPU MiB");
    for (int i = 0; i < r->n_engines; i++)
        write_engine(d, r, &r->engines[i]);
    doc_table_end(d);
    doc_paragraph(d, "Median, least, mean: of whole transcriptions with everything warm. Cold: load, compile and the "
                     "first run. Text: equal to engine cpu's, in every run; in 8 bits it may differ, and is then not "
                     "judged. Memory: the process at its peak in these runs, one engine after the other.");
}

static void write_stages(doc *d, const report_run *r) {
    doc_heading(d, "Time by stage");
    doc_table(d, "engine|stage|>median ms|>least|>mean ± std|>share|>units");
    for (int i = 0; i < r->n_engines; i++) {
        const bench_record *record = r->engines[i].record;
        for (int k = 0; record && record->n_runs && k < BENCH_STAGES; k++) {
            bench_statistics s = statistics(record, k), total = statistics(record, BENCH_TOTAL);
            int64_t units = bench_units(&record->runs[0], (bench_stage)k);
            doc_cell(d, "%s", r->engines[i].name);
            doc_cell(d, "%s", bench_stage_name((bench_stage)k));
            doc_cell(d, "%.2f", s.median);
            doc_cell(d, "%.2f", s.least);
            doc_cell(d, "%.2f ± %.2f", s.mean, s.deviation);
            doc_cell(d, "%.1f %%", total.mean > 0 ? 100 * s.mean / total.mean : 0);
            doc_cell(d, units ? "%lld" : "", (long long)units);
        }
    }
    doc_table_end(d);
}

/* ---- text ----------------------------------------------------------------------------------------------- */

static void write_text(doc *d, const report_run *r) {
    doc_heading(d, "Text and words");
    doc_paragraph(d, "%s", r->result->text + (r->result->text[0] == ' '));
    doc_fold(d, "Words with their times");
    doc_table(d, ">start s|>end s|word|>probability");
    for (size_t i = 0; i < r->result->n_segments; i++)
        for (size_t j = 0; j < mxw_result_segment(r->result, i)->n_words; j++) {
            const mxw_word *w = mxw_segment_word(mxw_result_segment(r->result, i), j);
            doc_cell(d, "%.2f", w->start);
            doc_cell(d, "%.2f", w->end);
            doc_cell(d, "%s", w->word + (w->word[0] == ' '));
            doc_cell(d, "%.3f", w->probability);
        }
    doc_table_end(d);
    doc_fold_end(d);
}

/* ---- proof ---------------------------------------------------------------------------------------------- */

static void write_ops(doc *d, const report_run *r) {
    mxw_op_check c = {.struct_size = sizeof(c)};
    doc_heading(d, "Engine cpu against float64, op by op");
    doc_table(d, "op|>calls|>checked|>max abs|>relative|>ulp|>of bound|worst at");
    for (size_t i = 0; i < mxw_op_checks_count(r->checks) && mxw_op_checks_get(r->checks, i, &c) >= 0; i++) {
        char a[32], b[32], u[32];
        doc_cell(d, "%s", c.op);
        doc_cell(d, "%lld", (long long)c.calls);
        doc_cell(d, "%lld", (long long)c.checked);
        doc_cell(d, "%s", lab_short(c.max_abs, a));
        doc_cell(d, "%s", lab_short(c.max_relative, b));
        doc_cell(d, "%s", lab_short(c.max_ulp, u));
        doc_cell(d, "%.2f %%", 100 * c.of_bound);
        doc_cell(d, "%s", c.worst);
    }
    doc_table_end(d);
}

static void write_layers(doc *d, const report_run *r) {
    char a[32], b[32], c[32];
    for (int i = 0; i < r->n_engines; i++) {
        const report_engine *e = &r->engines[i];
        char summary[120];
        if (!e->n_stages)
            continue;
        snprintf(summary, sizeof(summary), "%s against engine cpu: %d stages, %d beyond their bound", e->name,
                 e->n_stages, e->n_bad);
        if (e->finding[0])
            doc_paragraph(d, "%s: first at %s", e->name, e->finding);
        doc_fold(d, summary);
        doc_table(d, "stage|>relative|>bound|>of bound|>max abs|>cosine");
        for (int k = 0; k < e->n_stages; k++) {
            const report_stage *s = &e->stages[k];
            doc_cell(d, "%s%s", s->name, s->bad ? " (DRIFTS)" : "");
            doc_cell(d, "%s", s->seen ? lab_short(s->relative, a) : "not comparable");
            doc_cell(d, "%s", s->seen ? lab_short(s->bound, b) : "");
            doc_cell(d, s->seen && s->bound > 0 ? "%.2f %%" : "", 100 * s->relative / s->bound);
            doc_cell(d, "%s", s->seen ? lab_short(s->max_abs, c) : "");
            doc_cell(d, s->seen ? "%.9f" : "", s->cosine);
        }
        doc_table_end(d);
        doc_fold_end(d);
    }
}

/* ---- kernels -------------------------------------------------------------------------------------------- */

static void write_kernels(doc *d, const report_run *r) {
    doc_table(d, "engine|kernel|>calls|>ms|>share|>GFLOP/s|>GB/s|>FLOP/byte");
    for (int i = 0; i < r->n_engines; i++) {
        const report_engine *e = &r->engines[i];
        double all = 0;
        for (int k = 0; k < e->n_kernels; k++)
            all += e->kernels[k].ms;
        for (int k = 0; k < e->n_kernels && k < KERNELS_TOLD; k++) {
            const picture_kernel *kernel = &e->kernels[k];
            if (!(kernel->ms > 0))
                continue;
            doc_cell(d, "%s", e->name);
            doc_cell(d, "%s", kernel->name);
            doc_cell(d, "%lld", (long long)kernel->calls);
            doc_cell(d, "%.2f", kernel->ms);
            doc_cell(d, "%.1f %%", 100 * kernel->ms / all);
            doc_cell(d, kernel->flops > 0 ? "%.1f" : "", kernel->flops / kernel->ms / 1e6);
            doc_cell(d, "%.2f", kernel->bytes / kernel->ms / 1e6);
            doc_cell(d, kernel->flops > 0 ? "%.2f" : "", kernel->flops / kernel->bytes);
        }
    }
    doc_table_end(d);
    doc_paragraph(d, "The %d longest kernels of each engine in one transcription with every op timed by itself; "
                     "captured graphs, and on CUDA the kernels that run several ops at once, are not used then. GB/s "
                     "counts what a kernel must read and write, wherever that lies: what is in a cache may come faster "
                     "than from memory.", KERNELS_TOLD);
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static const char *what_of(report_picture which) {
    static const char *const what[REPORT_PICTURES] = {
        [REPORT_WORDS] = "Log-mel spectrogram of the first window with the words under it",
        [REPORT_STAGES] = "Time by stage and engine",
        [REPORT_ERRORS] = "Error by layer of every engine against engine cpu",
        [REPORT_ALIGNMENT] = "Attention of the alignment heads with the path of the word times",
        [REPORT_ROOFLINE] = "Roofline of the kernels",
    };
    return what[which];
}

static int save(const report_run *r, const char *name, const void *bytes, size_t n) {
    char path[4096];
    int length = snprintf(path, sizeof(path), "%s/%s", r->options->output, name);
    int fault = length > 0 && (size_t)length < sizeof(path) ? doc_save(path, bytes, n) : ENAMETOOLONG;
    if (fault)
        log_error("--output: cannot write %s/%s: %s", r->options->output, name, strerror(fault));
    return !fault;
}

/* Into the texts and beside them; what cannot be drawn is said in its place. */
static int add_picture(doc *d, const report_run *r, report_picture which) {
    const char *why = NULL;
    char file[80];
    draw_bytes bytes = {NULL, 0, 0};
    const draw_table *table = draw_module(&why);
    int saved = 1;
    if (table)
        why = report_draw(r, which, table, &bytes);
    snprintf(file, sizeof(file), "COMPLETE_RESULTS-%s.svg", report_picture_name(which));
    if (why) {
        doc_paragraph(d, "No picture of this (%s): %s.", report_picture_name(which), why);
    } else {
        doc_picture(d, file, what_of(which), &bytes);
        saved = save(r, file, bytes.data, bytes.n);
    }
    free(bytes.data);
    return saved;
}

static int write_sections(doc *d, const report_run *r) {
    write_engines(d, r);
    int saved = add_picture(d, r, REPORT_STAGES);
    write_text(d, r);
    saved &= add_picture(d, r, REPORT_WORDS);
    doc_heading(d, "Error by layer");
    saved &= add_picture(d, r, REPORT_ERRORS);
    write_layers(d, r);
    write_ops(d, r);
    doc_heading(d, "Attention alignment");
    saved &= add_picture(d, r, REPORT_ALIGNMENT);
    doc_heading(d, "Roofline of kernels");
    saved &= add_picture(d, r, REPORT_ROOFLINE);
    write_kernels(d, r);
    write_stages(d, r);
    write_manifest(d, r);
    return saved;
}

int report_write(const report_run *r) {
    doc d;
    const char *why;
    int saved = 0;
    if (doc_open(&d, "Complete results")) {
        saved = write_sections(&d, r);
        if (doc_close(&d))
            saved = saved && save(r, "COMPLETE_RESULTS.md", d.md_text, d.n_md) &&
                    save(r, "COMPLETE_RESULTS.html", d.html_text, d.n_html);
        else
            saved = 0, log_error("out of memory");
    }
    doc_free(&d);
    if (!draw_module(&why))
        log_say(MXW_LOG_WARN, "report: no pictures: %s", why);
    if (saved) {
        out_print("%s/COMPLETE_RESULTS.md\n%s/COMPLETE_RESULTS.html\n", r->options->output, r->options->output);
        out_flush();
    }
    return saved ? EXIT_OK : EXIT_FAILED;
}
