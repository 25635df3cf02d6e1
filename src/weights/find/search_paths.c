/* weights/find/search_paths.c - where a model may be on this machine: our own folder, then the caches of
 * openai-whisper, Hugging Face's libraries, faster-whisper, whisper.cpp, transcribe.cpp and MLX. Nothing is ever
 * written to those. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "weights/store.h"

#define OURS "max-whisper"
#define OPENAI "openai-whisper"
#define HUGGING_FACE "Hugging Face"
#define FASTER "faster-whisper"
#define WHISPER_CPP "whisper.cpp"
#define TRANSCRIBE_CPP "transcribe.cpp"
#define MLX "MLX"
#define WHISPER_CPP_REPOSITORY "ggerganov/whisper.cpp"   /* its files are ggml-NAME.bin */

#define MAX_NAME 96   /* of an owner or a repository on the hub */

/* ---- caches of other programs -------------------------------------------------------------------------- */

/* $XDG_CACHE_HOME, else ~/.cache: the parent of all of them. A relative variable is ignored, as specified. */
static void cache_home(mx_str *out) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        mx_str_text(out, cache);
    else
        mx_str_print(out, "%s/.cache", home ? home : "");
}

/* Hugging Face's folder of repositories, by the variables that its libraries read, in their order. */
static void hub_cache(mx_str *out) {
    static const struct {
        const char *variable, *below;
    } rows[] = {{"HF_HUB_CACHE", ""}, {"HUGGINGFACE_HUB_CACHE", ""}, {"HF_HOME", "/hub"}};
    for (size_t i = 0; i < MX_COUNT(rows); i++) {
        const char *value = getenv(rows[i].variable);
        if (value && *value) {
            mx_str_print(out, "%s%s", value, rows[i].below);
            return;
        }
    }
    cache_home(out);
    mx_str_text(out, "/huggingface/hub");
}

static int plain_revision(const char *text) {
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]))
            return 0;
    return n > 0 && n <= 64;
}

/* The commit that refs/main names; empty if there is none. */
static void main_revision(const char *repository, char revision[80]) {
    char path[4096];
    revision[0] = 0;
    int n = snprintf(path, sizeof(path), "%s/refs/main", repository);
    FILE *file = n > 0 && n < (int)sizeof(path) ? fopen(path, "rb") : NULL;
    if (!file)
        return;
    size_t got = fread(revision, 1, 79, file);
    fclose(file);
    revision[got] = 0;
    revision[strcspn(revision, " \r\n")] = 0;
    if (!plain_revision(revision))
        revision[0] = 0;
}

static mxw_status if_file(const mx_str *path) {
    if (mx_str_status(path) < 0)
        return mx_str_status(path);
    return mx_file_exists(mx_str_get(path)) && !mx_file_is_dir(mx_str_get(path)) ? MXW_OK : MXW_E_NOT_FOUND;
}

/* The file `leaf` of one snapshot, or, if that is NULL, its weights; E_NOT_FOUND if it has none (only a tokenizer, or
 * an unfinished download). */
static mxw_status look_in_snapshot(const char *repository, const char *revision, const char *leaf, mx_str *path) {
    mx_str folder = {0};
    mx_str_print(&folder, "%s/snapshots/%s", repository, revision);
    mxw_status status = mx_str_status(&folder);
    if (status == MXW_OK && leaf) {
        mx_str_clear(path);
        mx_str_print(path, "%s/%s", mx_str_get(&folder), leaf);
        status = if_file(path);
    } else if (status == MXW_OK) {
        status = mx_file_is_dir(mx_str_get(&folder)) ? mx_look_in_folder(mx_str_get(&folder), path)
                                                     : MXW_E_NOT_FOUND;
    }
    mx_str_free(&folder);
    return status == MXW_E_MEMORY || status == MXW_OK ? status : MXW_E_NOT_FOUND;
}

/* The newest snapshot that has weights, for a cache without refs/main (a revision was requested by its hash). */
static mxw_status newest_snapshot(const char *repository, const char *leaf, mx_str *path) {
    char best[NAME_MAX + 1] = "";
    struct timespec newest = {0};
    mx_str folder = {0};
    mx_str_print(&folder, "%s/snapshots", repository);
    DIR *dir = mx_str_status(&folder) == MXW_OK ? opendir(mx_str_get(&folder)) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (!plain_revision(entry->d_name) || look_in_snapshot(repository, entry->d_name, leaf, path) != MXW_OK ||
            stat(mx_str_get(path), &st) != 0)
            continue;
        if (!best[0] || st.st_mtim.tv_sec > newest.tv_sec ||
            (st.st_mtim.tv_sec == newest.tv_sec && strcmp(entry->d_name, best) > 0)) {
            newest = st.st_mtim;
            snprintf(best, sizeof(best), "%s", entry->d_name);
        }
    }
    if (dir)
        closedir(dir);
    mx_str_free(&folder);
    return best[0] ? look_in_snapshot(repository, best, leaf, path) : MXW_E_NOT_FOUND;
}

static mxw_status look_in_hub(const char *name, const char *leaf, mx_str *path) {
    const char *slash = strchr(name, '/');
    char revision[80];
    mx_str repository = {0};
    hub_cache(&repository);
    mx_str_print(&repository, "/models--%.*s--%s", (int)(slash - name), name, slash + 1);
    mxw_status status = mx_str_status(&repository);
    if (status == MXW_OK) {
        main_revision(mx_str_get(&repository), revision);
        status = revision[0] ? look_in_snapshot(mx_str_get(&repository), revision, leaf, path)
                             : MXW_E_NOT_FOUND;
        if (status == MXW_E_NOT_FOUND)
            status = newest_snapshot(mx_str_get(&repository), leaf, path);
    }
    mx_str_free(&repository);
    return status;
}

static mxw_status look_in_openai(const char *name, mx_str *path) {
    mx_str_clear(path);
    cache_home(path);
    mx_str_print(path, "/whisper/%s.pt", name);
    return if_file(path);
}

/* whisper.cpp itself has no cache; its Python binding has a folder for data, and its files are on the hub. */
static mxw_status look_in_whisper_cpp(const char *name, int on_hub, mx_str *path) {
    char leaf[MAX_NAME + 16];
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (strlen(name) > MAX_NAME)
        return MXW_E_NOT_FOUND;
    snprintf(leaf, sizeof(leaf), "ggml-%s.bin", name);
    if (on_hub)
        return look_in_hub(WHISPER_CPP_REPOSITORY, leaf, path);
    mx_str_clear(path);
    if (data && *data == '/')
        mx_str_text(path, data);
    else
        mx_str_print(path, "%s/.local/share", home ? home : "");
    mx_str_print(path, "/pywhispercpp/models/%s", leaf);
    return if_file(path);
}

/* The types that have a released model's own values, not only near ones: what a name without a type means. */
static const char *const gguf_exact[] = {"F32", "F16"};

/* Of LEAF-gguf, the file LEAF-TYPE.gguf. */
static mxw_status look_in_transcribe_cpp(const mx_released *r, const char *type, mx_str *path) {
    const char *repository = mx_released_repository(r, MX_BY_TRANSCRIBE_CPP, 0);
    char leaf[2 * MAX_NAME];
    if (!repository || strlen(type) > 16)
        return MXW_E_NOT_FOUND;
    const char *name = strchr(repository, '/') + 1;
    snprintf(leaf, sizeof(leaf), "%.*s-%s.gguf", (int)(strlen(name) - strlen("-gguf")), name, type);
    return look_in_hub(repository, leaf, path);
}

/* Repository `which` of MLX's, with a suffix for the quantized ones: "-4bit". */
static mxw_status look_in_mlx(const mx_released *r, int which, const char *suffix, mx_str *path) {
    const char *repository = mx_released_repository(r, MX_BY_MLX, which);
    char name[2 * MAX_NAME];
    if (!repository || strlen(suffix) > 16)
        return MXW_E_NOT_FOUND;
    snprintf(name, sizeof(name), "%s%s", repository, suffix);
    return look_in_hub(name, NULL, path);
}

/* ---- the search ------------------------------------------------------------------------------------------ */

/* Candidate `k` in the caches of other programs: E_NOT_FOUND if there is nothing; *source is NULL past the last. */
static mxw_status look_in_caches(const mx_released *r, int k, mx_str *path, const char **source) {
    const char *repository = NULL;
    *source = OPENAI;
    if (k-- == 0)
        return look_in_openai(r->name, path);
    for (int by = MX_BY_HUGGING_FACE; by <= MX_BY_FASTER_WHISPER; by++) {
        *source = by == MX_BY_HUGGING_FACE ? HUGGING_FACE : FASTER;
        for (int n = 0; (repository = mx_released_repository(r, (mx_publisher)by, n)); n++)
            if (k-- == 0)
                return look_in_hub(repository, NULL, path);
    }
    *source = WHISPER_CPP;
    for (int on_hub = 0; on_hub < 2; on_hub++)
        if (k-- == 0)
            return look_in_whisper_cpp(r->name, on_hub, path);
    *source = TRANSCRIBE_CPP;
    for (size_t type = 0; type < MX_COUNT(gguf_exact); type++)
        if (k-- == 0)
            return look_in_transcribe_cpp(r, gguf_exact[type], path);
    *source = MLX;
    for (int n = 0; mx_released_repository(r, MX_BY_MLX, n); n++)
        if (k-- == 0)
            return look_in_mlx(r, n, "", path);
    *source = NULL;
    return MXW_E_NOT_FOUND;
}

/* Candidate `i` of a released model, in the same way. */
static mxw_status look_at(const mx_released *r, const char *model_dir, int i, mx_str *path, const char **source) {
    *source = OURS;
    if (i == 0)
        return mx_look_by_name(mx_model_dir(model_dir), r->name, path);
    if (i == 1)
        return r->alias ? mx_look_by_name(mx_model_dir(model_dir), r->alias, path) : MXW_E_NOT_FOUND;
    *source = NULL;
    return model_dir && *model_dir ? MXW_E_NOT_FOUND : look_in_caches(r, i - 2, path, source);
}

mxw_status mx_model_find(const mx_released *r, const char *model_dir, int which, mx_str *path, const char **source) {
    const char *whose = OURS;
    for (int i = 0; whose; i++) {
        mxw_status status = look_at(r, model_dir, i, path, &whose);
        if (status == MXW_E_NOT_FOUND || (status == MXW_OK && which-- > 0))
            continue;
        if (source)
            *source = whose;
        return status;
    }
    return MXW_E_NOT_FOUND;
}

int mx_is_repository(const char *text) {
    const char *slash = strchr(text, '/');
    if (!slash || slash == text || !slash[1] || strchr(slash + 1, '/') || slash - text > MAX_NAME ||
        strlen(slash + 1) > MAX_NAME || *text == '.' || slash[1] == '.')
        return 0;
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("-_./", *p))
            return 0;
    return !strstr(text, "--") && !strstr(text, "..");
}

mxw_status mx_model_find_repository(const char *repository, const char *model_dir, mx_str *path) {
    char name[2 * MAX_NAME + 8];
    const char *slash = strchr(repository, '/');
    snprintf(name, sizeof(name), "%.*s--%s", (int)(slash - repository), repository, slash + 1);
    mxw_status status = mx_look_by_name(mx_model_dir(model_dir), name, path);
    if (status == MXW_E_NOT_FOUND && !(model_dir && *model_dir))
        status = look_in_hub(repository, NULL, path);
    return status;
}

mxw_status mx_look_for_name(const char *name, const char *model_dir, mx_str *path) {
    mxw_status status = mx_look_by_name(mx_model_dir(model_dir), name, path);
    for (int on_hub = 0; on_hub < 2 && status == MXW_E_NOT_FOUND && !(model_dir && *model_dir); on_hub++)
        status = look_in_whisper_cpp(name, on_hub, path);
    const char *dash = strrchr(name, '-');   /* "tiny.en-Q8_0" */
    char base[MAX_NAME] = "";
    if (dash && dash - name < MAX_NAME)
        memcpy(base, name, (size_t)(dash - name));
    const mx_released *r = mx_released_find(base);
    if (status == MXW_E_NOT_FOUND && r && !(model_dir && *model_dir))
        status = look_in_transcribe_cpp(r, dash + 1, path);
    for (int n = 0; status == MXW_E_NOT_FOUND && r && !(model_dir && *model_dir); n++) {   /* "tiny-4bit" */
        if (!mx_released_repository(r, MX_BY_MLX, n))
            break;
        status = look_in_mlx(r, n, dash, path);
    }
    return status;
}
