/* cli/bench/plot.c - `bench --plot`: the stages of every run as bars, and under them those of the history that --save
 * kept; a pair of panels for each recording, on one sheet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "common/log.h"
#include "report/doc.h"
#include "report/pictures.h"

enum { MOST_BARS = 40 };

typedef struct panel {
    picture_bars bars;
    picture_bar room[MOST_BARS];
    char title[200], note[200];
} panel;

struct bench_plot {
    const draw_table *table;
    panel **panels;
    int n;
    int failed; /* no memory */
};

int bench_check_plot(const char *value, char *message, size_t size) {
    if (draw_kind_of(value) >= 0)
        return 1;
    options_say(message, size, "'%.60s' does not end in .svg, .png or .pdf", value);
    return 0;
}

int bench_plot_open(const bench_options *o, bench_plot **out) {
    const char *why;
    const draw_table *table = draw_module(&why);
    if (!table) {
        log_error("--plot: %s", why);
        return EXIT_FAILED;
    }
    int fault = doc_can_save(o->plot);
    if (fault) {
        log_error("--plot: cannot write %s: %s", o->plot, strerror(fault));
        return EXIT_FAILED;
    }
    *out = calloc(1, sizeof(**out));
    if (*out)
        (*out)->table = table;
    return *out ? EXIT_OK : EXIT_FAILED;
}

void bench_plot_close(bench_plot *plot) {
    for (int i = 0; plot && i < plot->n; i++)
        free(plot->panels[i]);
    if (plot)
        free(plot->panels);
    free(plot);
}

static panel *add_panel(bench_plot *plot) {
    panel **grown = realloc(plot->panels, (size_t)(plot->n + 1) * sizeof(*grown));
    panel *p = grown ? calloc(1, sizeof(*p)) : NULL;
    if (grown)
        plot->panels = grown;
    if (!p) {
        plot->failed = 1;
        return NULL;
    }
    plot->panels[plot->n++] = p;
    p->bars = (picture_bars){.title = p->title, .note = p->note, .bars = p->room, .n_stages = BENCH_OTHER + 1};
    for (int i = 0; i <= BENCH_OTHER; i++)
        p->bars.stages[i] = bench_stage_name((bench_stage)i);
    return p;
}

static picture_bar *add_bar(panel *p, const double *ms, double audio_s) {
    picture_bar *bar = &p->room[p->bars.n_bars++];
    memcpy(bar->ms, ms, (BENCH_OTHER + 1) * sizeof(*ms));
    bar->total = ms[BENCH_TOTAL];
    if (ms[BENCH_TOTAL] > 0)
        snprintf(bar->note, sizeof(bar->note), "%.1f × real time", 1000 * audio_s / ms[BENCH_TOTAL]);
    return bar;
}

static void add_runs(panel *p, const bench_record *record, const char *name) {
    int first = record->n_runs > MOST_BARS ? record->n_runs - MOST_BARS : 0;
    snprintf(p->title, sizeof(p->title), "%s: %d runs", name, record->n_runs);
    snprintf(p->note, sizeof(p->note), "max-whisper %s, %s, engine %s on %s, %d threads; %.1f s of sound",
             mxw_version(), record->checkpoint.size_name, engine_names[record->model.engine],
             record->model.device, record->model.threads, record->audio_s);
    for (int i = first; i < record->n_runs; i++)
        snprintf(add_bar(p, record->runs[i].ms, record->audio_s)->name, 80, "run %d", i + 1);
}

void bench_plot_add(bench_plot *plot, const bench_options *o, const bench_record *record) {
    static bench_past past[MOST_BARS];
    const char *slash = strrchr(record->path, '/'), *name = slash ? slash + 1 : record->path;
    panel *p = add_panel(plot);
    if (p)
        add_runs(p, record, name);
    int n = o->save ? bench_history(o->save, record, past, MOST_BARS) : 0;
    if (n < 2 || !(p = add_panel(plot)))
        return;
    snprintf(p->title, sizeof(p->title), "%s: history", name);
    snprintf(p->note, sizeof(p->note), "medians of each time that %s was written to, oldest first", o->save);
    for (int i = 0; i < n; i++)
        snprintf(add_bar(p, past[i].ms, record->audio_s)->name, 80, "%.10s %.5s, %.12s", past[i].date,
                 strlen(past[i].date) > 11 ? past[i].date + 11 : "", past[i].version);
}

int bench_plot_save(bench_plot *plot, const bench_options *o) {
    draw_sheet sheet;
    draw_bytes bytes;
    double height = 0, top = 0;
    for (int i = 0; i < plot->n; i++)
        height += picture_bars_height(&plot->panels[i]->bars);
    draw_kind kind = (draw_kind)draw_kind_of(o->plot);
    if (plot->failed || !draw_open(&sheet, plot->table, kind, PICTURE_WIDTH, height, &bytes)) {
        log_error("--plot: out of memory");
        return EXIT_FAILED;
    }
    for (int i = 0; i < plot->n; i++) {
        picture_bars_draw(&sheet, top, &plot->panels[i]->bars);
        top += picture_bars_height(&plot->panels[i]->bars);
    }
    const char *why = draw_close(&sheet);
    int fault = why ? 0 : doc_save(o->plot, bytes.data, bytes.n);
    if (why || fault)
        log_error("--plot: cannot write %s: %s", o->plot, why ? why : strerror(fault));
    free(bytes.data);
    return why || fault ? EXIT_FAILED : EXIT_OK;
}
