/* cli/transcribe/output/outputs.c - names of result files, and writing them. */
#include "transcribe/output/outputs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
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
