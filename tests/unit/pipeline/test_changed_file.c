/* test_changed_file.c - the file of an open model is overwritten in place: sessions fail and say so, and give no text
 * that may be of two files; nor do manifests and conversions. A file that takes over its name does not matter. For
 * weights that are read while they are used (blocks of a GGUF file), and for each file of an index. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#define N_SAMPLES ((size_t)MXW_SAMPLE_RATE * 4)

static char folder[4096];
static float samples[N_SAMPLES];

static const char *at(const char *leaf) {
    static char path[4200];
    snprintf(path, sizeof(path), "%s/%s", folder, leaf);
    return path;
}

/* As if it had been written long ago: the clock of files stands still for some milliseconds. */
static void make_old(const char *path) {
    const struct timespec times[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    CHECK_EQ_INT(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* One byte near the end, which is among the weights, without truncating it. */
static void overwrite(const char *path) {
    uint8_t byte = 0;
    int fd = open(path, O_RDWR);
    off_t where = lseek(fd, -100, SEEK_END);
    CHECK(fd >= 0 && pread(fd, &byte, 1, where) == 1);
    byte ^= 1;
    CHECK(pwrite(fd, &byte, 1, where) == 1);
    close(fd);
}

static void expect_changed(mxw_status status, const char *path) {
    char line[4400];
    snprintf(line, sizeof(line), "%s: its size or time of modification changed while it was open: ", path);
    CHECK_EQ_INT(status, MXW_E_STATE);
    if (!CHECK(strncmp(mxw_last_error(), line, strlen(line)) == 0))
        printf("    %s\n", mxw_last_error());
}

static mxw_session *open_fed(mxw_model *model) {
    mxw_session *session = NULL;
    mxw_session_options o = kit_short_options(4);
    o.word_timestamps = 1;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, N_SAMPLES), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    return session;
}

/* The model at opened, of which `file` is overwritten while a session is open. */
static void test_overwritten(const char *opened, const char *file) {
    mxw_model *model = NULL;
    mxw_session *session, *late = NULL;
    mxw_session_options o = kit_short_options(4);
    const mxw_segment *segment;
    make_old(file);
    if (!CHECK_EQ_INT(kit_open(opened, 1, &model), MXW_OK)) {
        printf("    %s\n", mxw_last_error());
        return;
    }
    session = open_fed(model);
    overwrite(file);
    expect_changed(mxw_session_next(session, &segment), file);
    CHECK_EQ_INT(mxw_session_result(session)->n_segments, 0);
    mxw_session_close(session);
    expect_changed(mxw_session_open(model, &o, &late), file);
    CHECK(late == NULL);
    mxw_model_close(model);
    CHECK_EQ_INT(kit_open(opened, 1, &model), MXW_OK);   /* it is a file like any other now */
    session = open_fed(model);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_OK);
    mxw_session_close(session);
    mxw_model_close(model);
}

/* After its text, before its manifest is asked for. */
static void test_manifest(const char *path) {
    mxw_model *model = NULL;
    const mxw_segment *segment;
    const char *manifest = NULL;
    make_old(path);
    CHECK_EQ_INT(kit_open(path, 1, &model), MXW_OK);
    mxw_session *session = open_fed(model);
    mxw_status status;
    while ((status = mxw_session_next(session, &segment)) == MXW_OK)
        ;
    CHECK_EQ_INT(status, MXW_END);
    overwrite(path);
    for (int i = 0; i < 2; i++)   /* also when it is asked for again */
        expect_changed(mxw_session_manifest(session, &manifest), path);
    CHECK(manifest == NULL);
    mxw_session_close(session);
    mxw_model_close(model);
}

static int overwrite_meanwhile(void *user, const char *tensor, uint64_t done, uint64_t total) {
    if (done < total / 2)
        overwrite(user);
    return 0;
}

/* While it is converted: no file is written. */
static void test_converted(const char *path) {
    mxw_checkpoint *checkpoint = NULL;
    mxw_convert_options o;
    char out[4200];
    mxw_convert_options_default(&o);
    o.format = "npz";
    o.progress = overwrite_meanwhile;
    o.user = (void *)(uintptr_t)path;
    snprintf(out, sizeof(out), "%s", at("out.npz"));
    make_old(path);
    CHECK_EQ_INT(mxw_checkpoint_open(path, NULL, &checkpoint), MXW_OK);
    expect_changed(mxw_checkpoint_convert(checkpoint, out, &o), path);
    CHECK(access(out, F_OK) != 0);
    mxw_checkpoint_close(checkpoint);
}

/* Another file under its name: sessions go on with the one that was opened, and their manifests name that. */
static void test_replaced(const char *path, const char *other) {
    mxw_model *model = NULL;
    mxw_checkpoint *checkpoint = NULL;
    mxw_session *session;
    const char *manifest = "";
    char sha256[65] = "?";
    mx_str before = {0}, after = {0};
    mxw_session_options o = kit_short_options(4);
    CHECK_EQ_INT(mxw_checkpoint_open(path, NULL, &checkpoint), MXW_OK);
    CHECK_EQ_INT(mxw_checkpoint_sha256(checkpoint, sha256, NULL), MXW_OK);
    mxw_checkpoint_close(checkpoint);
    CHECK_EQ_INT(kit_open(path, 1, &model), MXW_OK);
    CHECK_EQ_INT(kit_transcribe(model, &o, samples, N_SAMPLES, &before), MXW_OK);
    CHECK_EQ_INT(rename(other, path), 0);
    if (!CHECK_EQ_INT(kit_transcribe(model, &o, samples, N_SAMPLES, &after), MXW_OK))
        printf("    %s\n", mxw_last_error());
    CHECK_STR(mx_str_get(&after), mx_str_get(&before));
    session = open_fed(model);
    CHECK_EQ_INT(mxw_session_manifest(session, &manifest), MXW_OK);
    CHECK(strstr(manifest, sha256) != NULL);
    mxw_session_close(session);
    mx_str_free(&before);
    mx_str_free(&after);
    mxw_model_close(model);
}

static int n_descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

int main(void) {
    char blocks[4200], other[4200], index[4200], shard[4200];
    gen_options o = {.dims = kit_dims(51864, 32, 1, 1), .seed = 8, .blocks = "q5_0"};
    kit_on("changed-file", "max cpu");
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_samples(3, 0, N_SAMPLES, samples);
    int n = n_descriptors();
    snprintf(blocks, sizeof(blocks), "%s", at("blocks.gguf"));
    snprintf(other, sizeof(other), "%s", at("other.gguf"));
    CHECK_EQ_INT(gen_gguf(blocks, &o), 0);
    test_overwritten(blocks, blocks);
    test_manifest(blocks);
    test_converted(blocks);
    o.seed = 9;
    CHECK_EQ_INT(gen_gguf(other, &o), 0);
    test_replaced(blocks, other);
    o.blocks = NULL;
    o.shards = 2;
    CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
    snprintf(index, sizeof(index), "%s", at("hf/model.safetensors.index.json"));
    snprintf(shard, sizeof(shard), "%s", at("hf/model-00002-of-00002.safetensors"));
    test_overwritten(index, shard);
    CHECK_EQ_INT(n_descriptors(), n);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
