/* cli/lab/stages.c - what `features` and `verify` share; see the header. */
#include "lab/stages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/stdout.h"
#include "common/suggest.h"

enum { SYNTHETIC_SECONDS = 35, N_FIRST = 10 };

/* ---- what is listened to -------------------------------------------------------------------------------- */

/* Rises and falls as speech does; longer than a window, so that there is a second one. */
static int synthesize(lab_samples *s) {
    s->n = (size_t)SYNTHETIC_SECONDS * MXW_SAMPLE_RATE;
    s->data = malloc(s->n * sizeof(*s->data));
    uint64_t seed = 1;
    for (size_t i = 0; s->data && i < s->n; i++) {
        double t = (double)i / MXW_SAMPLE_RATE, phase = 2 * 3.14159265358979 * (140 * t + 8 * sin(2.7 * t));
        double loud = fmax(0, sin(6.3 * t + 1)) * (0.6 + 0.4 * sin(0.7 * t));
        double buzz = sin(phase) + 0.6 * sin(2 * phase) + 0.4 * sin(5 * phase) + 0.2 * sin(11 * phase);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double noise = (double)(seed >> 40) * 0x1p-23 - 1;
        s->data[i] = (float)(rint((0.25 * loud * buzz + 0.01 * noise) * 32768) / 32768);
    }
    return s->data != NULL;
}

static mxw_status read_file(const char *path, lab_samples *s) {
    mxw_audio_options options;
    mxw_audio *audio = NULL;
    size_t capacity = 0, got = 1;
    mxw_audio_options_default(&options);
    options.path = path;
    mxw_status status = mxw_audio_open(&options, &audio);
    for (s->n = 0; status >= 0 && got; s->n += got) {
        if (s->n + MXW_SAMPLE_RATE > capacity) {
            capacity = 2 * capacity + 60 * (size_t)MXW_SAMPLE_RATE;
            float *data = realloc(s->data, capacity * sizeof(*data));
            if (!data) {
                mxw_audio_close(audio);
                return MXW_E_MEMORY;
            }
            s->data = data;
        }
        status = mxw_audio_read(audio, s->data + s->n, MXW_SAMPLE_RATE, &got);
    }
    mxw_audio_close(audio);
    return status;
}

int lab_read(const char *path, lab_samples *s) {
    *s = (lab_samples){NULL, 0};
    if (!path) {
        if (!synthesize(s))
            log_error("out of memory");
        return s->data != NULL;
    }
    mxw_status status = read_file(path, s);
    if (status < 0)
        log_failure(path, status);
    else if (s->n < MXW_SAMPLE_RATE / 100)
        log_error("%s: recording is empty (%zu samples)", path, s->n);
    if (status >= 0 && s->n >= MXW_SAMPLE_RATE / 100)
        return 1;
    free(s->data);
    s->data = NULL;
    return 0;
}

/* ---- the model ------------------------------------------------------------------------------------------ */

const char *fault_value(int index) { return mxw_fault_name(index, NULL); }

int check_fault(const char *value, char *message, size_t size) {
    suggestion near;
    suggestion_start(&near, value);
    for (int i = 0; mxw_fault_name(i, NULL); i++) {
        if (!strcmp(value, mxw_fault_name(i, NULL)))
            return 1;
        suggestion_offer(&near, mxw_fault_name(i, NULL));
    }
    options_say(message, size, "unknown fault '%.60s'%s%s%s", value, near.best ? "; did you mean '" : "",
                near.best ? near.best : "", near.best ? "'?" : "");
    return 0;
}

void lab_session_options(mxw_session_options *options) {
    mxw_session_options_default(options);
    options->temperature_increment = MXW_NONE;
}

const char *lab_language(const char *option) { return option && strcmp(option, "auto") ? option : NULL; }

int lab_open(const model_choice *choice, int names, const char *inject, mxw_model **model) {
    model_needs needs = {.keep_names = names, .inject = inject};
    mxw_status status = model_open(choice, &needs, model);
    if (status < 0)
        log_failure(NULL, status);
    return status < 0 ? EXIT_FAILED : EXIT_OK;
}

/* ---- tables --------------------------------------------------------------------------------------------- */

const char *lab_short(double x, char text[32]) {
    double size = fabs(x);
    if (isnan(x))
        snprintf(text, 32, "-");
    else if (x == 0)
        snprintf(text, 32, "0");
    else
        snprintf(text, 32, size < 1e-3 || size >= 1e5 ? "%.1e" : "%.4f", x);
    return text;
}

static void shape_of(const mxw_tensor *t, char text[64]) {
    int at = 0;
    text[0] = 0;
    for (int i = 0; i < t->rank && at < 48; i++)
        at += snprintf(text + at, (size_t)(64 - at), "%s%lld", i ? "x" : "", (long long)t->dims[i]);
}

static double value_at(const mxw_tensor *t, int64_t i) {
    return t->dtype == MXW_F32 ? (double)((const float *)t->data)[i]
         : t->dtype == MXW_I32 ? (double)((const int32_t *)t->data)[i] : (double)((const uint8_t *)t->data)[i];
}

static int64_t count_of(const mxw_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

void lab_print_stages(const mxw_features *features) {
    mxw_feature f = {.struct_size = sizeof(f)};
    out_print("%-36s %-12s %10s %10s %10s %10s %11s\n", "stage", "shape", "mean", "std", "min", "max", "l2");
    for (size_t i = 0; i < mxw_features_count(features) && mxw_features_get(features, i, &f) >= 0; i++) {
        char shape[64], a[32], b[32], c[32], d[32], e[32];
        shape_of(f.tensor, shape);
        out_print("%-36s %-12s %10s %10s %10s %10s %11s%s\n", f.name, shape, lab_short(f.mean, a), lab_short(f.std, b),
                  lab_short(f.min, c), lab_short(f.max, d), lab_short(f.l2, e), f.n_not_finite ? "  NOT FINITE" : "");
    }
}

void lab_write_stages(json_writer *json, const mxw_features *features) {
    mxw_feature f = {.struct_size = sizeof(f)};
    json_list(json, "stages");
    for (size_t i = 0; i < mxw_features_count(features) && mxw_features_get(features, i, &f) >= 0; i++) {
        int64_t n = count_of(f.tensor);
        json_begin(json, NULL);
        json_text(json, "name", f.name);
        json_wholes(json, "shape", f.tensor->dims, f.tensor->rank);
        json_number(json, "mean", f.mean, 9);
        json_number(json, "std", f.std, 9);
        json_number(json, "min", f.min, 9);
        json_number(json, "max", f.max, 9);
        json_number(json, "l2", f.l2, 9);
        json_whole(json, "not_finite", f.n_not_finite);
        json_list(json, "first");
        for (int64_t j = 0; j < n && j < N_FIRST; j++)
            json_number(json, NULL, value_at(f.tensor, j), 9);
        json_end(json);
        json_end(json);
    }
    json_end(json);
}

size_t lab_count_bad(const mxw_comparison *comparison) {
    mxw_difference d = {.struct_size = sizeof(d)};
    size_t n = 0;
    for (size_t i = 0; i < mxw_comparison_count(comparison) && mxw_comparison_get(comparison, i, &d) >= 0; i++)
        n += d.bad != 0;
    return n;
}

void lab_print_rows(const mxw_comparison *comparison, int bad_only) {
    mxw_difference d = {.struct_size = sizeof(d)};
    out_print("%-36s %11s %9s %9s %9s %9s %9s %9s %9s\n", "stage", "cosine", "relative", "bound", "l2", "mean abs",
              "max abs", "shift", "std ratio");
    for (size_t i = 0; i < mxw_comparison_count(comparison) && mxw_comparison_get(comparison, i, &d) >= 0; i++) {
        char a[32], b[32], c[32], e[32], f[32], g[32];
        if (bad_only && !d.bad)
            continue;
        if (d.apart) {
            out_print("%-36s %s%s\n", d.name, d.apart, d.bad ? "   <-- parts" : "");
            continue;
        }
        out_print("%-36s %11.8f %9s %9s %9s %9s %9s %9s %9.6f%s\n", d.name, d.cosine, lab_short(d.relative, a),
                  lab_short(d.bound, b), lab_short(d.l2, c), lab_short(d.mean_abs, e), lab_short(d.max_abs, f),
                  lab_short(d.mean_shift, g), d.std_ratio, d.bad ? "   <-- parts" : "");
    }
}

void lab_write_rows(json_writer *json, const mxw_comparison *comparison) {
    mxw_difference d = {.struct_size = sizeof(d)};
    json_list(json, "stages");
    for (size_t i = 0; i < mxw_comparison_count(comparison) && mxw_comparison_get(comparison, i, &d) >= 0; i++) {
        json_begin(json, NULL);
        json_text(json, "name", d.name);
        if (d.apart)
            json_text(json, "apart", d.apart);
        json_number(json, "cosine", d.cosine, 12);
        json_number(json, "l2", d.l2, 12);
        json_number(json, "relative", d.relative, 12);
        json_number(json, "mean_abs", d.mean_abs, 12);
        json_number(json, "max_abs", d.max_abs, 12);
        json_number(json, "mean_shift", d.mean_shift, 12);
        json_number(json, "std_ratio", d.std_ratio, 12);
        json_number(json, "bound", d.bound, 12);
        json_bool(json, "bad", d.bad);
        json_end(json);
    }
    json_end(json);
}

void lab_write_notes(json_writer *json, const char *key, const mxw_features *features) {
    static const char *const keys[] = {"made_by", "model", "engine", "device", "precision", "language", "injected",
                                       "text"};
    json_begin(json, key);
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (mxw_features_note(features, keys[i]))
            json_text(json, keys[i], mxw_features_note(features, keys[i]));
    json_end(json);
}

void lab_write_finding(json_writer *json, const mxw_finding *finding) {
    json_text(json, "first_bad_stage", finding->stage);
    json_text(json, "fault", finding->fault);
    json_text(json, "words", finding->explanation);
}
