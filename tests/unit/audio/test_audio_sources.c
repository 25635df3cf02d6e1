/* test_audio_sources.c - audio from a path, from memory and from callbacks: the same samples from each, with short
 * reads, without seek, truncated; one line for a callback that fails, and for every failed allocation. Compressed files
 * need the ffmpeg command and module, and are skipped without them. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/module.h"
#include "base/status.h"
#include "kit/check.h"
#include "wav_bytes.h"

#define N_PCM 50000

static char folder[] = "/tmp/mxw-test-sources-XXXXXX";

/* ---- a stream over bytes in memory ---- */

typedef struct stream {
    const bytes *from;
    size_t at, most;      /* most: bytes in one read */
    int64_t fails_at;     /* no read succeeds from this offset on; -1: all do */
    int seeks_fail;
} stream;

static int64_t read_stream(void *user, void *to, size_t n) {
    stream *s = user;
    size_t left = s->from->n - (s->at < s->from->n ? s->at : s->from->n);
    if (s->fails_at >= 0 && (int64_t)s->at >= s->fails_at)
        return -1;
    n = MX_MIN(MX_MIN(n, left), s->most);
    memcpy(to, s->from->data + s->at, n);
    s->at += n;
    return (int64_t)n;
}

/* Refuses what lies past the end, as some do. */
static int64_t seek_stream(void *user, int64_t offset, int whence) {
    stream *s = user;
    offset += whence == SEEK_END ? (int64_t)s->from->n : 0;
    if (s->seeks_fail || offset < 0 || offset > (int64_t)s->from->n)
        return -1;
    s->at = (size_t)offset;
    return offset;
}

/* ---- reading ---- */

/* All samples as bytes. */
static mxw_status read_all(const mxw_audio_options *options, bytes *out) {
    float block[4096];
    size_t got = 1;
    mxw_audio *audio = NULL;
    *out = (bytes){NULL, 0};
    mxw_status status = mxw_audio_open(options, &audio);
    while (status >= 0 && got > 0) {
        status = mxw_audio_read(audio, block, MX_COUNT(block), &got);
        if (status >= 0)
            put(out, block, got * sizeof(float));
    }
    mxw_audio_close(audio);
    return status;
}

static mxw_audio_options from_path(const char *path) {
    mxw_audio_options options;
    mxw_audio_options_default(&options);
    options.path = path;
    return options;
}

static mxw_audio_options from_memory(const bytes *b) {
    mxw_audio_options options;
    mxw_audio_options_default(&options);
    options.data = b->data;
    options.size = b->n;
    options.name = "the recording";
    return options;
}

static mxw_audio_options from_stream(stream *s, int seekable) {
    mxw_audio_options options;
    mxw_audio_options_default(&options);
    options.read = read_stream;
    options.seek = seekable ? seek_stream : NULL;
    options.user = s;
    options.name = "the recording";
    return options;
}

static void expect(const char *what, const char *name, const mxw_audio_options *options, mxw_status want_status,
                   const bytes *want) {
    bytes got;
    mxw_status status = read_all(options, &got);
    if (!CHECK(status == want_status && (status < 0 || (got.n == want->n && !memcmp(got.data, want->data, got.n)))))
        printf("    %s, %s: status %d, %zu of %zu bytes of samples: %s\n", name, what, (int)status, got.n, want->n,
               mxw_last_error());
    free(got.data);
    CHECK_EQ_INT(mx_mem_live(), 0);
}

/* A pipe, which is what callbacks without seek are. FFmpeg reads some formats otherwise if it cannot seek. */
static mxw_status read_pipe(const char *path, bytes *out) {
    char command[700], name[40];
    snprintf(command, sizeof(command), "cat '%s'", path);
    FILE *pipe = popen(command, "r");
    snprintf(name, sizeof(name), "/proc/self/fd/%d", pipe ? fileno(pipe) : -1);
    mxw_audio_options options = from_path(name);
    mxw_status status = read_all(&options, out);
    if (pipe)
        pclose(pipe);
    return status;
}

/* Memory and callbacks give what the path gives, callbacks without seek what a pipe gives. */
static void check_sources(const char *name, const char *path, const bytes *file) {
    static const size_t most[] = {1 << 20, 1000, 7, 1};
    bytes want;
    mxw_audio_options options = from_path(path);
    mxw_status status = read_all(&options, &want);
    options = from_memory(file);
    expect("memory", name, &options, status, &want);
    for (int seekable = 1; seekable >= 0; seekable--) {
        for (size_t i = 0; i < MX_COUNT(most); i++) {
            stream s = {file, 0, most[i], -1, 0};
            options = from_stream(&s, seekable);
            expect(seekable ? "callbacks" : "callbacks without seek", name, &options, status, &want);
        }
        free(want.data);
        if (seekable)
            status = read_pipe(path, &want);
    }
}

/* A callback that fails: E_IO, one line with the name, whatever was read before. */
static void check_failures(const char *name, const bytes *file) {
    static const char read_failed[] = "the recording: the read callback failed";
    for (int seekable = 0; seekable < 2; seekable++)
        for (size_t i = 0; i < 12; i++) {
            bytes got;
            stream s = {file, 0, 512, (int64_t)(file->n * i / 12), 0};
            mxw_audio_options options = from_stream(&s, seekable);
            mxw_status status = read_all(&options, &got);
            /* The end of a seekable file may lie before the failure, in what its reader needs. */
            int fails = s.at >= (size_t)s.fails_at;
            if (fails && !CHECK(status == MXW_E_IO && !strcmp(mxw_last_error(), read_failed)))
                printf("    %s, read fails at %lld: status %d: %s\n", name, (long long)s.fails_at, (int)status,
                       mxw_last_error());
            free(got.data);
            CHECK_EQ_INT(mx_mem_live(), 0);
        }
    stream s = {file, 0, 512, -1, 1};
    mxw_audio_options options = from_stream(&s, 1);
    bytes got;
    CHECK_EQ_INT(read_all(&options, &got), MXW_E_IO);
    CHECK_STR(mxw_last_error(), "the recording: the seek callback failed");
    free(got.data);
}

static void check_memory(const char *name, const bytes *file, int seekable) {
    for (int64_t n = 0;; n++) {
        bytes got;
        stream s = {file, 0, 4096, -1, 0};
        mxw_audio_options options = from_stream(&s, seekable);
        mx_mem_fail_after(n);
        mxw_status status = read_all(&options, &got);
        int64_t made = mx_mem_count();
        mx_mem_fail_after(-1);
        free(got.data);
        if (!CHECK_EQ_INT(mx_mem_live(), 0) || !CHECK(made > n ? status == MXW_E_MEMORY : status >= 0))
            printf("    %s: allocation %lld: status %d: %s\n", name, (long long)n, (int)status, mxw_last_error());
        if (made <= n || n > 1000)
            break;
    }
}

static void check_file(const char *name, const bytes *file) {
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    check_sources(name, path, file);
    check_failures(name, file);
    for (int seekable = 0; seekable < 2; seekable++)
        check_memory(name, file, seekable);
    const size_t ends[] = {file->n * 7 / 10, file->n - 10};   /* the same of a file that ends early */
    for (size_t i = 0; i < MX_COUNT(ends); i++) {
        bytes cut = {file->data, ends[i]};
        snprintf(path, sizeof(path), "%s/cut-%s", folder, name);
        save(path, cut);
        check_sources("cut", path, &cut);
    }
}

/* ---- the files ---- */

static void test_wav(void) {
    static int16_t pcm[N_PCM];
    static const wav_spec specs[] = {{.tag = 1, .channels = 1, .rate = 16000, .bits = 16},
                                     {.tag = 1, .channels = 2, .rate = 44100, .bits = 16, .list_after = 30},
                                     {.tag = 1, .channels = 2, .rate = 16000, .bits = 16, .list_after = 30},
                                     {.tag = 1, .channels = 1, .rate = 8000, .bits = 16, .junk_before = 100}};
    for (int i = 0; i < N_PCM; i++)
        pcm[i] = (int16_t)(i * 7919 % 20001 - 10000);
    for (size_t i = 0; i < MX_COUNT(specs); i++) {
        char name[40], path[600];
        bytes file = make_wav(specs[i], pcm, sizeof(pcm));
        snprintf(name, sizeof(name), "%zu.wav", i);
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        save(path, file);
        check_file(name, &file);
        free(file.data);
    }
}

static bytes load(const char *path) {
    bytes b = {NULL, 0};
    char block[4096];
    size_t got;
    FILE *file = fopen(path, "rb");
    while (file && (got = fread(block, 1, sizeof(block), file)) > 0)
        put(&b, block, got);
    if (file)
        fclose(file);
    return b;
}

static void test_compressed(void) {
    static const char *const names[] = {"a.flac", "a.mp3", "a.m4a", "a.mkv"};   /* the m4a has its index at its end */
    const void *table;
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        char command[1200], path[600];
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        snprintf(command, sizeof(command), "ffmpeg -v quiet -nostdin -f lavfi -i %s -ac 2 %s",
                 "anoisesrc=r=44100:d=1:a=0.3:s=7", path);
        if (mx_module_get("ffmpeg", &table) < 0 || system(command) != 0) {
            printf("SKIP: %s: no FFmpeg module, or the command does not make it\n", names[i]);
            continue;
        }
        bytes file = load(path);
        check_sources(names[i], path, &file);
        check_failures(names[i], &file);
        free(file.data);
    }
}

static void test_options(void) {
    static const char none[1] = "";
    bytes empty = {(uint8_t *)(uintptr_t)none, 0}, got;
    stream s = {&empty, 0, 1, -1, 0};
    mxw_audio_options options = from_memory(&empty);
    mxw_audio_info info = {.struct_size = sizeof(info)};
    mxw_audio *audio;
    CHECK_EQ_INT(read_all(&options, &got), MXW_E_FORMAT);
    CHECK_STR(mxw_last_error(), "the recording: is empty");
    options.name = NULL;
    CHECK_EQ_INT(read_all(&options, &got), MXW_E_FORMAT);
    CHECK_STR(mxw_last_error(), "audio in memory: is empty");
    options.path = "x.wav";
    CHECK(mxw_audio_open(&options, &audio) == MXW_E_ARGUMENT && strstr(mxw_last_error(), "more than one of"));
    options = from_stream(&s, 1);
    options.read = NULL;
    CHECK(mxw_audio_open(&options, &audio) == MXW_E_ARGUMENT);
    mxw_audio_options_default(&options);
    CHECK(mxw_audio_open(&options, &audio) == MXW_E_ARGUMENT && strstr(mxw_last_error(), "path: no file was given"));
    int16_t pcm[3] = {1, 2, 3};
    bytes wav = make_wav((wav_spec){.tag = 1, .channels = 1, .rate = 16000, .bits = 16}, pcm, sizeof(pcm));
    options = from_memory(&wav);
    if (CHECK_EQ_INT(mxw_audio_open(&options, &audio), MXW_OK)) {
        CHECK_EQ_INT(mxw_audio_get_info(audio, &info), MXW_OK);
        CHECK_STR(info.path, "the recording");
        CHECK_STR(info.codec, "pcm_s16le");
        CHECK(info.duration_s == 3.0 / 16000);
    }
    mxw_audio_close(audio);
    free(wav.data);
}

int main(void) {
    char command[700];
    if (!mkdtemp(folder))
        return 1;
    test_options();
    test_wav();
    test_compressed();
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    CHECK(system(command) == 0);
    return check_done();
}
