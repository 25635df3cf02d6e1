/* cli/transcribe/inputs.c - walks folders in name order, picks recordings by file extension, and knows them by device
 * and inode. */
#include "transcribe/inputs.h"

#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that is named is opened whatever its extension; these are what is taken of a folder. */
static const char *const extensions[] = {
    "3g2", "3gp", "aac", "ac3",  "aif",  "aifc", "aiff", "amr", "ape",  "asf", "au",  "avi", "caf",  "dts",  "eac3",
    "f4v", "flac", "flv", "g722", "gsm", "m2ts", "m4a",  "m4b", "m4v",  "mka", "mkv", "mov", "mp1",  "mp2",  "mp3",
    "mp4", "mpeg", "mpg", "mts", "mxf",  "oga",  "ogg",  "ogm", "ogv",  "opus", "ra", "rm",  "snd",  "spx",  "ts",
    "tta", "vob",  "voc", "w64", "wav",  "webm", "wma",  "wmv", "wv",   NULL,
};

static int is_recording(const char *name) {
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && extensions[i]; i++)
        if (!strcasecmp(dot + 1, extensions[i]))
            return 1;
    return 0;
}

static int add(inputs *list, const char *path, const char *folder, const char *problem) {
    if ((size_t)list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        input *grown = room < INT_MAX ? realloc(list->items, room * sizeof(*grown)) : NULL;
        if (!grown)
            return 0;
        list->items = grown;
        list->room = room;
    }
    input one = {strdup(path), strdup(folder), problem};
    if (one.path && one.folder)
        list->items[list->n++] = one;
    else
        free(one.path), free(one.folder);
    return one.path && one.folder;
}

void inputs_drop(inputs *list, int i) {
    free(list->items[i].path);
    free(list->items[i].folder);
    memmove(list->items + i, list->items + i + 1, (size_t)(list->n - i - 1) * sizeof(*list->items));
    list->n--;
}

void inputs_free(inputs *list) {
    while (list->n)
        inputs_drop(list, list->n - 1);
    free(list->items);
    free(list->files);
    *list = (inputs){0};
}

/* ---- folders -------------------------------------------------------------------------------------------- */

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int is_shown(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* The recordings of a folder, then those below. Links to files are followed, links to folders are not: they may lead
 * back. */
static int walk(inputs *list, const char *path, const char *folder, int recursive) {
    struct dirent **entries;
    char inner[PATH_MAX], below[PATH_MAX];
    int n = scandir(path, &entries, is_shown, by_name), kept = 1;
    if (n < 0)
        return add(list, path, folder, "cannot read the folder");
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n && kept; i++) {
            struct stat info, linked;
            const char *name = entries[i]->d_name, *slash = path[strlen(path) - 1] == '/' ? "" : "/";
            int length = snprintf(inner, sizeof(inner), "%s%s%s", path, slash, name);
            if (length >= PATH_MAX || lstat(inner, &linked) || stat(inner, &info))
                continue;
            if (pass == 0 && S_ISREG(info.st_mode) && is_recording(name))
                kept = add(list, inner, folder, NULL);
            else if (pass == 1 && recursive && S_ISDIR(linked.st_mode) &&
                     snprintf(below, sizeof(below), "%s%s%s", folder, folder[0] ? "/" : "", name) < PATH_MAX)
                kept = walk(list, inner, below, recursive);
        }
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
    return kept;
}

static int add_folder(inputs *list, const char *path, int recursive) {
    int before = list->n;
    if (!walk(list, path, "", recursive))
        return 0;
    if (list->n > before)
        return 1;
    return add(list, path, "",
               recursive ? "no audio or video files in this folder or below it"
                         : "no audio or video files in this folder (--recursive also searches the folders below it)");
}

/* ---- words ---------------------------------------------------------------------------------------------- */

static int add_existing(inputs *list, const char *path, int recursive) {
    struct stat info;
    int folder = strcmp(path, "-") && !stat(path, &info) && S_ISDIR(info.st_mode);
    return folder ? add_folder(list, path, recursive) : add(list, path, "", NULL);
}

static int add_pattern(inputs *list, const char *pattern, int recursive) {
    glob_t found;
    int status = glob(pattern, 0, NULL, &found), kept = 1;
    if (status == GLOB_NOSPACE)
        return 0;
    if (status)
        return add(list, pattern, "", "no file matches the pattern");
    for (size_t i = 0; i < found.gl_pathc && kept; i++)
        kept = add_existing(list, found.gl_pathv[i], recursive);
    globfree(&found);
    return kept;
}

/* ---- what is read must not be written ------------------------------------------------------------------- */

static int identify(const char *path, input_identity *id) {
    struct stat info;
    int known = strcmp(path, "-") ? !stat(path, &info) : !fstat(STDIN_FILENO, &info);
    if (!known || !S_ISREG(info.st_mode))
        return 0;
    *id = (input_identity){info.st_dev, info.st_ino};
    return 1;
}

static int by_identity(const void *a, const void *b) {
    const input_identity *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

int inputs_identify(inputs *list) {
    list->files = malloc((size_t)(list->n + 1) * sizeof(*list->files));
    if (!list->files)
        return 0;
    for (int i = 0; i < list->n; i++)
        list->n_files += (size_t)identify(list->items[i].path, &list->files[list->n_files]);
    qsort(list->files, list->n_files, sizeof(*list->files), by_identity);
    return 1;
}

int inputs_has(const inputs *list, const char *path) {
    input_identity id;
    return identify(path, &id) && bsearch(&id, list->files, list->n_files, sizeof(id), by_identity);
}

int inputs_is(const char *path, const char *recording) {
    input_identity to, from;
    return identify(path, &to) && identify(recording, &from) && !by_identity(&to, &from);
}

/* ---- words ---------------------------------------------------------------------------------------------- */

int inputs_expand(inputs *list, char **words, int n_words, int recursive) {
    int kept = 1;
    for (int i = 0; i < n_words && kept; i++) {
        struct stat info;
        int pattern = strpbrk(words[i], "*?[") && lstat(words[i], &info);
        kept = pattern ? add_pattern(list, words[i], recursive) : add_existing(list, words[i], recursive);
    }
    return kept;
}
