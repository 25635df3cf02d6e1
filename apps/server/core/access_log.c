/* server/core/access_log.c - see access_log.h. */
#include "core/access_log.h"

#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct access_log {
    const char *path;
    pthread_mutex_t lock;
    FILE *file; /* NULL: none */
};

static FILE *open_file(const char *path, char *message, size_t size) {
    FILE *file = !strcmp(path, "-") ? stdout : fopen(path, "ae");
    if (!file)
        snprintf(message, size, "--access-log: cannot write %s: %s", path, strerror(errno));
    return file;
}

access_log *access_log_open(const char *path, char *message, size_t size) {
    access_log *log = calloc(1, sizeof(*log));
    if (!log) {
        snprintf(message, size, "out of memory: access log");
        return NULL;
    }
    log->path = path;
    log->file = path ? open_file(path, message, size) : NULL;
    if (path && !log->file) {
        free(log);
        return NULL;
    }
    pthread_mutex_init(&log->lock, NULL);
    return log;
}

static void close_file(FILE *file) {
    if (file && file != stdout)
        fclose(file);
}

void access_log_close(access_log *log) {
    if (!log)
        return;
    close_file(log->file);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

int access_log_reopen(access_log *log, char *message, size_t size) {
    FILE *file = log->path ? open_file(log->path, message, size) : NULL;
    if (!file)
        return !log->path;
    pthread_mutex_lock(&log->lock);
    FILE *old = log->file;
    log->file = file;
    pthread_mutex_unlock(&log->lock);
    close_file(old != file ? old : NULL);
    return 1;
}

/* ---- a line --------------------------------------------------------------------------------------------- */

static void address_of(const http_request *r, char *text, size_t size) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    socklen_t n = address && address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (!address || getnameinfo(address, n, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST))
        snprintf(text, size, "?");
}

static void time_now(char *text, size_t size) {
    struct timespec now;
    struct tm parts;
    char seconds[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, size, "%s.%03dZ", seconds, (int)(now.tv_nsec / 1000000));
}

void access_log_note(const http_request *r, access_note *note) {
    memcpy(note->id, r->id, sizeof(note->id));
    address_of(r, note->client, sizeof(note->client));
    snprintf(note->method, sizeof(note->method), "%s", r->method);
    snprintf(note->path, sizeof(note->path), "%s", r->path);
    note->start_ns = r->start_ns;
}

/* What is not UTF-8 is left out. */
static void set_text(json_t *line, const char *name, const char *text) {
    json_t *value = text ? json_string(text) : NULL;
    if (value)
        json_object_set_new(line, name, value);
}

static void write_line(access_log *log, const access_note *note, const access_sums *sums) {
    char time_text[64];
    time_now(time_text, sizeof(time_text));
    json_t *line = json_pack("{s:s, s:s, s:s}", "time", time_text, "id", note->id, "client", note->client);
    set_text(line, "method", note->method);
    set_text(line, "path", note->path);
    json_object_set_new(line, "status", json_integer(sums->status));
    json_object_set_new(line, "ms", json_real((double)((server_now_ns() - note->start_ns) / 1000) / 1e3));
    json_object_set_new(line, "bytes_in", json_integer(sums->bytes_in));
    set_text(line, "model", sums->model);
    if (sums->audio_s > 0)
        json_object_set_new(line, "audio_s", json_real((double)(int64_t)(sums->audio_s * 1e3) / 1e3));
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(line);
    pthread_mutex_lock(&log->lock);
    if (text && log->file) {
        fprintf(log->file, "%s\n", text);
        fflush(log->file);
    }
    pthread_mutex_unlock(&log->lock);
    free(text);
}

void access_log_write_socket(access_log *log, const access_note *note, const access_sums *sums) {
    if (log->path)
        write_line(log, note, sums);
}

void access_log_write(access_log *log, const http_request *r, int status) {
    access_note note;
    if (!log->path)
        return;
    access_log_note(r, &note);
    write_line(log, &note, &(access_sums){status, (int64_t)r->n_received, r->model, r->audio_s});
}
