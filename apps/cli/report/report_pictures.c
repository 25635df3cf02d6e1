/* cli/report/report_pictures.c - the pictures of `report`, from what was measured. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

enum { WINDOW_FRAMES = 3000, KERNELS_DRAWN = 9 };
_Static_assert((int)PICTURE_SERIES >= (int)REPORT_ENGINES, "every engine has a colour");

static const char *const names[REPORT_PICTURES] = {"words", "stages", "errors", "alignment", "roofline"};

const char *report_picture_name(report_picture which) { return names[which]; }

typedef struct sheet {
    draw_sheet sheet;
    const draw_table *table;
    draw_bytes *bytes;
} sheet;

static int begin(sheet *s, double height) {
    return draw_open(&s->sheet, s->table, DRAW_SVG, PICTURE_WIDTH, height, s->bytes);
}

static const char *end(sheet *s) {
    int refused = s->sheet.n_refused;
    const char *why = draw_close(&s->sheet);
    return why ? why : refused ? "something in it is not finite" : NULL;
}

static const char *const no_memory = "out of memory";

/* ---- words under the log-mel ---------------------------------------------------------------------------- */

static int gather_words(const mxw_result *result, double until, picture_word **out) {
    size_t n = 0, room = 1;
    for (size_t i = 0; i < result->n_segments; i++)
        room += mxw_result_segment(result, i)->n_words;
    *out = calloc(room, sizeof(**out));
    for (size_t i = 0; *out && i < result->n_segments; i++)
        for (size_t j = 0; j < mxw_result_segment(result, i)->n_words; j++) {
            const mxw_word *w = mxw_segment_word(mxw_result_segment(result, i), j);
            if (w->start < until)
                (*out)[n++] = (picture_word){w->start, w->end, w->word + (w->word[0] == ' ')};
        }
    return (int)n;
}

static const char *draw_words(const report_run *r, sheet *s) {
    mxw_feature mel = {.struct_size = sizeof(mel)};
    picture_word *words = NULL;
    char title[200];
    if (!report_feature(r, "mel", &mel))
        return "there is no log-mel";
    int frames = (int)fmin((double)mel.tensor->dims[0], floor(r->result->duration_s * 100));
    int n = gather_words(r->result, frames / 100.0, &words);
    snprintf(title, sizeof(title), "Log-mel and words: %s", r->speaker->name);
    picture_words p = {.mel = mel.tensor->data, .frames = frames, .mels = (int)mel.tensor->dims[1], .words = words,
                       .n_words = n, .title = title};
    const char *why = words && begin(s, picture_words_height(&p)) ? NULL : no_memory;
    if (!why) {
        picture_words_draw(&s->sheet, &p);
        why = end(s);
    }
    free(words);
    return why;
}

/* ---- attention ------------------------------------------------------------------------------------------ */

static const char *draw_alignment(const report_run *r, sheet *s) {
    mxw_feature matrix = {.struct_size = sizeof(matrix)}, frames = {.struct_size = sizeof(frames)};
    char title[200];
    int there = report_feature(r, "words.attention", &matrix) && report_feature(r, "words.frames", &frames) &&
                r->n_names == (int)matrix.tensor->dims[0];
    snprintf(title, sizeof(title), "Attention alignment of the first window: %s", r->speaker->name);
    picture_alignment p = {.title = title, .names = (const char *const *)r->token_names};
    if (there) {
        p.matrix = matrix.tensor->data;
        p.frames = frames.tensor->data;
        p.rows = (int)matrix.tensor->dims[0];
        p.columns = (int)matrix.tensor->dims[1];
    }
    if (!begin(s, picture_alignment_height(&p)))
        return no_memory;
    picture_alignment_draw(&s->sheet, &p);
    return end(s);
}

/* ---- time by stage -------------------------------------------------------------------------------------- */

static double median_ms(const bench_record *record, int stage) {
    static double values[BENCH_MAX_RUNS];
    for (int i = 0; i < record->n_runs; i++)
        values[i] = record->runs[i].ms[stage];
    return bench_describe(values, record->n_runs).median;
}

static const char *draw_stages(const report_run *r, sheet *s) {
    picture_bar bars[REPORT_ENGINES];
    picture_bars p = {.title = "Time by stage and engine", .bars = bars, .n_stages = BENCH_OTHER + 1};
    char note[160];
    memset(bars, 0, sizeof(bars));
    snprintf(note, sizeof(note), "medians of %lld runs on %.1f s of sound", (long long)r->options->runs,
             r->result->duration_s);
    p.note = note;
    for (int i = 0; i <= BENCH_OTHER; i++)
        p.stages[i] = bench_stage_name((bench_stage)i);
    for (int i = 0; i < r->n_engines; i++) {
        const bench_record *record = r->engines[i].record;
        if (!record || !record->n_runs)
            continue;
        picture_bar *bar = &bars[p.n_bars++];
        snprintf(bar->name, sizeof(bar->name), "%s", r->engines[i].name);
        for (int k = 0; k <= BENCH_OTHER; k++)
            bar->ms[k] = median_ms(record, k);
        bar->total = median_ms(record, BENCH_TOTAL);
        if (bar->total > 0)
            snprintf(bar->note, sizeof(bar->note), "%.1f × real time", 1000 * record->audio_s / bar->total);
    }
    if (!begin(s, picture_bars_height(&p)))
        return no_memory;
    picture_bars_draw(&s->sheet, 0, &p);
    return end(s);
}

/* ---- error by layer ------------------------------------------------------------------------------------- */

/* Stages that have a bound and numbers, of the engine that has the most of them. */
static const report_engine *most_stages(const report_run *r) {
    const report_engine *most = NULL;
    for (int i = 0; i < r->n_engines; i++)
        if (!most || r->engines[i].n_stages > most->n_stages)
            most = &r->engines[i];
    return most;
}

static double error_at(const report_engine *e, const char *stage) {
    for (int i = 0; i < e->n_stages; i++)
        if (!strcmp(e->stages[i].name, stage))
            return e->stages[i].seen ? e->stages[i].relative : NAN;
    return NAN;
}

static const char *draw_errors(const report_run *r, sheet *s) {
    const report_engine *all = most_stages(r);
    size_t room = (size_t)all->n_stages + 1;
    const char **stages = calloc(room, sizeof(*stages));
    double *numbers = calloc(room * (1 + REPORT_ENGINES), sizeof(*numbers)), *bounds = numbers;
    picture_errors p = {.stages = stages, .bounds = bounds};
    if (!stages || !numbers) {
        free(stages);
        free(numbers);
        return no_memory;
    }
    for (int i = 0; i < all->n_stages; i++) {
        if (!all->stages[i].seen || !(all->stages[i].bound > 0))
            continue;
        stages[p.n] = all->stages[i].name;
        bounds[p.n++] = all->stages[i].bound;
    }
    for (int i = 0; i < r->n_engines; i++) {
        if (!r->engines[i].n_stages)
            continue;
        double *errors = numbers + (size_t)(p.n_series + 1) * room;
        for (int k = 0; k < p.n; k++)
            errors[k] = error_at(&r->engines[i], stages[k]);
        p.names[p.n_series] = r->engines[i].name;
        p.colors[p.n_series] = i;
        p.errors[p.n_series++] = errors;
    }
    const char *why = begin(s, PICTURE_ERRORS_HEIGHT) ? NULL : no_memory;
    if (!why) {
        picture_errors_draw(&s->sheet, &p);
        why = end(s);
    }
    free(stages);
    free(numbers);
    return why;
}

/* ---- roofline ------------------------------------------------------------------------------------------- */

/* The better of two measurements of the same roof. */
static void add_roof(picture_roofline *p, const char *device, const char *arithmetic, double gflops, double gbs) {
    if (!(gflops > 0 && gbs > 0))
        return;
    for (int i = 0; i < p->n_roofs; i++) {
        picture_roof *roof = &p->roofs[i];
        if (strcmp(roof->device, device) || strcmp(roof->arithmetic, arithmetic))
            continue;
        roof->gflops = fmax(roof->gflops, gflops);
        roof->gbs = fmax(roof->gbs, gbs);
        return;
    }
    if (p->n_roofs < PICTURE_ROOFS)
        p->roofs[p->n_roofs++] = (picture_roof){device, arithmetic, gflops, gbs};
}

static const char *draw_roofline(const report_run *r, sheet *s) {
    picture_kernel *kernels = calloc(REPORT_ENGINES * KERNELS_DRAWN, sizeof(*kernels));
    picture_roofline p = {.kernels = kernels, .n_series = r->n_engines};
    if (!kernels)
        return no_memory;
    for (int i = 0; i < r->n_engines; i++) {
        const report_engine *e = &r->engines[i];
        int n = 0;
        for (int k = 0; k < e->n_kernels && n < KERNELS_DRAWN; k++)
            if (e->kernels[k].flops > 0)
                kernels[p.n++] = e->kernels[k], n++;
        p.series[i] = n ? e->name : NULL;
        if (!e->record)
            continue;
        const mxw_device_peak *peak = &e->record->peak;
        add_roof(&p, e->device, "in registers", peak->gflops, peak->read_gbs);
        add_roof(&p, e->device, "of f16 on tensor cores", peak->tensor_gflops, peak->read_gbs);
        if (e->precision == MXW_PRECISION_INT8)
            add_roof(&p, e->device, "of int8 in registers", peak->int8_gops, peak->read_gbs);
    }
    const char *why = begin(s, picture_roofline_height(&p)) ? NULL : no_memory;
    if (!why) {
        picture_roofline_draw(&s->sheet, &p);
        why = end(s);
    }
    free(kernels);
    return why;
}

const char *report_draw(const report_run *r, report_picture which, const draw_table *table, draw_bytes *bytes) {
    sheet s = {.table = table, .bytes = bytes};
    *bytes = (draw_bytes){NULL, 0, 0};
    switch (which) {
    case REPORT_WORDS: return draw_words(r, &s);
    case REPORT_STAGES: return draw_stages(r, &s);
    case REPORT_ERRORS: return draw_errors(r, &s);
    case REPORT_ALIGNMENT: return draw_alignment(r, &s);
    default: return draw_roofline(r, &s);
    }
}
