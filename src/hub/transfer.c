/* hub/transfer.c - downloads one file from the hub: resumes, retries where that can help, and checks size and SHA-256
 * before it is renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sha256.h"
#include "hub/internal.h"

#define MAX_TEXT_BYTES (8u << 20)
#define IDLE_TRIES 5      /* in a row without progress */
#define MAX_TRIES 200
#define FIRST_WAIT_MS 200   /* doubles with each try without progress */

typedef struct download {
    mx_hub_job *job;
    const mx_hub_file *file;
    const char *path;        /* of the part */
    int fd;
    uint64_t at;             /* bytes in the part, all included in the checksum */
    mx_sha256 sum;
    char etag[128];          /* of the response that the part came from, in this run */
    char linked[128];
    int accepted;           /* the current response was accepted as the rest of this file */
    int too_long, cannot_write, range_refused;
} download;

int mx_hub_report(mx_hub_job *job, uint64_t of_this_file) {
    const mxw_fetch_options *o = job->options;
    if (o->progress && !job->stopped)
        job->stopped = o->progress(o->user, job->file, job->done + of_this_file, job->total) != 0;
    return job->stopped;
}

/* ---- the part of a file ------------------------------------------------------------------------------------ */

static mxw_status cannot(const download *d, const char *what) {
    return mx_fail(MXW_E_IO, "%s: cannot %s: %s", d->path, what, strerror(errno));
}

static mxw_status restart(download *d) {
    if (ftruncate(d->fd, 0) != 0 || lseek(d->fd, 0, SEEK_SET) != 0)
        return cannot(d, "write");
    d->at = 0;
    mx_sha256_start(&d->sum);
    return MXW_OK;
}

/* Resumes the part of an earlier run, if it can be of the same file: only a SHA-256 can tell. */
static mxw_status resume_part(download *d) {
    static _Thread_local char block[1 << 16];
    ssize_t got = 0;
    d->fd = open(d->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (d->fd < 0)
        return cannot(d, "write");
    mx_sha256_start(&d->sum);
    while (d->file->sha256 && (got = read(d->fd, block, sizeof(block))) > 0) {
        mx_sha256_add(&d->sum, block, (size_t)got);
        d->at += (uint64_t)got;
    }
    if (got < 0)
        return cannot(d, "read");
    if (!d->file->sha256 || (d->file->sized && d->at > d->file->size))
        return restart(d);
    if (d->at)
        mx_log(MXW_LOG_INFO, "hub", "%s: resuming at byte %llu", d->file->name, (unsigned long long)d->at);
    return MXW_OK;
}

static int write_all(download *d, const uint8_t *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t wrote = write(d->fd, bytes + done, n - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return 0;
        done += (size_t)wrote;
    }
    return 1;
}

/* Before the first byte of a response: non-zero if it is unusable. */
static int accept_response(download *d, const mx_http_response *response) {
    d->accepted = 1;
    d->range_refused = response->code == 206 && response->from != (int64_t)d->at;   /* another range */
    d->cannot_write = response->code == 200 && d->at && restart(d) < 0;           /* the whole file, not the rest */
    snprintf(d->linked, sizeof(d->linked), "%s", response->linked);
    snprintf(d->etag, sizeof(d->etag), "%s", response->etag);
    return d->range_refused || d->cannot_write;
}

static int on_body(void *user, const mx_http_response *response, const void *bytes, size_t n) {
    download *d = user;
    if (!d->accepted && accept_response(d, response))
        return 1;
    if (d->file->sized && n > d->file->size - d->at) {
        d->too_long = 1;
        return 1;
    }
    if (!write_all(d, bytes, n)) {
        d->cannot_write = 1;
        return 1;
    }
    mx_sha256_add(&d->sum, bytes, n);
    d->at += n;
    return mx_hub_report(d->job, d->at);
}

static int on_tick(void *user) {
    download *d = user;
    return mx_hub_report(d->job, d->at);
}

/* ---- retries ------------------------------------------------------------------------------------------------- */

static void wait_ms(mx_hub_job *job, uint64_t at, int ms) {
    for (; ms > 0 && !mx_hub_report(job, at); ms -= 100) {
        struct timespec t = {0, 1000000L * (ms < 100 ? ms : 100)};
        nanosleep(&t, NULL);
    }
}

/* A transient status, worth another try. */
static int is_transient(long code) { return code == 408 || code == 429 || code >= 500; }

/* One request for the rest of the file. OK: the file is complete. E_IO: worth another try (the error line says why).
 * Other failures are final. */
static mxw_status try_once(download *d, const char *url) {
    mx_http_response response;
    char etag[128];
    snprintf(etag, sizeof(etag), "%s", d->etag);
    d->accepted = d->too_long = d->range_refused = 0;
    mx_http_request request = {.url = url, .from = (int64_t)d->at, .if_range = etag[0] ? etag : NULL,
                               .token = d->job->token, .stall_s = d->job->options->stall_s,
                               .body = on_body, .tick = on_tick, .user = d};
    mxw_status status = d->job->curl->get(&request, &response);
    const char *name = d->file->name;
    if (d->job->stopped)
        return mx_fail(MXW_E_ABORTED, "%s: stopped; the partial download is kept", name);
    if (d->cannot_write)
        return mx_fail(MXW_E_STATE, "%s: cannot write: %s", d->path, strerror(errno));
    if (d->too_long)
        return restart(d) < 0 ? MXW_E_STATE : mx_fail(MXW_E_IO, "%s: larger than the %llu bytes that the hub states",
                                                      name, (unsigned long long)d->file->size);
    if (d->range_refused || response.code == 416)
        return restart(d) < 0 ? MXW_E_STATE : mx_fail(MXW_E_IO, "%s: the hub does not resume at byte %llu", name,
                                                      (unsigned long long)request.from);
    if (status == MXW_OK && response.code != 200 && response.code != 206) {
        status = mx_hub_refused(d->job, name, &response);
        return is_transient(response.code) ? MXW_E_IO : status == MXW_E_NOT_FOUND ? status : MXW_E_UNSUPPORTED;
    }
    if (status < 0)
        return mx_fail(MXW_E_IO, "%s: %s", name, response.why);
    if (d->file->sized && d->at != d->file->size)
        return mx_fail(MXW_E_IO, "%s: the response ended after %llu of %llu bytes", name, (unsigned long long)d->at,
                       (unsigned long long)d->file->size);
    return MXW_OK;
}

/* Downloads until the part is complete. */
static mxw_status fetch_part(download *d, const char *url) {
    mxw_status status = MXW_E_IO;
    int wait = FIRST_WAIT_MS;
    if (d->file->sha256 && d->file->sized && d->at == d->file->size && d->at)
        return MXW_OK;   /* complete since an earlier run that was stopped before the check */
    for (int idle = 0, tries = 0; status == MXW_E_IO && idle < IDLE_TRIES && tries < MAX_TRIES; tries++) {
        uint64_t before = d->at;
        status = try_once(d, url);
        if (status != MXW_E_IO)
            break;
        idle = d->at > before ? 0 : idle + 1;
        if (idle == 0)
            wait = FIRST_WAIT_MS;
        if (idle < IDLE_TRIES) {
            mx_log(MXW_LOG_INFO, "hub", "%s; trying again", mx_error());
            wait_ms(d->job, d->at, wait);
            wait *= 2;
        }
    }
    return status;
}

/* Compares with the checksum that the hub states: in its list, else in the response headers. */
static mxw_status check_sum(download *d) {
    char sum[65];
    const char *want = d->file->sha256 ? d->file->sha256 : strlen(d->linked) == 64 ? d->linked : NULL;
    mx_sha256 copy = d->sum;
    mx_sha256_hex(&copy, sum);
    if (!want || strcmp(sum, want) == 0)
        return MXW_OK;
    mxw_status status = restart(d);
    return status < 0 ? status : mx_fail(MXW_E_FORMAT, "%s: its SHA-256 is %s, the hub states %s", d->file->name, sum,
                                         want);
}

static mxw_status rename_part(const download *d, const char *folder) {
    mx_str path = {0};
    mx_str_print(&path, "%s/%s", folder, d->file->name);
    mxw_status status = mx_str_status(&path);
    if (status == MXW_OK && (fsync(d->fd) != 0 || rename(d->path, mx_str_get(&path)) != 0))
        status = cannot(d, "rename");
    mx_str_free(&path);
    return status;
}

mxw_status mx_hub_get_file(mx_hub_job *job, const char *url, const mx_hub_file *file, const char *folder) {
    mx_str path = {0};
    mx_str_print(&path, "%s/%s.%.16s.part", folder, file->name, file->sha256 ? file->sha256 : "new");
    download d = {.job = job, .file = file, .path = mx_str_get(&path), .fd = -1};
    mxw_status status;
    MX_TRY(mx_str_status(&path));
    job->file = file->name;
    MX_TRY(resume_part(&d));
    MX_TRY(fetch_part(&d, url));
    status = check_sum(&d);
    if (status == MXW_E_FORMAT) {   /* a resumed part may have been corrupted: once more, from its first byte */
        mx_log(MXW_LOG_WARN, "hub", "%s; fetching it again", mx_error());
        d.etag[0] = 0;
        MX_TRY(fetch_part(&d, url));
        status = check_sum(&d);
    }
    if (status == MXW_OK)
        status = rename_part(&d, folder);
    job->done += d.at;
out:
    if (d.fd >= 0)
        close(d.fd);
    if (d.fd >= 0 && d.at == 0 && status < 0)
        unlink(d.path);
    mx_str_free(&path);
    return status;
}

/* ---- a text ----------------------------------------------------------------------------------------------------- */

typedef struct text_state {
    mx_hub_job *job;
    mx_str *text;
} text_state;

static int on_text(void *user, const mx_http_response *response, const void *bytes, size_t n) {
    text_state *s = user;
    (void)response;
    if (s->text->n + n > MAX_TEXT_BYTES)
        return 1;
    mx_str_add(s->text, bytes, n);
    return mx_str_status(s->text) < 0;
}

static int on_text_tick(void *user) { return mx_hub_report(((text_state *)user)->job, 0); }

mxw_status mx_hub_get_text(mx_hub_job *job, const char *url, mx_str *text) {
    text_state s = {job, text};
    mx_http_response response = {0};
    mxw_status status = MXW_E_IO;
    int wait = FIRST_WAIT_MS;
    for (int i = 0; i < IDLE_TRIES; i++) {
        mx_str_clear(text);
        mx_http_request request = {.url = url, .token = job->token, .stall_s = job->options->stall_s,
                                   .body = on_text, .tick = on_text_tick, .user = &s};
        status = job->curl->get(&request, &response);
        if (job->stopped)
            return mx_fail(MXW_E_ABORTED, "stopped");
        if (mx_str_status(text) < 0)
            return mx_str_status(text);
        if (status == MXW_OK && response.code == 200)
            return MXW_OK;
        if (status == MXW_OK && !is_transient(response.code))
            return mx_hub_refused(job, url, &response);
        if (i + 1 < IDLE_TRIES && (status == MXW_OK || response.code))   /* no retry if the host is unreachable */
            wait_ms(job, 0, wait);
        else
            break;
        wait *= 2;
    }
    if (status == MXW_OK)
        return mx_hub_refused(job, url, &response);
    if (status == MXW_E_ABORTED)
        return mx_fail(MXW_E_FORMAT, "%s: more than %u bytes, too large for a file list", url, MAX_TEXT_BYTES);
    return mx_fail(MXW_E_IO, "%s: %s", url, response.why);
}
