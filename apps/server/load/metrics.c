/* server/load/metrics.c - see metrics.h. */
#include "load/metrics.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/connections.h"
#include "http/reply.h"
#include "load/admission.h"
#include "models/registry.h"
#include "realtime/hub.h"

enum { MAX_SERIES = 256, MAX_MODELS = 64, N_BUCKETS = 15 };

static const double buckets[N_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800};
static const char *const outcomes[] = {"done", "failed", "cancelled"};

typedef struct histogram {
    int64_t counts[N_BUCKETS], n;
    double sum;
} histogram;

typedef struct request_series {
    const char *route;
    char method[8];
    int status;
    histogram seconds;
} request_series;

typedef struct model_series {
    int64_t outcomes[3];
    double audio_s, worked_s, live_audio_s, live_worked_s;
    histogram waited, worked, real_time_factor;
} model_series;

struct server_metrics {
    pthread_mutex_t lock;
    request_series requests[MAX_SERIES];
    int n_requests;
    int64_t bytes;
    model_series models[MAX_MODELS];
};

/* ---- counting ------------------------------------------------------------------------------------------- */

static void observe(histogram *h, double value) {
    for (int i = 0; i < N_BUCKETS; i++)
        h->counts[i] += value <= buckets[i];
    h->n++;
    h->sum += value;
}

server_metrics *metrics_open(void) {
    server_metrics *m = calloc(1, sizeof(*m));
    if (m)
        pthread_mutex_init(&m->lock, NULL);
    return m;
}

void metrics_close(server_metrics *m) {
    if (!m)
        return;
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* What methods are called is the client's choice: those without a route are one. */
static request_series *find_request(server_metrics *m, const char *route, const char *method, int status) {
    for (int i = 0; i < m->n_requests; i++) {
        request_series *r = &m->requests[i];
        if (!strcmp(r->route, route) && !strcmp(r->method, method) && r->status == status)
            return r;
    }
    if (m->n_requests == MAX_SERIES)
        return NULL;
    request_series *r = &m->requests[m->n_requests++];
    *r = (request_series){.route = route, .status = status};
    snprintf(r->method, sizeof(r->method), "%s", method);
    return r;
}

void metrics_request(server_metrics *m, const char *route, const char *method, int status, double seconds,
                     size_t bytes) {
    pthread_mutex_lock(&m->lock);
    request_series *r = find_request(m, route ? route : "other", route ? method : "any", status);
    if (r)
        observe(&r->seconds, seconds);
    m->bytes += (int64_t)bytes;
    pthread_mutex_unlock(&m->lock);
}

void metrics_recording(server_metrics *m, int model, const char *outcome, double audio_s, double waited_s,
                       double worked_s) {
    if (model < 0 || model >= MAX_MODELS)
        return;
    pthread_mutex_lock(&m->lock);
    model_series *s = &m->models[model];
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++)
        s->outcomes[i] += !strcmp(outcomes[i], outcome);
    if (!strcmp(outcome, "done")) {
        s->audio_s += audio_s;
        observe(&s->waited, waited_s);
        observe(&s->worked, worked_s);
        if (audio_s > 0)
            observe(&s->real_time_factor, worked_s / audio_s);
    }
    s->worked_s += worked_s;
    pthread_mutex_unlock(&m->lock);
}

void metrics_live(server_metrics *m, int model, double audio_s, double worked_s) {
    if (model < 0 || model >= MAX_MODELS)
        return;
    pthread_mutex_lock(&m->lock);
    m->models[model].live_audio_s += audio_s;
    m->models[model].live_worked_s += worked_s;
    pthread_mutex_unlock(&m->lock);
}

/* ---- the page ------------------------------------------------------------------------------------------- */

static void head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP max_whisper_%s %s\n# TYPE max_whisper_%s %s\n", name, help, name, type);
}

static void put_histogram(FILE *out, const char *name, const char *labels, const histogram *h) {
    for (int i = 0; i < N_BUCKETS; i++)
        fprintf(out, "max_whisper_%s_bucket{%s,le=\"%g\"} %lld\n", name, labels, buckets[i], (long long)h->counts[i]);
    fprintf(out, "max_whisper_%s_bucket{%s,le=\"+Inf\"} %lld\n", name, labels, (long long)h->n);
    fprintf(out, "max_whisper_%s_sum{%s} %.9g\n", name, labels, h->sum);
    fprintf(out, "max_whisper_%s_count{%s} %lld\n", name, labels, (long long)h->n);
}

static void put_requests(FILE *out, const server_metrics *m) {
    char labels[256];
    head(out, "request_seconds", "histogram", "Requests from their headers to the end of the answer.");
    for (int i = 0; i < m->n_requests; i++) {
        const request_series *r = &m->requests[i];
        snprintf(labels, sizeof(labels), "route=\"%s\",method=\"%s\",status=\"%d\"", r->route, r->method, r->status);
        put_histogram(out, "request_seconds", labels, &r->seconds);
    }
    head(out, "received_bytes_total", "counter", "Bytes of the bodies of requests.");
    fprintf(out, "max_whisper_received_bytes_total %lld\n", (long long)m->bytes);
}

/* The name of a model, as it may stand in quotes. */
static void label_of(const char *id, char *label, size_t size) {
    size_t n = (size_t)snprintf(label, size, "model=\"");
    for (; *id && n + 4 < size; id++) {
        if (*id == '"' || *id == '\\' || *id == '\n')
            label[n++] = '\\';
        label[n++] = *id == '\n' ? 'n' : *id;
    }
    label[n++] = '"';
    label[n] = 0;
}

typedef struct stage_page {
    FILE *out;
    const char *label;
    int items; /* or runs */
} stage_page;

static void put_stages(void *user, const mxw_model *model) {
    static const char *const names[] = {"encode", "cross", "prompt", "step", "force"};
    const stage_page *page = user;
    for (int i = 0; i < 5; i++) {
        mxw_stage_counters c = {.struct_size = sizeof(c)};
        if (mxw_model_get_counters(model, (mxw_stage)i, &c) >= 0)
            fprintf(page->out, "max_whisper_stage_%s_total{%s,stage=\"%s\"} %lld\n", page->items ? "items" : "runs",
                    page->label, names[i], (long long)(page->items ? c.items : c.runs));
    }
}

/* Each stage's program has its own weights; those of prompt and step are one program, and force has the same. */
static void put_weights(void *user, const mxw_model *model) {
    static const mxw_stage stages[] = {MXW_STAGE_ENCODE, MXW_STAGE_CROSS, MXW_STAGE_STEP};
    const stage_page *page = user;
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof(stages) / sizeof(*stages); i++) {
        mxw_stage_counters c = {.struct_size = sizeof(c)};
        if (mxw_model_get_counters(model, stages[i], &c) >= 0)
            bytes += c.weight_bytes;
    }
    fprintf(page->out, "max_whisper_model_weight_bytes{%s} %llu\n", page->label, (unsigned long long)bytes);
}

/* One family of metrics for all models: fn writes the lines of one. */
static void each_model(FILE *out, server_context *s, const server_metrics *m,
                       void (*fn)(FILE *out, const char *label, const model_series *series)) {
    char label[300];
    for (int i = 0; models_id(s->models, i) && i < MAX_MODELS; i++) {
        label_of(models_id(s->models, i), label, sizeof(label));
        fn(out, label, &m->models[i]);
    }
}

static void put_outcomes(FILE *out, const char *label, const model_series *s) {
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++)
        fprintf(out, "max_whisper_recordings_total{%s,outcome=\"%s\"} %lld\n", label, outcomes[i],
                (long long)s->outcomes[i]);
}

static void put_audio(FILE *out, const char *label, const model_series *s) {
    fprintf(out, "max_whisper_audio_seconds_total{%s,kind=\"recording\"} %.9g\n", label, s->audio_s);
    fprintf(out, "max_whisper_audio_seconds_total{%s,kind=\"live\"} %.9g\n", label, s->live_audio_s);
}

static void put_work(FILE *out, const char *label, const model_series *s) {
    fprintf(out, "max_whisper_work_seconds_total{%s,kind=\"recording\"} %.9g\n", label, s->worked_s);
    fprintf(out, "max_whisper_work_seconds_total{%s,kind=\"live\"} %.9g\n", label, s->live_worked_s);
}

static void put_waited(FILE *out, const char *label, const model_series *s) {
    put_histogram(out, "queue_seconds", label, &s->waited);
}

static void put_worked(FILE *out, const char *label, const model_series *s) {
    put_histogram(out, "transcription_seconds", label, &s->worked);
}

static void put_factor(FILE *out, const char *label, const model_series *s) {
    put_histogram(out, "real_time_factor", label, &s->real_time_factor);
}

static void put_models(FILE *out, server_context *s, const server_metrics *m) {
    char label[300];
    int64_t loads, unloads;
    head(out, "recordings_total", "counter", "Recordings by how they ended.");
    each_model(out, s, m, put_outcomes);
    head(out, "audio_seconds_total", "counter", "Sound that was transcribed.");
    each_model(out, s, m, put_audio);
    head(out, "work_seconds_total", "counter", "Time that recordings and live streams took, together.");
    each_model(out, s, m, put_work);
    head(out, "queue_seconds", "histogram", "Wait of a recording for its place.");
    each_model(out, s, m, put_waited);
    head(out, "transcription_seconds", "histogram", "Time of a recording in its place.");
    each_model(out, s, m, put_worked);
    head(out, "real_time_factor", "histogram", "Time of a recording in its place by its duration.");
    each_model(out, s, m, put_factor);
    head(out, "model_loaded", "gauge", "Whether a model is in memory.");
    for (int i = 0; models_id(s->models, i); i++) {
        label_of(models_id(s->models, i), label, sizeof(label));
        fprintf(out, "max_whisper_model_loaded{%s} %d\n", label, models_is_loaded(s->models, i));
    }
    head(out, "model_weight_bytes", "gauge",
         "Weights of a loaded model that one run reads, without the tables of tokens and places.");
    for (int i = 0; models_id(s->models, i); i++) {
        label_of(models_id(s->models, i), label, sizeof(label));
        models_visit(s->models, i, put_weights, &(stage_page){out, label, 0});
    }
    head(out, "model_loads_total", "counter", "How often a model was loaded.");
    for (int i = 0; models_id(s->models, i); i++) {
        label_of(models_id(s->models, i), label, sizeof(label));
        models_counts(s->models, i, &loads, &unloads);
        fprintf(out, "max_whisper_model_loads_total{%s} %lld\n", label, (long long)loads);
    }
    for (int items = 0; items < 2; items++) {
        head(out, items ? "stage_items_total" : "stage_runs_total", "counter",
             items ? "Windows and decoder rows of all runs; by the number of runs: how full batches are."
                   : "Runs of the encoder and the decoder since the model was loaded.");
        for (int i = 0; models_id(s->models, i); i++) {
            label_of(models_id(s->models, i), label, sizeof(label));
            models_visit(s->models, i, put_stages, &(stage_page){out, label, items});
        }
    }
}

static long long resident_bytes(void) {
    long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%lld %lld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static void gauge(FILE *out, const char *name, const char *help, double value) {
    head(out, name, "gauge", help);
    fprintf(out, "max_whisper_%s %.15g\n", name, value);
}

static void counter(FILE *out, const char *name, const char *help, int64_t value) {
    head(out, name, "counter", help);
    fprintf(out, "max_whisper_%s %lld\n", name, (long long)value);
}

static void put_sockets(FILE *out, server_context *s) {
    realtime_counts c;
    realtime_get_counts(s->realtime, &c);
    gauge(out, "sockets", "Live sockets that are open.", (double)c.open);
    gauge(out, "socket_waiting_bytes", "Messages of clients that were not heard yet.", (double)c.waiting_bytes);
    counter(out, "sockets_opened_total", "Live sockets since the start.", c.opened);
    counter(out, "sockets_refused_total", "Live sockets for which there was no place.", c.refused);
    counter(out, "sockets_dropped_total", "Live sockets whose client was too slow, or broke the rules.", c.dropped);
    counter(out, "socket_messages_total", "Messages of clients.", c.messages);
    counter(out, "socket_events_total", "Events that were sent to clients.", c.events);
    counter(out, "socket_errors_total", "Of those: errors.", c.errors);
}

static void put_now(FILE *out, server_context *s) {
    int uploading, running, waiting, inside;
    admission_counts(s->admission, &uploading, &running, &waiting, &inside);
    gauge(out, "recordings_uploading", "Recordings that are still arriving.", uploading);
    gauge(out, "recordings_running", "Recordings that have a place.", running);
    gauge(out, "recordings_waiting", "Recordings in the queue.", waiting);
    gauge(out, "recordings_inside", "Recordings that are uploaded, wait, run or are answered.", inside);
    gauge(out, "connections", "Connections that are open.", connections_count(s->connections));
    gauge(out, "draining", "Whether the server is about to stop.", server_is_draining(s));
    gauge(out, "uptime_seconds", "Since the server started.", (double)(server_now_ns() - s->start_ns) * 1e-9);
    gauge(out, "resident_memory_bytes", "Memory of the process.", (double)resident_bytes());
    head(out, "build_info", "gauge", "The version.");
    fprintf(out, "max_whisper_build_info{version=\"%s\"} 1\n", mxw_version());
}

static enum MHD_Result answer_metrics(http_request *r) {
    server_metrics *m = r->server->metrics, *copy = malloc(sizeof(*copy));
    char *text = NULL;
    size_t n = 0;
    FILE *out = copy ? open_memstream(&text, &n) : NULL;
    if (!out) {
        free(copy);
        return reply_error(r, MHD_HTTP_INSUFFICIENT_STORAGE, NULL, "out_of_memory", "out of memory");
    }
    pthread_mutex_lock(&m->lock);
    memcpy(copy, m, sizeof(*copy));
    pthread_mutex_unlock(&m->lock);
    put_requests(out, copy);
    put_models(out, r->server, copy);
    put_now(out, r->server);
    put_sockets(out, r->server);
    fclose(out);
    enum MHD_Result result = reply_bytes(r, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, n);
    free(text);
    free(copy);
    return result;
}

const route_handler handler_metrics = {.answer = answer_metrics};
