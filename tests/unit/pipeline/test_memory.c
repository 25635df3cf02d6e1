/* test_memory.c - peak memory does not grow with the length of a recording: tiny.en on an hour within 50 MB of tiny.en
 * on a minute. Each file is transcribed by a process of its own, whose peak the system reports. All of the hour is read
 * and turned into log-mel; of its text the first and the last minute and one in the middle are decoded, since every
 * window takes the same memory. With a generated model, which is quick, every window of three hours is decoded, with
 * words: within 8 MB of ten minutes, the results included. All of it without and with vad: there a detector of the
 * test's own finds a region every few seconds, and with tiny.en Silero's network listens to the whole hour. With vad up
 * to 128 MB of samples may wait for the detector besides, far less than the hour's 220, or the 660 of three.
 *
 * usage: test_memory [MODEL | generated]    exits as skipped where the model is not installed */
#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/pipeline_kit.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

#define LIMIT_KB (50l * 1024)
#define LIMIT_GENERATED_KB (8l * 1024)
#define WAITING_KB (128l * 1024)   /* of samples that no detector has heard yet (pipeline/speech/speech.c) */

typedef struct file_case {
    const char *leaf;
    int minutes;
    const char *clips;
    int words, vad;
} file_case;

/* A minute of generated speech over and over; written in pieces of a minute. */
static int write_minutes(const char *path, int minutes) {
    const size_t n = 60 * MXW_SAMPLE_RATE;
    uint32_t bytes = (uint32_t)((size_t)minutes * n * 2);
    float *samples = mx_alloc_array(n, sizeof(*samples));
    int16_t *whole = mx_alloc_array(n, sizeof(*whole));
    FILE *file = fopen(path, "wb");
    struct __attribute__((packed)) {
        char riff[4];
        uint32_t riff_bytes;
        char wave[8];
        uint32_t format_bytes;
        uint16_t format, channels;
        uint32_t rate, byte_rate;
        uint16_t frame_bytes, bits;
        char data[4];
        uint32_t data_bytes;
    } head = {{'R', 'I', 'F', 'F'}, 36 + bytes, {'W', 'A', 'V', 'E', 'f', 'm', 't', ' '}, 16, 1, 1, MXW_SAMPLE_RATE,
              2 * MXW_SAMPLE_RATE, 2, 16, {'d', 'a', 't', 'a'}, bytes};
    int ok = samples && whole && file && fwrite(&head, sizeof(head), 1, file) == 1;
    if (ok) {
        kit_samples(21, 0, n, samples);
        for (size_t i = 0; i < n; i++)
            whole[i] = (int16_t)(samples[i] * 32768);
    }
    for (int i = 0; i < minutes && ok; i++)
        ok = fwrite(whole, sizeof(*whole), n, file) == n;
    ok = (!file || fclose(file) == 0) && ok;
    mx_free(samples);
    mx_free(whole);
    return ok;
}

/* In a process of its own: 0 when the file was transcribed. detector NULL: Silero's. */
static int transcribe(const char *model_name, mx_detector_fn detector, const char *path, const file_case *c) {
    mxw_status status;
    mxw_model *model = NULL;
    mxw_session *session = NULL;
    mxw_audio *audio = NULL;
    mxw_audio_options audio_options;
    const mxw_segment *segment;
    mxw_session_options options = kit_short_options(c->words ? 4 : 16);   /* words make runs of their own */
    options.clip_timestamps = c->clips;
    options.word_timestamps = c->words;
    options.vad = c->vad;
    options.vad_min_silence_ms = 300;
    options.no_speech_threshold = MXW_NONE;   /* every window gives segments, speech or not */
    mxw_audio_options_default(&audio_options);
    audio_options.path = path;
    MX_TRY(kit_open(model_name, 2, &model));
    model->open_detector = detector;
    MX_TRY(mxw_session_open(model, &options, &session));
    MX_TRY(mxw_audio_open(&audio_options, &audio));
    MX_TRY(mxw_session_feed_audio(session, audio));
    MX_TRY(mxw_session_finish(session));
    while ((status = mxw_session_next(session, &segment)) == MXW_OK)
        ;
    const mxw_result *result = mxw_session_result(session);
    if (status >= 0 && (!result || result->n_windows < 2 || result->duration_s != 60.0 * c->minutes))
        status = mx_fail(MXW_E_INTERNAL, "not the whole recording");
    if (status >= 0 && detector && c->vad && result->n_regions < (size_t)c->minutes)
        status = mx_fail(MXW_E_INTERNAL, "%zu regions in %d minutes", result->n_regions, c->minutes);
out:
    if (status < 0)
        printf("    %s: %s\n", path, mxw_last_error());
    mxw_audio_close(audio);
    mxw_session_close(session);
    mxw_model_close(model);
    return status < 0;
}

/* Peak resident kilobytes of the transcription, or -1. */
static long peak_kb(const char *model_name, mx_detector_fn detector, const char *folder, const file_case *c) {
    char path[4200];
    struct rusage usage;
    int status = 1;
    snprintf(path, sizeof(path), "%s/%s", folder, c->leaf);
    if (!CHECK(write_minutes(path, c->minutes)))
        return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int bad = transcribe(model_name, detector, path, c);
        fflush(stdout);
        _exit(bad);
    }
    int ok = CHECK(child > 0 && wait4(child, &status, 0, &usage) == child && status == 0);
    unlink(path);
    if (ok)
        printf("%s: %d minutes%s, peak %.1f MB\n", c->leaf, c->minutes, c->vad ? " with vad" : "",
               (double)usage.ru_maxrss / 1024);
    return ok ? usage.ru_maxrss : -1;
}

static int run_generated(void) {
    char folder[4096], path[4200];
    gen_options o = {.dims = kit_dims(51864, 64, 1, 1), .dtype = MXW_F16, .seed = 3};
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("memory", "max cpu");
    snprintf(path, sizeof(path), "%s/model.pt", folder);
    CHECK(gen_pt(path, &o) == 0);
    for (int vad = 0; vad < 2; vad++) {
        long minutes = peak_kb(path, fake_detector_open, folder, &(file_case){"ten-minutes.wav", 10, "0", 1, vad});
        long hours = peak_kb(path, fake_detector_open, folder, &(file_case){"three-hours.wav", 180, "0", 1, vad});
        CHECK(minutes > 0 && hours > 0 && hours - minutes < LIMIT_GENERATED_KB + vad * WAITING_KB);
    }
    gen_remove(folder);
    return check_done();
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "tiny.en";
    char folder[4096];
    if (strcmp(model, "generated") == 0)
        return run_generated();
    mxw_checkpoint *checkpoint = NULL;
    mxw_status status = mxw_checkpoint_open(model, NULL, &checkpoint);
    mxw_checkpoint_close(checkpoint);
    if (status == MXW_E_NOT_FOUND) {
        printf("SKIP: memory: model %s is not installed (make model MODEL=%s)\n", model, model);
        return 77;
    }
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    int can_hear = mxw_vad_location(NULL, NULL) != NULL;
    for (int vad = 0; vad <= can_hear; vad++) {
        long minute = peak_kb(model, NULL, folder, &(file_case){"minute.wav", 1, "0", 0, vad});
        long hour = peak_kb(model, NULL, folder, &(file_case){"hour.wav", 60, "0,60,1800,1860,3540,3600", 0, vad});
        CHECK(minute > 0 && hour > 0 && hour - minute < LIMIT_KB + vad * WAITING_KB);
    }
    if (!can_hear)
        printf("SKIP: memory with vad: silero-vad is not in %s (make model)\n", mxw_model_dir(NULL));
    gen_remove(folder);
    return check_done();
}
