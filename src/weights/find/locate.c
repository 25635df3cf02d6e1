/* weights/find/locate.c - resolves a model's name or path to a file. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "weights/format/cursor.h"
#include "weights/store.h"

/* The weights of a model folder, in order of preference; else its only .pt; else its only file of the other endings
 * that is a checkpoint by its first bytes. */
static const char *const folder_files[] = {
    "model.bin", "model.safetensors", "model.safetensors.index.json", "model.safetensors.index.fp32.json",
    "weights.safetensors", "weights.npz", "pytorch_model.bin", "pytorch_model.bin.index.json"};
static const char *const other_suffixes[] = {".bin", ".gguf", ".safetensors", ".npz"};
#define PT_SUFFIX ".pt"
#define PROBE_BYTES 64

const char *mx_model_dir(const char *option) {
    static _Thread_local char dir[4096];
    const char *variable = getenv("MAX_WHISPER_MODELS"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (option == dir)   /* the result of an earlier call */
        return dir;
    if (option && *option)
        snprintf(dir, sizeof(dir), "%s", option);
    else if (variable && *variable)
        snprintf(dir, sizeof(dir), "%s", variable);
    else if (cache && *cache == '/')   /* the XDG specification says to ignore a relative one */
        snprintf(dir, sizeof(dir), "%s/max-whisper/models", cache);
    else
        snprintf(dir, sizeof(dir), "%s/.cache/max-whisper/models", home ? home : "");
    return dir;
}

static int is_file(const char *path) { return mx_file_exists(path) && !mx_file_is_dir(path); }

static mxw_status set_path(mx_str *path, const char *folder, const char *leaf, const char *suffix) {
    mx_str_clear(path);
    mx_str_print(path, "%s/%s%s", folder, leaf, suffix);
    return mx_str_status(path);
}

static int ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

static int is_other(const char *folder, const char *name) {
    uint8_t bytes[PROBE_BYTES];
    char path[4096];
    size_t n = 0;
    int suffix = 0;
    for (size_t i = 0; i < MX_COUNT(other_suffixes); i++)
        suffix |= ends_in(name, other_suffixes[i]);
    int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = suffix && length > 0 && length < (int)sizeof(path) && is_file(path) ? fopen(path, "rb") : NULL;
    if (file) {
        n = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
    }
    return n && mx_is_checkpoint(bytes, n);
}

/* Files of the folder that are .pt, or that are another checkpoint; the path of the first. */
static mxw_status scan_folder(const char *folder, int other, int *found, mx_str *path) {
    mxw_status status = MXW_OK;
    DIR *dir = opendir(folder);
    *found = 0;
    if (!dir)
        return mx_fail(MXW_E_IO, "%s: cannot read the folder", folder);
    for (struct dirent *entry; status == MXW_OK && (entry = readdir(dir));) {
        if (other ? !is_other(folder, entry->d_name) : !ends_in(entry->d_name, PT_SUFFIX))
            continue;
        if (++*found == 1)
            status = set_path(path, folder, entry->d_name, "");
    }
    closedir(dir);
    return status;
}

mxw_status mx_look_in_folder(const char *folder, mx_str *path) {
    int found = 0, other = 0;
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < MX_COUNT(folder_files); i++) {
        status = set_path(path, folder, folder_files[i], "");
        if (status < 0 || is_file(mx_str_get(path)))
            return status;
    }
    status = scan_folder(folder, 0, &found, path);
    if (status == MXW_OK && found == 0) {
        other = 1;
        status = scan_folder(folder, 1, &found, path);
    }
    if (status < 0)
        return status;
    if (found == 0)
        return mx_fail(MXW_E_NOT_FOUND, "%s: no model.bin, model.safetensors, .pt or other checkpoint in this folder",
                       folder);
    if (found > 1)
        return mx_fail(MXW_E_ARGUMENT, "%s: %d %s in this folder; name one of them", folder, found,
                       other ? "checkpoints" : ".pt files");
    return MXW_OK;
}

mxw_status mx_look_by_name(const char *dir, const char *name, mx_str *path) {
    mxw_status status = set_path(path, dir, name, PT_SUFFIX);
    if (status < 0 || is_file(mx_str_get(path)))
        return status;
    mx_str_clear(path);
    mx_str_print(path, "%s/ggml-%s.bin", dir, name);
    if (mx_str_status(path) < 0 || is_file(mx_str_get(path)))
        return mx_str_status(path);
    status = set_path(path, dir, name, ".gguf");
    if (status < 0 || is_file(mx_str_get(path)))
        return status;
    status = set_path(path, dir, name, "");
    if (status < 0 || !mx_file_is_dir(mx_str_get(path)))
        return status < 0 ? status : MXW_E_NOT_FOUND;
    char *folder = mx_strdup(mx_str_get(path));
    if (!folder)
        return MXW_E_MEMORY;
    status = mx_look_in_folder(folder, path);
    mx_free(folder);
    return status;
}

/* Edit distance of two short names. */
static int distance(const char *a, const char *b) {
    int row[64], n = (int)strlen(b);
    if (n > 60)
        return n;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = MX_MIN(change, MX_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[n];
}

static mxw_status unknown(const char *name) {
    const char *nearest = "tiny.en";
    int best = 1 << 20;
    const mx_released *r;
    for (int i = 0; (r = mx_released_get(i)); i++)
        for (int k = 0; k < (r->alias ? 2 : 1); k++) {
            int d = distance(name, k ? r->alias : r->name);
            if (d < best) {
                best = d;
                nearest = k ? r->alias : r->name;
            }
        }
    return mx_fail(MXW_E_NOT_FOUND, "model '%s' is neither a file nor a folder nor a released name; did you mean '%s'?",
                   mx_show(name, strlen(name)).text, nearest);
}

static mxw_status fail_not_found(const char *name, const char *model_dir) {
    const char *beside = model_dir && *model_dir ? "" : ", nor in the caches of openai-whisper, Hugging Face, "
                                                        "faster-whisper, whisper.cpp, transcribe.cpp and MLX";
    return mx_fail(MXW_E_NOT_FOUND, "model '%s' is not in %s (looked for %s.pt and a folder %s)%s; "
                   "`max-whisper model fetch %s` gets it", name, mx_model_dir(model_dir), name, name, beside, name);
}

mxw_status mx_model_locate(const char *name_or_path, const char *model_dir, mx_str *path) {
    if (!*name_or_path)
        return mx_fail(MXW_E_ARGUMENT, "the model's name is empty");
    if (strcmp(name_or_path, MXW_VAD_MODEL) == 0 && !mx_file_exists(name_or_path))
        return mx_fail(MXW_E_ARGUMENT, "model '" MXW_VAD_MODEL "' detects speech; it does not transcribe");
    const mx_released *r = mx_released_find(name_or_path);
    int is_name = !strchr(name_or_path, '/') && strcmp(name_or_path, ".") != 0 && strcmp(name_or_path, "..") != 0;
    mxw_status status = MXW_E_NOT_FOUND;
    /* A name is looked up first, so that a file of that name in the working folder does not matter. */
    if (r)
        status = mx_model_find(r, model_dir, 0, path, NULL);
    if (!r && is_name && !mx_file_exists(name_or_path))
        status = mx_look_for_name(name_or_path, model_dir, path);
    if (status != MXW_E_NOT_FOUND)
        return status;
    if (mx_file_is_dir(name_or_path))
        return mx_look_in_folder(name_or_path, path);
    if (mx_file_exists(name_or_path)) {
        mx_str_clear(path);
        mx_str_text(path, name_or_path);
        return mx_str_status(path);
    }
    if (r)
        return fail_not_found(r->name, model_dir);
    if (is_name)
        return unknown(name_or_path);
    if (!mx_is_repository(name_or_path))
        return mx_fail(MXW_E_NOT_FOUND, "%s: no such file or folder", name_or_path);
    status = mx_model_find_repository(name_or_path, model_dir, path);
    return status == MXW_E_NOT_FOUND ? mx_fail(status, "%s: no such file or folder, and no such model of the Hugging "
                                               "Face hub was fetched", name_or_path)
                                     : status;
}
