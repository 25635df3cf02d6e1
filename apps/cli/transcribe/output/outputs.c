/* cli/transcribe/output/outputs.c - names of result files, and writing them. */
#include "transcribe/output/outputs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "transcribe/output/output_name.h"

const char *outputs_stem(const char *path, size_t *length) {
    const char *slash = strrchr(path, '/');
    const char *name = !strcmp(path, "-") ? "stdin" : slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t n = dot ? (size_t)(dot - name) : 0;
    *length =
        n > strspn(name, ".") ? n : strlen(name); /* dots in front are part of the name: ".hidden" has no extension */
    return name;
}

int outputs_folder(const transcribe_options *options, const input *in, char *path, size_t size) {
    int n = snprintf(path, size, "%s/%s%s", options->output_dir, in->folder, in->folder[0] ? "/" : "");
    return n > 0 && (size_t)n < size;
}

/* The whole path of one file. */
static int path_of(const transcribe_options *options, const input *in, const output_fields *fields, char *path,
                   size_t size) {
    if (!outputs_folder(options, in, path, size))
        return 0;
    size_t n = strlen(path);
    return output_name_expand(options->output_name, fields, path + n, size - n);
}

/* Two recordings that would write the same files stand beside each other in this order. */
static int by_output(const void *a, const void *b) {
    const input *x = *(const input *const *)a, *y = *(const input *const *)b;
    size_t n, m;
    const char *stem_x = outputs_stem(x->path, &n), *stem_y = outputs_stem(y->path, &m);
    int order = strcmp(x->folder, y->folder);
    if (!order)
        order = memcmp(stem_x, stem_y, n < m ? n : m);
    return order ? order : n < m ? -1 : n > m;
}

int outputs_collide(const inputs *list, int alike, const input **a, const input **b) {
    const input **sorted = malloc((size_t)(list->n + 1) * sizeof(*sorted));
    int n = 0, found = 0;
    if (!sorted) {
        log_error("out of memory: the list of files");
        return -1;
    }
    for (int i = 0; i < list->n; i++)
        if (!list->items[i].problem)
            sorted[n++] = &list->items[i];
    qsort(sorted, (size_t)n, sizeof(*sorted), by_output);
    for (int i = 1; !found && i < n; i++)
        if (alike ? !strcmp(sorted[i - 1]->folder, sorted[i]->folder) : !by_output(&sorted[i - 1], &sorted[i])) {
            int swap = sorted[i - 1] > sorted[i]; /* named in the order of the command line */
            *a = sorted[i - !swap];
            *b = sorted[i - swap];
            found = 1;
        }
    free(sorted);
    return found;
}

int outputs_exist(const transcribe_options *options, const input *in) {
    char path[PATH_MAX];
    for (int i = 0; mxw_format_name(i); i++) {
        output_fields fields = {in->path, mxw_format_name(i), "", ""};
        if (transcribe_wants(options, mxw_format_name(i)) &&
            (!path_of(options, in, &fields, path, sizeof(path)) || access(path, F_OK)))
            return 0;
    }
    return 1;
}

/* ---- what is read must not be written ------------------------------------------------------------------- */

/* Whether a file of this recording is one of those. */
static int overwrites(const transcribe_options *options, const inputs *list, const input *in, char *path, size_t size) {
    for (int i = 0; mxw_format_name(i); i++) {
        output_fields fields = {in->path, mxw_format_name(i), "", ""};
        if (transcribe_wants(options, mxw_format_name(i)) && path_of(options, in, &fields, path, size) &&
            inputs_has(list, path))
            return 1;
    }
    return 0;
}

int outputs_overwrite(const transcribe_options *options, const inputs *list, char *path, size_t size) {
    if (output_name_has(options->output_name, "{model}") || output_name_has(options->output_name, "{language}"))
        return 0; /* save_file looks again */
    int found = 0;
    for (int i = 0; i < list->n && !found; i++)
        found = overwrites(options, list, &list->items[i], path, size);
    return found;
}

/* ---- writing -------------------------------------------------------------------------------------------- */

int outputs_make_folder(const char *path) {
    char partial[PATH_MAX];
    size_t n = strlen(path);
    errno = ENAMETOOLONG;
    if (!n || n >= sizeof(partial))
        return 0;
    memcpy(partial, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (partial[i] != '/' && partial[i])
            continue;
        char kept = partial[i];
        struct stat info;
        partial[i] = 0;
        if (mkdir(partial, 0777) && (errno != EEXIST || stat(partial, &info) || !S_ISDIR(info.st_mode))) {
            errno = errno == EEXIST ? ENOTDIR : errno;
            return 0;
        }
        partial[i] = kept;
    }
    return 1;
}

mxw_status outputs_options(const outputs_source *source, const char *format, mxw_write_options *write) {
    transcribe_write_options(source->options, write);
    if (strcmp(format, "json-full"))
        return MXW_OK;
    write->manifest = source->manifest;
    return source->session ? mxw_session_manifest(source->session, &write->manifest) : MXW_OK;
}

static mxw_status save_file(const outputs_source *source, const mxw_result *result, const char *format) {
    char path[PATH_MAX];
    mxw_model_info info = {.struct_size = sizeof(info)};
    mxw_write_options write;
    mxw_status status = mxw_model_get_info(source->model, &info);
    if (status >= 0)
        status = outputs_options(source, format, &write);
    output_fields fields = {source->in->path, format, status < 0 ? "" : info.checkpoint->size_name,
                            result->language ? result->language : ""};
    if (!path_of(source->options, source->in, &fields, path, sizeof(path))) {
        log_error("%s: output path is too long", source->name);
        return MXW_E_ARGUMENT;
    }
    if (inputs_has(source->list, path)) {
        log_error("%s: its %s would overwrite the recording %s; choose another --output-name", source->name, format,
                  path);
        return MXW_E_ARGUMENT;
    }
    if (status >= 0)
        status = mxw_result_save(result, format, &write, path);
    if (status < 0)
        log_failure(path, status);
    else
        log_say(MXW_LOG_INFO, "wrote %s", path);
    return status;
}

mxw_status outputs_save(const outputs_source *source, const mxw_result *result) {
    char folder[PATH_MAX];
    mxw_status status = MXW_OK;
    if (source->in->folder[0] && outputs_folder(source->options, source->in, folder, sizeof(folder)) &&
        !outputs_make_folder(folder)) {
        log_error("%s: cannot create %s: %s", source->name, folder, strerror(errno));
        return MXW_E_IO;
    }
    for (int i = 0; mxw_format_name(i) && status >= 0; i++)
        if (transcribe_wants(source->options, mxw_format_name(i)))
            status = save_file(source, result, mxw_format_name(i));
    return status;
}
