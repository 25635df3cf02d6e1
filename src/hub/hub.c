/* hub/hub.c - fetches a model from the hub: lists its files, downloads each into a work folder, opens the model there,
 * then renames the folder. One process at a time, by a lock file. */
#include "hub/hub.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "hub/internal.h"
#include "weights/weights.h"

#define DEFAULT_STALL_S 30

typedef struct fetch {
    mxw_fetch_options options;
    mx_hub_job job;
    const char *name;             /* as given by the user */
    int silero;                   /* Silero VAD, which is not on the hub but one file on GitHub */
    const mx_released *released;  /* NULL: a repository given by the user */
    char repository[200];         /* OWNER/NAME */
    char hub[1024];               /* no slash at the end */
    mx_str dir;                   /* the model folder */
    mx_str folder;                /* the model's own, in it */
    mx_str work;                  /* the work folder */
    int lock;
} fetch;

/* ---- what and where ------------------------------------------------------------------------------------------- */

static mxw_status choose_hub(fetch *f) {
    const char *hub = f->options.hub, *ours = getenv("MAX_WHISPER_HUB"), *theirs = getenv("HF_ENDPOINT");
    if (!hub || !*hub)
        hub = ours && *ours ? ours : f->silero ? MX_GITHUB_ADDRESS : theirs && *theirs ? theirs : MX_HUB_ADDRESS;
    size_t n = strlen(hub);
    while (n && hub[n - 1] == '/')
        n--;
    if ((strncmp(hub, "https://", 8) != 0 && strncmp(hub, "http://", 7) != 0) || n >= sizeof(f->hub))
        return mx_fail(MXW_E_ARGUMENT, "the hub's address '%.200s' does not begin with https:// or http://", hub);
    memcpy(f->hub, hub, n);
    f->hub[n] = 0;
    return MXW_OK;
}

static mxw_status choose_revision(fetch *f) {
    const char *revision = f->options.revision && *f->options.revision ? f->options.revision : "main";
    for (const char *p = revision; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
            return mx_fail(MXW_E_ARGUMENT, "revision '%.100s': only letters, digits and . _ - are allowed", revision);
    if (f->silero && (strcmp(revision, "main") != 0 || f->options.faster_whisper))
        return mx_fail(MXW_E_ARGUMENT, "model '%s' is one file, known by its SHA-256: it has neither revisions nor "
                       "formats", f->name);
    f->options.revision = revision;
    return MXW_OK;
}

static mxw_status choose_repository(fetch *f) {
    const char *repository = f->silero ? MX_SILERO_REPOSITORY : f->name;
    f->released = mx_released_find(f->name);
    if (f->released)
        repository = mx_released_repository(f->released, f->options.faster_whisper ? MX_BY_FASTER_WHISPER
                                                                                   : MX_BY_HUGGING_FACE, 0);
    else if (!f->silero && !mx_is_repository(f->name))
        return mx_fail(MXW_E_ARGUMENT, "'%.200s' is neither a released model nor OWNER/NAME of a repository on the hub",
                       f->name);
    if (!repository)
        return mx_fail(MXW_E_NOT_FOUND, "model '%s': no repository has it in that format", f->name);
    snprintf(f->repository, sizeof(f->repository), "%s", repository);
    return MXW_OK;
}

static mxw_status choose_folders(fetch *f) {
    char leaf[256];
    const char *slash = strchr(f->name, '/');
    if (f->released || f->silero)
        snprintf(leaf, sizeof(leaf), "%s", f->silero ? f->name : f->released->name);
    else
        snprintf(leaf, sizeof(leaf), "%.*s--%s", (int)(slash - f->name), f->name, slash + 1);
    mx_str_text(&f->dir, mx_model_dir(f->options.model_dir));
    mx_str_print(&f->folder, "%s/%s", mx_str_get(&f->dir), leaf);
    mx_str_print(&f->work, "%s/.%s.fetch", mx_str_get(&f->dir), leaf);
    return mx_str_status(&f->work) < 0 ? mx_str_status(&f->work) : mx_str_status(&f->folder);
}

/* mkdir -p */
static mxw_status make_folder(const char *path) {
    mx_str part = {0};
    mxw_status status = MXW_OK;
    for (const char *end = path; *end && status == MXW_OK; end += *end == '/') {
        end += strcspn(end, "/");
        mx_str_clear(&part);
        mx_str_add(&part, path, (size_t)(end - path));
        status = mx_str_status(&part);
        if (status == MXW_OK && part.n && mkdir(mx_str_get(&part), 0777) != 0 && errno != EEXIST)
            status = mx_fail(MXW_E_IO, "%s: cannot create this folder: %s", mx_str_get(&part), strerror(errno));
    }
    mx_str_free(&part);
    return status;
}

/* A lock on the open file, not its existence: it ends with the process, so a killed one leaves none behind. */
static mxw_status take_lock(fetch *f) {
    mx_str path = {0};
    mx_str_print(&path, "%s.lock", mx_str_get(&f->work));
    mxw_status status = mx_str_status(&path);
    if (status == MXW_OK) {
        f->lock = open(mx_str_get(&path), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (f->lock < 0)
            status = mx_fail(MXW_E_IO, "%s: cannot write: %s", mx_str_get(&path), strerror(errno));
        else if (flock(f->lock, LOCK_EX | LOCK_NB) != 0)
            status = mx_fail(MXW_E_STATE, "model '%s' is being fetched by another process (%s)", f->name,
                             mx_str_get(&path));
    }
    mx_str_free(&path);
    return status;
}

/* ---- download ---------------------------------------------------------------------------------------------------- */

/* Adds instructions for fetching by hand to the error line. */
static mxw_status add_instructions(const fetch *f, mxw_status status) {
    char why[400];
    snprintf(why, sizeof(why), "%.390s", mx_error());
    if (f->silero)
        return mx_fail(status, "%s; by hand: put " MX_SILERO_FILE " of the package silero-vad 6.2 (%s/%s) into %s", why,
                       f->hub, f->repository, mx_str_get(&f->folder));
    const char *files = f->options.faster_whisper ? "model.bin, config.json and vocabulary.*"
                                                  : "model.safetensors, config.json and generation_config.json";
    return mx_fail(status, "%s; by hand: put %s of %s/%s into %s, or set MAX_WHISPER_HUB to a mirror", why, files,
                   f->hub, f->repository, mx_str_get(&f->folder));
}

static mxw_status get_list(fetch *f, mx_arena *arena, mx_hub_list *list) {
    if (f->silero) {
        static mx_hub_file file = {MX_SILERO_FILE, MX_SILERO_BYTES, 1, MX_SILERO_SHA256};
        *list = (mx_hub_list){.files = &file, .n = 1, .bytes = MX_SILERO_BYTES};
        return MXW_OK;
    }
    mx_str url = {0}, text = {0};
    mx_str_print(&url, "%s/api/models/%s/revision/%s?blobs=true", f->hub, f->repository, f->options.revision);
    mxw_status status = mx_str_status(&url);
    if (status == MXW_OK)
        status = mx_hub_get_text(&f->job, mx_str_get(&url), &text);
    if (status == MXW_E_IO)
        status = add_instructions(f, status);
    if (status == MXW_OK) {
        status = mx_hub_list_parse((const uint8_t *)mx_str_get(&text), text.n, f->options.faster_whisper, arena, list);
        if (status < 0 && status != MXW_E_MEMORY)
            mx_fail_in(status, "%s/%s", f->hub, f->repository);
    }
    mx_str_free(&url);
    mx_str_free(&text);
    return status;
}

/* Whether an earlier run completed this file: the repository may have changed since, so the checksum decides. */
static int is_complete(const fetch *f, const mx_hub_file *file) {
    mx_map map = {0};
    mx_str path = {0};
    char sum[65] = "";
    mx_str_print(&path, "%s/%s", mx_str_get(&f->work), file->name);
    if (mx_str_status(&path) == MXW_OK && file->sha256 && mx_file_exists(mx_str_get(&path)) &&
        mx_map_open(mx_str_get(&path), &map) == MXW_OK) {
        mx_sha256 state;
        mx_sha256_start(&state);
        mx_sha256_add(&state, map.data, map.n);
        mx_sha256_hex(&state, sum);
        mx_map_close(&map);
    }
    mx_str_free(&path);
    return file->sha256 && strcmp(sum, file->sha256) == 0;
}

static mxw_status get_files(fetch *f, const mx_hub_list *list) {
    mxw_status status = MXW_OK;
    mx_str url = {0};
    f->job.total = list->bytes;
    for (size_t i = 0; i < list->n && status == MXW_OK; i++) {
        if (is_complete(f, &list->files[i])) {
            f->job.done += list->files[i].size;
            continue;
        }
        mx_str_clear(&url);
        if (f->silero)
            mx_str_print(&url, "%s/" MX_SILERO_REPOSITORY "/" MX_SILERO_PATH, f->hub);
        else
            mx_str_print(&url, "%s/%s/resolve/%s/%s", f->hub, f->repository,
                         list->commit[0] ? list->commit : f->options.revision, list->files[i].name);
        status = mx_str_status(&url);
        if (status == MXW_OK)
            status = mx_hub_get_file(&f->job, mx_str_get(&url), &list->files[i], mx_str_get(&f->work));
        if (status < 0 && status != MXW_E_ABORTED && status != MXW_E_MEMORY)
            mx_fail_in(status, "%s/%s", f->hub, f->repository);
        if (status == MXW_E_IO && f->silero)
            add_instructions(f, status);
    }
    mx_str_free(&url);
    return status;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void remove_folder(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* Removes files of another commit or format from an earlier run. */
static mxw_status remove_stale_files(const fetch *f, const mx_hub_list *list) {
    mx_str kept = {0};
    mx_str_print(&kept, "%s.kept", mx_str_get(&f->work));
    mxw_status status = mx_str_status(&kept);
    if (status == MXW_OK) {
        remove_folder(mx_str_get(&kept));
        status = make_folder(mx_str_get(&kept));
    }
    for (size_t i = 0; i < list->n && status == MXW_OK; i++) {
        mx_str from = {0}, to = {0};
        mx_str_print(&from, "%s/%s", mx_str_get(&f->work), list->files[i].name);
        mx_str_print(&to, "%s/%s", mx_str_get(&kept), list->files[i].name);
        if (rename(mx_str_get(&from), mx_str_get(&to)) != 0)
            status = mx_fail(MXW_E_IO, "%s: cannot rename: %s", mx_str_get(&from), strerror(errno));
        mx_str_free(&from);
        mx_str_free(&to);
    }
    if (status == MXW_OK) {
        remove_folder(mx_str_get(&f->work));
        if (rename(mx_str_get(&kept), mx_str_get(&f->work)) != 0)
            status = mx_fail(MXW_E_IO, "%s: cannot rename: %s", mx_str_get(&kept), strerror(errno));
    }
    mx_str_free(&kept);
    return status;
}

/* Opens the model once, then renames the folder; an existing one is exchanged atomically, so that there is a model at
 * every moment. */
static mxw_status install(fetch *f, mx_str *path) {
    mx_weights *w = NULL;
    const char *work = mx_str_get(&f->work), *folder = mx_str_get(&f->folder);
    mxw_status status = f->silero ? mx_silero_open(work, NULL, 16000, &w) : mx_weights_open(work, NULL, &w);
    mx_weights_close(w);
    if (status < 0)
        return mx_fail_in(status, "%s/%s", f->hub, f->repository);
    int there = mx_file_exists(folder);
    if ((there ? renameat2(AT_FDCWD, work, AT_FDCWD, folder, RENAME_EXCHANGE) : rename(work, folder)) != 0)
        return mx_fail(MXW_E_IO, "%s: cannot put it in place: %s", folder, strerror(errno));
    if (there)
        remove_folder(work);
    return f->silero ? mx_silero_locate(folder, NULL, path) : mx_model_locate(folder, NULL, path);
}

static mxw_status bring(fetch *f, mx_str *path) {
    mx_arena arena = {0};
    mx_hub_list list;
    const void *table = NULL;
    mxw_status status = mx_module_get("curl", &table);
    if (status < 0)
        return add_instructions(f, status);
    f->job.curl = table;
    MX_TRY(make_folder(mx_str_get(&f->dir)));
    MX_TRY(take_lock(f));
    MX_TRY(get_list(f, &arena, &list));
    MX_TRY(make_folder(mx_str_get(&f->work)));
    MX_TRY(get_files(f, &list));
    MX_TRY(remove_stale_files(f, &list));
    MX_TRY(install(f, path));
out:
    mx_arena_free(&arena);
    return status;
}

/* The model's path if it is already here; NOT_FOUND: it must be fetched. */
static mxw_status find_existing(const fetch *f, mx_str *path) {
    mxw_status status = f->silero ? mx_silero_locate(f->name, f->options.model_dir, path)
                        : f->released ? mx_model_find(f->released, f->options.model_dir, 0, path, NULL)
                                      : mx_model_find_repository(f->name, f->options.model_dir, path);
    if (status != MXW_OK || !f->options.again)
        return status;
    /* NAME.pt in the model folder would be found before the new folder. */
    size_t n = f->folder.n;
    if (strncmp(mx_str_get(path), mx_str_get(&f->folder), n) == 0 && strcmp(mx_str_get(path) + n, ".pt") == 0)
        return mx_fail(MXW_E_STATE, "%s is in the way: it would be found first; move it away", mx_str_get(path));
    return MXW_E_NOT_FOUND;
}

mxw_status mx_hub_fetch(const char *name, const mxw_fetch_options *options, mx_str *path) {
    fetch f = {.options = *options, .name = name, .lock = -1};
    mxw_status status;
    if (f.options.stall_s <= 0)
        f.options.stall_s = DEFAULT_STALL_S;
    f.job.options = &f.options;
    f.silero = strcmp(name, MXW_VAD_MODEL) == 0;
    MX_TRY(choose_hub(&f));
    if (!f.silero)   /* a token of the hub is nobody else's business */
        MX_TRY(mx_hub_login(f.hub, f.job.token));
    MX_TRY(choose_revision(&f));
    MX_TRY(choose_repository(&f));
    MX_TRY(choose_folders(&f));
    status = find_existing(&f, path);
    if (status == MXW_E_NOT_FOUND)
        status = bring(&f, path);
out:
    if (f.lock >= 0)
        close(f.lock);
    mx_str_free(&f.dir);
    mx_str_free(&f.folder);
    mx_str_free(&f.work);
    return status;
}
