/* convert/folder.c - a folder that appears complete or not at all: written under another name beside it, then renamed;
 * and the small files in it. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/internal.h"

static mxw_status write_at(const char *folder, const char *leaf, const void *bytes, size_t n) {
    mx_str path = {0};
    mx_save *save = NULL;
    mxw_status status;
    mx_str_print(&path, "%s/%s", folder, leaf);
    MX_TRY(mx_str_status(&path));
    MX_TRY(mx_save_open(mx_str_get(&path), &save));
    MX_TRY(mx_save_write(save, bytes, n));
    status = mx_save_commit(save);
    save = NULL;
out:
    mx_save_abort(save);
    mx_str_free(&path);
    return status;
}

mxw_status mx_save_text(const char *folder, const char *leaf, const char *text, size_t n) {
    return write_at(folder, leaf, text, n);
}

static int add_piece(const char *text, size_t n, void *out) {
    mx_str_add(out, text, n);
    return mx_str_status(out) < 0 ? -1 : 0;
}

mxw_status mx_save_json(const char *folder, const char *leaf, json_t *root) {
    mx_str text = {0};
    mxw_status status = MXW_OK;
    if (!root || json_dump_callback(root, add_piece, &text, JSON_INDENT(2)) < 0)
        status = mx_fail(MXW_E_MEMORY, "out of memory (%s)", leaf);
    mx_str_text(&text, "\n");
    if (status == MXW_OK)
        status = mx_str_status(&text);
    if (status == MXW_OK)
        status = write_at(folder, leaf, text.data, text.n);
    mx_str_free(&text);
    json_decref(root);
    return status;
}

mxw_status mx_copy_beside(const mx_conversion *c, const char *folder, const char *leaf) {
    size_t n;
    const char *from = mx_weights_folder(c->w, &n);
    mx_str path = {0};
    mx_map map = {0};
    if (!from)
        return MXW_E_NOT_FOUND;
    mx_str_add(&path, from, n);
    mx_str_text(&path, leaf);
    mxw_status status = mx_str_status(&path);
    if (status == MXW_OK && !mx_file_exists(mx_str_get(&path)))
        status = MXW_E_NOT_FOUND;
    else if (status == MXW_OK)
        status = mx_map_open(mx_str_get(&path), &map);
    if (status == MXW_OK)
        status = write_at(folder, leaf, map.data, map.n);
    mx_map_close(&map);
    mx_str_free(&path);
    return status;
}

/* Whether a folder has nothing in it; -1: it is no folder. */
static int is_empty(const char *path) {
    DIR *dir = opendir(path);
    int n = 0;
    if (!dir)
        return -1;
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return n == 0;
}

mxw_status mx_folder_begin(const char *path, mx_str *temporary) {
    size_t n = strlen(path);
    int empty = mx_file_exists(path) ? is_empty(path) : 1;
    if (empty <= 0)
        return mx_fail(MXW_E_IO, "%s: %s; name a folder that is new or empty", path,
                       empty < 0 ? "is there, and is no folder" : "is not empty");
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (int i = 0; i < 100; i++) { /* another run may be writing, or have been killed */
        mx_str_clear(temporary);
        mx_str_add(temporary, path, n);
        mx_str_print(temporary, ".mxw-part-%ld-%d", (long)getpid(), i);
        if (mx_str_status(temporary) < 0)
            return mx_str_status(temporary);
        if (mkdir(temporary->data, 0777) == 0)
            return MXW_OK;
        if (errno != EEXIST)
            break;
    }
    mx_str_clear(temporary);
    return mx_fail(MXW_E_IO, "%s: cannot make the folder: %s", path, strerror(errno));
}

mxw_status mx_folder_commit(const char *path, const char *temporary) {
    if (rename(temporary, path) != 0)
        return mx_fail(MXW_E_IO, "%s: cannot be put in place: %s", path, strerror(errno));
    return MXW_OK;
}

void mx_folder_remove(const char *temporary) {
    DIR *dir = *temporary ? opendir(temporary) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir) {
        closedir(dir);
        rmdir(temporary);
    }
}
