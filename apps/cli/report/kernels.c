/* cli/report/kernels.c - the kernels of one run of an engine: how long each took in all, what it computed and moved. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

typedef struct tracing {
    report_engine *engine;
    pthread_mutex_t lock;
} tracing;

/* "encoder fused_linear, gemm 14x32 f16 avx512" */
static picture_kernel *kernel_of(report_engine *e, const mxw_trace_event *event) {
    char name[sizeof(e->kernels[0].name)];
    snprintf(name, sizeof(name), "%.16s %.24s, %.48s", event->graph, event->op, event->kernel);
    for (int i = 0; i < e->n_kernels; i++)
        if (!strcmp(e->kernels[i].name, name))
            return &e->kernels[i];
    if (e->n_kernels == REPORT_KERNELS)
        return NULL;
    picture_kernel *k = &e->kernels[e->n_kernels++];
    memcpy(k->name, name, sizeof(name));
    return k;
}

static void on_trace(void *user, const mxw_trace_event *event) {
    tracing *t = user;
    if (!strcmp(event->op, "run"))
        return;
    pthread_mutex_lock(&t->lock);
    picture_kernel *k = kernel_of(t->engine, event);
    if (k) {
        k->calls++;
        k->flops += event->flops;
        k->bytes += (double)event->bytes;
        k->ms += (double)event->duration_ns / 1e6;
    }
    pthread_mutex_unlock(&t->lock);
}

static int longest_first(const void *a, const void *b) {
    double x = ((const picture_kernel *)a)->ms, y = ((const picture_kernel *)b)->ms;
    return x > y ? -1 : x < y;
}

/* Once to warm up, and once that counts. */
void report_trace(const report_run *r, report_engine *e) {
    tracing t = {e, PTHREAD_MUTEX_INITIALIZER};
    mxw_model *model = NULL;
    mxw_session_options options;
    const mxw_segment *segment;
    mxw_session_options_default(&options);
    options.language = lab_language(r->options->language);
    options.beam_size = (int)r->options->beam_size;
    options.temperature_increment = MXW_NONE;
    mxw_status status = report_open(r, e, 0, on_trace, &t, &model);
    for (int i = 0; i < 2 && status >= 0; i++) {
        mxw_session *session = NULL;
        memset(e->kernels, 0, sizeof(e->kernels));
        e->n_kernels = 0;
        status = mxw_session_open(model, &options, &session);
        if (status >= 0)
            status = mxw_session_feed(session, r->samples.data, r->samples.n);
        if (status >= 0)
            status = mxw_session_finish(session);
        while (status == MXW_OK)
            status = mxw_session_next(session, &segment);
        mxw_session_close(session);
    }
    if (status < 0)
        snprintf(e->why, sizeof(e->why), "kernels: %s", mxw_last_error());
    mxw_model_close(model);
    for (int i = 0; i < e->n_kernels; i++)
        e->kernels[i].series = (int)(e - r->engines);
    qsort(e->kernels, (size_t)e->n_kernels, sizeof(*e->kernels), longest_first);
}
