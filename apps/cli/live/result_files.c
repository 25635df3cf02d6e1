/* cli/live/result_files.c - names, and when to write. */
#include "live/result_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/formats.h"
#include "transcribe/output/output_name.h"
#include "transcribe/output/outputs.h"

#define LEAST_WAIT_S 1.0
#define COST_TO_WAIT 20 /* writing takes at most a twentieth of the time */

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int path_of(const result_files *f, const char *format, char *path, size_t size) {
    output_fields fields = {f->stem, format, f->model, f->language};
    int n = snprintf(path, size, "%s/", f->options->output_dir);
    return n > 0 && (size_t)n < size &&
           output_name_expand(f->options->output_name, &fields, path + n, size - (size_t)n);
}

/* A name with {language} is known when there is text. */
static int check_path(const result_files *f, const char *path) {
    if (!f->heard || !inputs_is(path, f->heard))
        return 1;
    log_error("--output-dir: %s is the file that is heard", path);
    return 0;
}

static int check_names(const result_files *f) {
    char path[PATH_MAX];
    for (int i = 0; mxw_format_name(i) && !output_name_has(f->options->output_name, "{language}"); i++)
        if (formats_have(f->options->format, mxw_format_name(i)) &&
            path_of(f, mxw_format_name(i), path, sizeof(path)) && !check_path(f, path))
            return 0;
    return 1;
}

int result_files_open(result_files *f, const live_options *options, const source_options *source, mxw_model *model) {
    mxw_model_info info = {.struct_size = sizeof(info)};
    time_t now = time(NULL);
    struct tm local;
    *f = (result_files){.options = options, .heard = source_path(source)};
    if (!options->output_dir)
        return 1;
    if (source->kind == SOURCE_FILE)
        snprintf(f->stem, sizeof(f->stem), "%s", source->name);
    else if (localtime_r(&now, &local))
        strftime(f->stem, sizeof(f->stem), "live-%Y%m%d-%H%M%S", &local);
    if (mxw_model_get_info(model, &info) >= 0)
        snprintf(f->model, sizeof(f->model), "%s", info.checkpoint->size_name);
    if (!check_names(f))
        return 0;
    if (outputs_make_folder(options->output_dir))
        return 1;
    log_error("--output-dir: cannot create %s: %s", options->output_dir,
              errno == ENOTDIR ? "not a folder" : strerror(errno));
    return 0;
}

static int save_as(const result_files *f, const mxw_result *result, const char *format) {
    char path[PATH_MAX];
    if (!path_of(f, format, path, sizeof(path))) {
        log_error("--output-dir: output path is too long");
        return 0;
    }
    if (!check_path(f, path))
        return 0;
    mxw_status status = mxw_result_save(result, format, NULL, path);
    if (status < 0)
        log_failure(path, status);
    return status >= 0;
}

int result_files_save(result_files *f, mxw_live *live, int now) {
    double start = now_s(), wait = COST_TO_WAIT * f->cost_s > LEAST_WAIT_S ? COST_TO_WAIT * f->cost_s : LEAST_WAIT_S;
    int saved = 1;
    if (!f->options->output_dir || (!now && (!f->changed || start < f->saved_at + wait)))
        return 1;
    const mxw_result *result = mxw_live_result(live);
    if (!result) {
        log_error("out of memory: the text so far");
        return 0;
    }
    if (!f->n_saved && result->language)
        snprintf(f->language, sizeof(f->language), "%s", result->language);
    for (int i = 0; mxw_format_name(i) && saved; i++)
        if (formats_have(f->options->format, mxw_format_name(i)))
            saved = save_as(f, result, mxw_format_name(i));
    f->changed = 0;
    f->saved_at = now_s();
    f->cost_s = f->saved_at - start;
    f->n_saved += saved;
    return saved;
}

void result_files_tell(const result_files *f) {
    char path[PATH_MAX];
    for (int i = 0; f->n_saved && mxw_format_name(i); i++)
        if (formats_have(f->options->format, mxw_format_name(i)) &&
            path_of(f, mxw_format_name(i), path, sizeof(path)))
            log_note("wrote %s", path);
}
