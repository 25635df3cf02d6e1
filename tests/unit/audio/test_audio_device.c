/* test_audio_device.c - devices without a microphone: FFmpeg's generators, an ALSA device that reads a file, none at
 * all. Sound comes, calls end when they are told to, and what is not to be had is one line. Needs the modules ffmpeg
 * and avdevice. */
#include <math.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/module.h"
#include "base/status.h"
#include "kit/check.h"
#include "wav_bytes.h"

static char folder[] = "/tmp/mxw-test-device-XXXXXX";

static mxw_audio_options from_device(const char *device) {
    mxw_audio_options options;
    mxw_audio_options_default(&options);
    options.device = device;
    return options;
}

/* Opens, reads up to `most` samples, and closes; the root mean square of what came. */
static mxw_status listen(const mxw_audio_options *options, size_t most, size_t *n, double *level) {
    float block[512];
    size_t got = 1;
    double sum = 0;
    mxw_audio *audio = NULL;
    *n = 0;
    mxw_status status = mxw_audio_open(options, &audio);
    while (status >= 0 && got > 0 && *n < most) {
        status = mxw_audio_read(audio, block, MX_MIN(MX_COUNT(block), most - *n), &got);
        for (size_t i = 0; status >= 0 && i < got; i++)
            sum += (double)block[i] * block[i];
        *n += status >= 0 ? got : 0;
    }
    *level = sqrt(sum / (double)MX_MAX(*n, (size_t)1));
    mxw_audio_close(audio);
    return status;
}

static int n_asked;

static int stop_soon(void *user) { return ++n_asked > *(int *)user; }

static void test_generators(void) {
    size_t n;
    double level;
    mxw_audio_options options = from_device("lavfi:sine=frequency=440:sample_rate=44100:duration=1");
    CHECK_EQ_INT(listen(&options, 1 << 20, &n, &level), MXW_OK);
    CHECK(n > 15900 && n < 16100 && fabs(level - 0.125 / sqrt(2)) < 0.002);
    options.device_rate = 48000;
    CHECK_EQ_INT(listen(&options, 1, &n, &level), MXW_E_UNSUPPORTED);
    CHECK_STR(mxw_last_error(), "lavfi:sine=frequency=440:sample_rate=44100:duration=1: does not record at 48000 Hz, "
                                "but at 44100");
    int most = 20;
    options = from_device("lavfi:anullsrc");
    options.should_abort = stop_soon;
    options.user = &most;
    CHECK_EQ_INT(listen(&options, SIZE_MAX, &n, &level), MXW_E_ABORTED);
    CHECK(n > 0 && level == 0);
}

/* A file for the configuration of ALSA, instead of the machine's; before the first use of it. */
static int configure_alsa(void) {
    char path[256], sound[256];
    int16_t samples[48000];
    for (int i = 0; i < 48000; i++)
        samples[i] = (int16_t)(i / 24 % 2 ? 8192 : -8192);
    snprintf(sound, sizeof(sound), "%s/sound.raw", folder);
    snprintf(path, sizeof(path), "%s/asound.conf", folder);
    save(sound, (bytes){(uint8_t *)samples, sizeof(samples)});
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    fprintf(file, "pcm.null { type null }\n"
                  "pcm.mic { type file slave { pcm null } file \"/dev/null\" infile \"%s\" format raw }\n"
                  "ctl.mic { type hw card 0 }\n", sound);
    return !fclose(file) && !setenv("ALSA_CONFIG_PATH", path, 1);
}

static void test_alsa(void) {
    size_t n;
    double level;
    mxw_audio_options options = from_device("alsa:mic");
    mxw_status status = listen(&options, 8000, &n, &level);
    if (status == MXW_E_UNSUPPORTED && strstr(mxw_last_error(), "no input device")) {
        printf("SKIP: alsa: FFmpeg has no ALSA here\n");
        return;
    }
    CHECK_EQ_INT(status, MXW_OK);
    CHECK(n == 8000 && fabs(level - 0.25) < 0.03);
    options.device = "alsa:nosuch";
    CHECK_EQ_INT(listen(&options, 1, &n, &level), MXW_E_NOT_FOUND);
    CHECK(!strncmp(mxw_last_error(), "alsa:nosuch: cannot open audio device nosuch", 44));
}

static void count(void *user, const char *device, const char *description, int is_default) {
    (void)is_default;
    *(int *)user += device[0] && description ? 1 : 1000;
}

static void test_none(void) {
    size_t n;
    double level;
    mxw_audio_options options = from_device("default");
    CHECK_EQ_INT(listen(&options, 1, &n, &level), MXW_E_NOT_FOUND);
    CHECK(!strncmp(mxw_last_error(), "no microphone can be opened (pulse: ", 36));
    options.device = "pulse:nosuch";
    CHECK_EQ_INT(listen(&options, 1, &n, &level), MXW_E_NOT_FOUND);
    options.device = "nosuch:thing";
    CHECK_EQ_INT(listen(&options, 1, &n, &level), MXW_E_UNSUPPORTED);
    CHECK_STR(mxw_last_error(), "nosuch:thing: FFmpeg has no input device 'nosuch' here");
    options.device = "wav:/etc/passwd";   /* a format, not a device */
    CHECK_EQ_INT(listen(&options, 1, &n, &level), MXW_E_UNSUPPORTED);
    options.device = ":x";
    CHECK_EQ_INT(listen(&options, 1, &n, &level), MXW_E_ARGUMENT);
    options.device = "";
    CHECK_EQ_INT(listen(&options, 1, &n, &level), MXW_E_ARGUMENT);
    options = from_device("default");
    options.path = "x.wav";
    CHECK_EQ_INT(listen(&options, 1, &n, &level), MXW_E_ARGUMENT);
    int n_found = 0;
    CHECK_EQ_INT(mxw_audio_list_devices(count, &n_found), MXW_OK);
    CHECK(n_found < 1000);
    CHECK_EQ_INT(mxw_audio_list_devices(NULL, NULL), MXW_E_ARGUMENT);
}

/* Small packets and a decoder without threads change nothing but the delay. */
static void test_live(void) {
    int16_t pcm[12345];
    float got[2][30000];
    size_t n[2] = {0, 0}, part;
    for (size_t i = 0; i < MX_COUNT(pcm); i++)
        pcm[i] = (int16_t)(i * 7919 % 20011);
    bytes wav = make_wav((wav_spec){.tag = 1, .channels = 1, .rate = 8000, .bits = 16}, pcm, sizeof(pcm));
    for (int live = 0; live < 2; live++) {
        mxw_audio *audio = NULL;
        mxw_audio_options options;
        mxw_audio_options_default(&options);
        options.data = wav.data;
        options.size = wav.n;
        options.live = live;
        CHECK_EQ_INT(mxw_audio_open(&options, &audio), MXW_OK);
        while (mxw_audio_read(audio, got[live] + n[live], MX_COUNT(got[0]) - n[live], &part) >= 0 && part)
            n[live] += part;
        mxw_audio_close(audio);
    }
    CHECK(n[0] > 24000 && n[0] == n[1] && !memcmp(got[0], got[1], n[0] * sizeof(float)));
    free(wav.data);
    mxw_audio *audio;
    mxw_audio_options options = from_device(NULL);
    options.path = "x.wav";
    options.device_rate = 16000;
    CHECK_EQ_INT(mxw_audio_open(&options, &audio), MXW_E_ARGUMENT);
}

int main(void) {
    const void *table;
    char command[300];
    if (mx_module_get("ffmpeg", &table) < 0 || mx_module_get("avdevice", &table) < 0) {
        printf("SKIP: audio-device: %s\n", mxw_last_error());
        return 77;
    }
    if (!mkdtemp(folder) || !configure_alsa() || setenv("PULSE_SERVER", "unix:/nonexistent", 1))
        return 1;
    test_generators();
    test_alsa();
    test_none();
    test_live();
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    CHECK(system(command) == 0);
    return check_done();
}
