/* cli/transcribe/journal.c - a header line, then records (length, checksum, bytes); append-only. */
#include "transcribe/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transcribe/output/outputs.h"

static const char first_line[] = "max-whisper journal 1\n";
enum { LINE = sizeof(first_line) - 1 };

struct journal {
    int fd;
    char *path;
    char *bytes; /* as it was when opened, or NULL */
    size_t n;    /* of bytes */
    size_t at;   /* behind the last record that was read */
    size_t last; /* where that begins */
    int64_t end; /* where the next one is written; -1: no more */
    int n_records;
    int empty;   /* it held no record when it was opened */
};

typedef struct head {
    uint64_t length, checksum;
} head;

static uint64_t fnv(const void *bytes, size_t n, uint64_t sum) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 0x100000001b3u;
    return sum;
}

#define FNV_SEED 0xcbf29ce484222325u

/* ---- where ---------------------------------------------------------------------------------------------- */

static int state_folder(char *path, size_t size) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = state && state[0] == '/' ? snprintf(path, size, "%s/max-whisper/", state)
            : home && home[0] == '/' ? snprintf(path, size, "%s/.local/state/max-whisper/", home)
                                     : 0;
    return n > 0 && (size_t)n < size;
}

/* A readable name and a digest of the whole path, since many recordings have the same name. */
static int name_in_state(const input *in, char *name, size_t size) {
    char whole[PATH_MAX];
    size_t length;
    const char *stem = outputs_stem(in->path, &length);
    if (!realpath(in->path, whole))
        snprintf(whole, sizeof(whole), "%s", in->path);
    return snprintf(name, size, "%.*s-%016llx", (int)(length < 100 ? length : 100), stem,
                    (unsigned long long)fnv(whole, strlen(whole), FNV_SEED)) > 0;
}

static int name_beside_files(const input *in, char *name, size_t size) {
    size_t length;
    const char *stem = outputs_stem(in->path, &length);
    return snprintf(name, size, "%.*s", (int)length, stem) < (int)size;
}

int journal_path(const transcribe_options *options, const input *in, int channel, char *path, size_t size,
                 char *message, size_t message_size) {
    char folder[PATH_MAX], name[NAME_MAX + 1], number[16] = "";
    int found = options->output_dir
                    ? outputs_folder(options, in, folder, sizeof(folder)) && name_beside_files(in, name, sizeof(name))
                    : state_folder(folder, sizeof(folder)) && name_in_state(in, name, sizeof(name));
    if (channel)
        snprintf(number, sizeof(number), ".%d", channel);
    if (!found || snprintf(path, size, "%s%s%s.journal", folder, name, number) >= (int)size) {
        options_say(message, message_size, "no folder for its journal: %s",
                    options->output_dir ? "output path is too long"
                                        : "give --output-dir, or set XDG_STATE_HOME or HOME");
        return 0;
    }
    if (!outputs_make_folder(folder)) {
        options_say(message, message_size, "cannot create %s for its journal: %s", folder, strerror(errno));
        return 0;
    }
    return 1;
}

/* ---- open ----------------------------------------------------------------------------------------------- */

static int read_all(journal *j) {
    struct stat info;
    if (fstat(j->fd, &info) || !(j->bytes = malloc((size_t)info.st_size + 1)))
        return 0;
    while (j->n < (size_t)info.st_size) {
        ssize_t got = read(j->fd, j->bytes + j->n, (size_t)info.st_size - j->n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        j->n += (size_t)got;
    }
    return 1;
}

/* Locked, and still the file of that name: another process may have finished, and removed it, in between. */
static int open_locked(const char *path) {
    for (;;) {
        struct stat mine, named;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX | LOCK_NB)) {
            close(fd);
            errno = EWOULDBLOCK;
            return -1;
        }
        if (!fstat(fd, &mine) && !stat(path, &named) && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
            return fd;
        close(fd);
    }
}

journal *journal_open(const char *path, char *message, size_t size) {
    journal *j = calloc(1, sizeof(*j));
    if (!j || !(j->path = strdup(path))) {
        options_say(message, size, "out of memory");
        free(j);
        return NULL;
    }
    j->fd = open_locked(path);
    if (j->fd < 0 || !read_all(j)) {
        options_say(message, size, "%s: %s", path,
                    errno == EWOULDBLOCK ? "another run is transcribing this recording" : strerror(errno));
        journal_close(j, 0);
        return NULL;
    }
    if (memcmp(j->bytes, first_line, j->n < LINE ? j->n : LINE)) {
        options_say(message, size, "%s: exists, but is not a max-whisper journal", path);
        j->empty = 0;
        journal_close(j, 0);
        return NULL;
    }
    j->empty = j->n <= LINE;
    j->at = j->last = j->n < LINE ? 0 : LINE; /* a torn first line is written again */
    return j;
}

const char *journal_name(const journal *j) { return j->path; }

/* ---- read and write ------------------------------------------------------------------------------------- */

int journal_next(journal *j, const void **record, size_t *n) {
    head h;
    if (!j->bytes || j->n < j->at + sizeof(h))
        return 0;
    memcpy(&h, j->bytes + j->at, sizeof(h));
    const char *bytes = j->bytes + j->at + sizeof(h);
    if (h.length > j->n - j->at - sizeof(h) || h.checksum != fnv(bytes, (size_t)h.length, FNV_SEED ^ h.length))
        return 0;
    *record = bytes;
    *n = (size_t)h.length;
    j->last = j->at;
    j->at += sizeof(h) + (size_t)h.length;
    j->n_records++;
    return 1;
}

void journal_refuse(journal *j) {
    j->n = j->at = j->last;
    j->n_records -= j->n_records > 0;
}

static int write_at(journal *j, const void *bytes, size_t n) {
    const char *p = bytes;
    while (n) {
        ssize_t put = pwrite(j->fd, p, n, (off_t)j->end);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return 0;
        p += put;
        n -= (size_t)put;
        j->end += put;
    }
    return 1;
}

/* The first record that is added ends what was read: whatever lies behind it goes. */
static int begin_writing(journal *j) {
    free(j->bytes);
    j->bytes = NULL;
    j->end = (int64_t)j->at;
    if (ftruncate(j->fd, (off_t)j->at))
        return 0;
    return j->at || write_at(j, first_line, LINE);
}

int journal_add(journal *j, const void *record, size_t n) {
    head h = {n, fnv(record, n, FNV_SEED ^ n)};
    char *whole = malloc(sizeof(h) + n);
    int kept = whole && j->end >= 0 && (!j->bytes || begin_writing(j));
    if (kept) {
        memcpy(whole, &h, sizeof(h));
        memcpy(whole + sizeof(h), record, n);
        kept = write_at(j, whole, sizeof(h) + n) && !fdatasync(j->fd);
    }
    j->n_records += kept;
    if (!kept)
        j->end = -1;
    int why = errno;
    free(whole);
    errno = why;
    return kept;
}

void journal_close(journal *j, int remove) {
    if (!j)
        return;
    if (j->fd >= 0 && (remove || (j->empty && !j->n_records)))
        unlink(j->path);
    if (j->fd >= 0)
        close(j->fd);
    free(j->bytes);
    free(j->path);
    free(j);
}
