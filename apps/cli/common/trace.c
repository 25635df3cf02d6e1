/* cli/common/trace.c - see trace.h. */
#include "common/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/json_writer.h"
#include "common/log.h"

static FILE *file;
static const char *file_path;
static json_writer writer;
static int64_t first_ns;
static int n_events;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int trace_open(const char *path) {
    file = fopen(path, "w");
    if (!file) {
        log_error("--trace: cannot write %s: %s", path, strerror(errno));
        return 0;
    }
    file_path = path;
    n_events = 0;
    json_start(&writer, file, 0);
    json_begin(&writer, NULL);
    json_list(&writer, "traceEvents");
    return 1;
}

static void write_event(const mxw_trace_event *event) {
    if (n_events++ == 0)
        first_ns = event->start_ns;
    json_begin(&writer, NULL);
    json_text(&writer, "name", event->op);
    json_text(&writer, "cat", event->graph);
    json_text(&writer, "ph", "X");
    json_number(&writer, "ts", (double)(event->start_ns - first_ns) / 1e3, 3);
    json_number(&writer, "dur", (double)event->duration_ns / 1e3, 3);
    json_whole(&writer, "pid", 1);
    json_whole(&writer, "tid", event->thread);
    json_begin(&writer, "args");
    json_text(&writer, "value", event->name);
    json_text(&writer, "shape", event->shape);
    json_text(&writer, "kernel", event->kernel);
    json_text(&writer, "device", event->device);
    json_whole(&writer, "bytes", (int64_t)event->bytes);
    if (event->flops > 0)
        json_number(&writer, "flops", event->flops, 0);
    json_end(&writer);
    json_end(&writer);
}

static void on_trace(void *user, const mxw_trace_event *event) {
    (void)user;
    pthread_mutex_lock(&lock);
    write_event(event);
    pthread_mutex_unlock(&lock);
}

void (*trace_callback(void))(void *user, const mxw_trace_event *event) { return file ? on_trace : NULL; }

int trace_close(void) {
    if (!file)
        return 1;
    json_end(&writer);
    json_text(&writer, "displayTimeUnit", "ms");
    json_end(&writer);
    int failed = ferror(file);
    failed |= fclose(file);
    file = NULL;
    if (failed)
        log_error("--trace: writing %s failed", file_path);
    return !failed;
}
