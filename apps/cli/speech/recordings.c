/* cli/speech/recordings.c - one recording after the other; see recordings.h. */
#include "speech/recordings.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/progress.h"
#include "common/stdout.h"
#include "common/suggest.h"
#include "report/doc.h"
#include "report/draw.h"
#include "speech/picture_speech.h"
#include "transcribe/inputs.h"
#include "transcribe/output/outputs.h"
#include "transcribe/transcribe_options.h"

const char *const one_channel_examples[] = {"all", "left", "right", "1", "2", NULL};

int check_one_channel(const char *value, char *message, size_t size) {
    if (transcribe_channel_number(value) >= 0 && strcmp(value, "split"))
        return 1;
    suggestion near;
    suggestion_start(&near, value);
    for (int i = 0; i < 3; i++)
        suggestion_offer(&near, one_channel_examples[i]);
    options_say(message, size, "'%.60s' is not all, left, right or a number from 1 to 255%s%s%s", value,
                near.best ? "; did you mean '" : "", near.best ? near.best : "", near.best ? "'?" : "");
    return 0;
}

int check_picture(const char *value, char *message, size_t size) {
    if (draw_kind_of(value) >= 0)
        return 1;
    options_say(message, size, "'%.60s' does not end in .png, .svg or .pdf", value);
    return 0;
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

mxw_status recordings_read(recordings_source *source, float *samples, size_t n, size_t *got) {
    mxw_status status = mxw_audio_read(source->audio, samples, n, got);
    if (status < 0)
        return status;
    if (source->heard->sound)
        envelope_add(source->heard->sound, samples, *got);
    source->n_samples += (int64_t)*got;
    source->heard->duration_s = (double)source->n_samples / MXW_SAMPLE_RATE;
    mxw_progress progress = {.stage = "text", .done_s = source->heard->duration_s, .total_s = source->total_s,
                             .elapsed_s = seconds_now() - source->start};
    progress_update(source->place, &progress);
    return MXW_OK;
}

/* ---- what was heard, written ---------------------------------------------------------------------------- */

/* The bytes of a format; the caller frees them. NULL: no memory. */
static char *render(const recordings_job *job, const hearing *heard, size_t *length) {
    char *bytes = NULL;
    FILE *stream = open_memstream(&bytes, length);
    if (!stream)
        return NULL;
    hearing_write(heard, (hearing_format)job->options->format, job->extra, job->user, stream);
    if (!fclose(stream))
        return bytes;
    free(bytes);
    return NULL;
}

/* "DIR/sub/talk.vad.json"; its folder is made. */
static int output_path(const recordings_job *job, const input *in, char *path, size_t size) {
    char ending[40];
    size_t n;
    const char *stem = outputs_stem(in->path, &n);
    hearing_extension((hearing_format)job->options->format, job->kind, ending, sizeof(ending));
    int length = snprintf(path, size, "%s/%s", job->options->output_dir, in->folder);
    if (length < 0 || (size_t)length >= size || !outputs_make_folder(path)) {
        log_error("--output-dir: cannot create %s: %s", path, errno == ENOTDIR ? "not a folder" : strerror(errno));
        return 0;
    }
    int whole = snprintf(path, size, "%s/%s%s%.*s%s", job->options->output_dir, in->folder, in->folder[0] ? "/" : "",
                         (int)n, stem, ending);
    if (whole > 0 && (size_t)whole < size)
        return 1;
    log_error("%s: output path is too long", in->path);
    return 0;
}

static int save(const recordings_job *job, const input *in, const char *bytes, size_t n) {
    char path[PATH_MAX];
    if (!output_path(job, in, path, sizeof(path)))
        return 0;
    int fault = doc_save(path, bytes, n);
    if (fault)
        log_error("%s: cannot write %s: %s", in->path, path, strerror(fault));
    else
        log_say(MXW_LOG_INFO, "wrote %s", path);
    return !fault;
}

/* JSON and RTTM tell their file themselves; of the others the reader must be told where the next begins. */
static int has_heading(const recordings_job *job, int several) {
    return several && job->options->format != HEARING_JSON && job->options->format != HEARING_RTTM;
}

static void print(recordings_source *source, const char *bytes, size_t n) {
    static int n_headings;
    progress_hide();
    if (source->heading)
        out_print("%s==> %s <==\n", n_headings++ ? "\n" : "", source->heading);
    source->heading = NULL;
    out_write(NULL, bytes, n);
    out_flush();
}

void recordings_show(recordings_source *source) {
    hearing *heard = source->heard;
    char *bytes = NULL;
    size_t n = 0;
    if (!source->live || heard->tells_probabilities || heard->n_told == heard->n_regions)
        return;
    FILE *stream = open_memstream(&bytes, &n);
    if (!stream)
        return; /* later, with the rest */
    hearing_write(heard, HEARING_TEXT, NULL, NULL, stream);
    if (!fclose(stream)) {
        print(source, bytes, n);
        heard->n_told = heard->n_regions;
    }
    free(bytes);
}

static int draw(const recordings_job *job, const hearing *heard) {
    char title[300], note[300];
    const char *slash = strrchr(heard->path, '/'), *why;
    const draw_table *table = draw_module(&why);
    draw_sheet sheet;
    draw_bytes bytes = {0};
    picture_speech picture = {.heard = heard, .title = title, .note = note, .thresholds = job->thresholds};
    int n = snprintf(title, sizeof(title), "%.120s: ", slash ? slash + 1 : heard->path);
    job->sum_up(heard, title + n, sizeof(title) - (size_t)n);
    job->describe(job->user, note, sizeof(note));
    if (table && draw_open(&sheet, table, (draw_kind)draw_kind_of(job->options->plot), PICTURE_SPEECH_WIDTH,
                           picture_speech_height(&picture), &bytes)) {
        picture_speech_draw(&sheet, &picture);
        why = draw_close(&sheet);
    } else if (table) {
        why = "out of memory";
    }
    int fault = why ? 0 : doc_save(job->options->plot, bytes.data, bytes.n);
    if (why || fault)
        log_error("--plot: cannot write %s: %s", job->options->plot, why ? why : strerror(fault));
    free(bytes.data);
    return !why && !fault;
}

/* ---- one recording -------------------------------------------------------------------------------------- */

static mxw_status open_audio(const recordings_job *job, const char *path, recordings_source *source) {
    mxw_audio_options audio;
    mxw_audio_info info = {.struct_size = sizeof(info)};
    mxw_audio_options_default(&audio);
    audio.path = path;
    audio.channel = transcribe_channel_number(job->options->channel);
    audio.track = (int)job->options->track;
    mxw_status status = mxw_audio_open(&audio, &source->audio);
    if (status >= 0)
        status = mxw_audio_get_info(source->audio, &info);
    if (status < 0)
        return status;
    source->total_s = info.duration_s;
    source->heard->start_s = info.start_s;
    source->heard->channel = audio.channel;
    return status;
}

static int deliver_heard(const recordings_job *job, const input *in, recordings_source *source) {
    const hearing *heard = source->heard;
    char summary[300];
    size_t n = 0;
    char *bytes = render(job, heard, &n);
    if (!bytes) {
        log_error("%s: out of memory", in->path);
        return 0;
    }
    int done = 1;
    if (job->options->output_dir)
        done = save(job, in, bytes, n);
    else
        print(source, bytes, n);
    free(bytes);
    if (done && job->options->plot)
        done = draw(job, heard);
    job->sum_up(heard, summary, sizeof(summary));
    if (done)
        log_note("%s: %s", strcmp(in->path, "-") ? in->path : "standard input", summary);
    return done;
}

/* 1, or 0 after the reason was logged. */
static int listen_to(const recordings_job *job, const input *in, int place, int several) {
    const char *name = strcmp(in->path, "-") ? in->path : "standard input";
    hearing heard = {.path = in->path};
    recordings_source source = {.heard = &heard, .place = place, .start = seconds_now(), .total_s = -1,
                            .live = job->options->format == HEARING_TEXT && !job->options->output_dir,
                            .heading = has_heading(job, several) ? name : NULL};
    if (in->problem) {
        log_error("%s: %s", name, in->problem);
        return 0;
    }
    progress_name(name);
    heard.sound = job->options->plot ? calloc(1, sizeof(*heard.sound)) : NULL;
    mxw_status status = job->options->plot && !heard.sound ? MXW_E_MEMORY : open_audio(job, in->path, &source);
    if (status >= 0)
        status = job->listen(job->user, &source);
    mxw_audio_close(source.audio);
    progress_end(place);
    if (status < 0)
        log_failure(name, status);
    int done = status >= 0 && deliver_heard(job, in, &source);
    hearing_free(&heard);
    return done;
}

/* ---- all of them ---------------------------------------------------------------------------------------- */

static int check_list(const recordings_job *job, const inputs *list) {
    const recordings_options *o = job->options;
    const input *a, *b;
    int n_standard = 0;
    for (int i = 0; i < list->n; i++)
        n_standard += !strcmp(list->items[i].path, "-");
    if (n_standard > 1)
        log_error("standard input (-) is given twice");
    else if (o->plot && list->n > 1)
        log_error("--plot: a picture shows one recording, and there are %d", list->n);
    else if (!o->output_dir || !outputs_collide(list, 0, &a, &b))
        return 1;
    else
        log_error("'%s' and '%s' would write the same file in %s; rename one, or use two folders", a->path, b->path,
                  o->output_dir);
    return 0;
}

/* Before any work is done for a picture that cannot be. */
static int check_plot(const recordings_options *o) {
    const char *why = NULL;
    if (!o->plot)
        return 1;
    int fault = draw_module(&why) ? doc_can_save(o->plot) : 0;
    if (fault)
        log_error("--plot: cannot write %s: %s", o->plot, strerror(fault));
    else if (!draw_module(&why))
        log_error("--plot: %s", why);
    else
        return 1;
    return 0;
}

static int listen_to_all(const recordings_job *job, const inputs *list) {
    int n_failed = 0;
    progress_start(list->n, NULL, !job->common->quiet && progress_possible());
    for (int i = 0; i < list->n && !out_failed(); i++)
        n_failed += !listen_to(job, &list->items[i], i, list->n > 1);
    progress_stop();
    if (n_failed && list->n > 1)
        log_error("%d of %d files failed", n_failed, list->n);
    return n_failed || out_failed() ? EXIT_FAILED : EXIT_OK;
}

int recordings_run(const recordings_job *job, int (*before)(void *user), char **words, int n_words) {
    inputs list = {0};
    int exit_status = EXIT_FAILED;
    if (!inputs_expand(&list, words, n_words, job->options->recursive))
        log_error("out of memory: the list of files");
    else if (!check_list(job, &list))
        exit_status = EXIT_USAGE;
    else if (check_plot(job->options))
        exit_status = before ? before(job->user) : EXIT_OK;
    if (exit_status == EXIT_OK)
        exit_status = listen_to_all(job, &list);
    inputs_free(&list);
    return exit_status;
}
