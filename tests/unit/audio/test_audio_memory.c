/* test_audio_memory.c - ten hours through audio/ and feature/: memory does not grow with the recording. The file is
 * sparse; its mel frames go to the temporary folder (1.2 GB), so it is skipped where that has no room. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "audio/audio.h"
#include "kit/check.h"
#include "feature/feature.h"
#include "wav_bytes.h"

#define HOURS 10
#define N_SAMPLES ((int64_t)HOURS * 3600 * 16000)
#define GROWTH_LIMIT (4 << 20)   /* bytes: less than half a minute of samples more */
#define ROOM ((uint64_t)3 << 29)

static int64_t resident(void) {
    long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%ld %ld", &all, &pages) != 2)
            pages = 0;
        fclose(file);
    }
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static void make_sparse(const char *path) {
    wav_spec spec = {.tag = 1, .channels = 1, .rate = 16000, .bits = 16, .size_given = 1,
                     .size_value = (uint32_t)(N_SAMPLES * 2)};
    bytes b = make_wav(spec, "", 0);
    save(path, b);
    CHECK(truncate(path, (off_t)b.n + N_SAMPLES * 2) == 0);
    free(b.data);
}

int main(void) {
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    static float samples[4096], window[MX_MEL_WINDOW * 80];
    struct statvfs room;
    char path[4096];
    mx_audio *audio;
    mx_mel *mel;
    size_t got = 1;
    int64_t n = 0, early = 0;
    if (statvfs(dir, &room) != 0 || (uint64_t)room.f_bavail * room.f_frsize < ROOM || resident() == 0) {
        printf("SKIP: audio-memory: %s has less than 1.5 GB free, or no /proc\n", dir);
        return 77;
    }
    snprintf(path, sizeof(path), "%s/mxw-ten-hours-%d.wav", dir, (int)getpid());
    make_sparse(path);
    CHECK(mx_audio_open(&(mx_audio_source){path}, &audio) == MXW_OK);
    CHECK(mx_mel_open(80, MXW_MEL_FILE, &mel) == MXW_OK);
    unlink(path);
    mxw_status status = MXW_OK;
    while (status >= 0 && got > 0) {
        status = mx_audio_read(audio, samples, 4096, &got);
        for (size_t i = 0; i < got; i += 64)
            samples[i] = (float)((n + (int64_t)i) % 1000) / 2000.0f;
        if (status >= 0)
            status = mx_mel_feed(mel, samples, got);
        n += (int64_t)got;
        if (!early && n > (int64_t)20 * 60 * 16000)   /* past the limit of what is kept in memory */
            early = resident();
    }
    CHECK_EQ_INT(status, MXW_OK);
    CHECK_EQ_INT(n, N_SAMPLES);
    CHECK(mx_mel_finish(mel) == MXW_OK);
    CHECK_EQ_INT(mx_mel_frames(mel), N_SAMPLES / 160);
    for (int64_t seek = 0; seek < mx_mel_frames(mel); seek += mx_mel_frames(mel) / 7)
        CHECK(mx_mel_window(mel, seek, 3000, 1, window) == MXW_OK);
    int64_t growth = resident() - early;
    printf("resident after 20 minutes %.1f MB, after %d hours %+.1f MB\n", (double)early / 1e6, HOURS,
           (double)growth / 1e6);
    CHECK(growth < GROWTH_LIMIT);
    mx_mel_close(mel);
    mx_audio_close(audio);
    return check_done();
}
