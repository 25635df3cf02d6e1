/* test_audio_ffmpeg.c - audio/ through the FFmpeg module: samples byte-equal to those of the ffmpeg
 * command, on files that the same command makes; clear lines for files that cannot be read.
 * Usage: test_audio_ffmpeg quick|all. Skipped where the command or the module is not there. */
#include "audio/audio.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/module.h"
#include "audio_command.h"
#include "kit/check.h"

#define VIDEO "-f lavfi -i testsrc=s=64x48:r=5:d=1.3"

static char folder[] = "/tmp/mxw-test-ffmpeg-XXXXXX";
static int n_skipped;

static const struct {
    int quick;
    const char *file;
    const char *options;   /* of the command that makes it */
} files[] = {
    {1, "mono16.wav", "-f lavfi -i anoisesrc=r=16000:d=1.3:a=0.3:s=7 -c:a pcm_s16le"},
    {1, "stereo44.wav", "-f lavfi -i anoisesrc=r=44100:d=1.3:a=0.3:s=7 -ac 2 -c:a pcm_s16le"},
    {0, "mono8.wav", "-f lavfi -i anoisesrc=r=8000:d=1.3:a=0.3:s=7 -c:a pcm_s16le"},
    {0, "mono11.wav", "-f lavfi -i anoisesrc=r=11025:d=1.3:a=0.3:s=7 -c:a pcm_u8"},
    {0, "mono22.wav", "-f lavfi -i anoisesrc=r=22050:d=1.3:a=0.3:s=7 -c:a pcm_s24le"},
    {0, "mono96.wav", "-f lavfi -i anoisesrc=r=96000:d=1.3:a=0.3:s=7 -c:a pcm_f32le"},
    {0, "stereo48.wav", "-f lavfi -i anoisesrc=r=48000:d=1.3:a=0.3:s=7 -ac 2 -c:a pcm_f64le"},
    {0, "s32.wav", "-f lavfi -i anoisesrc=r=16000:d=1.3:a=0.3:s=7 -c:a pcm_s32le"},
    {0, "alaw.wav", "-f lavfi -i anoisesrc=r=8000:d=1.3:a=0.3:s=7 -c:a pcm_alaw"},
    {0, "mulaw.wav", "-f lavfi -i anoisesrc=r=8000:d=1.3:a=0.3:s=7 -c:a pcm_mulaw"},
    {1, "surround.wav", "-f lavfi -i \"anoisesrc=r=48000:d=1:s=3,aformat=channel_layouts=5.1\" -c:a pcm_s16le"},
    {0, "seven.wav", "-f lavfi -i \"anoisesrc=r=48000:d=1:s=3,aformat=channel_layouts=7.1\" -c:a pcm_s24le"},
    {1, "a.mp3", "-f lavfi -i anoisesrc=r=44100:d=1.3:a=0.3:s=7 -ac 2 -c:a libmp3lame"},
    {1, "a.m4a", "-f lavfi -i anoisesrc=r=44100:d=1.3:a=0.3:s=7 -ac 2 -c:a aac"},
    {0, "surround.m4a", "-f lavfi -i \"anoisesrc=r=48000:d=1:s=3,aformat=channel_layouts=5.1\" -c:a aac"},
    {0, "a.aac", "-f lavfi -i anoisesrc=r=24000:d=1.3:a=0.3:s=7 -c:a aac"},
    {0, "fragments.mp4", "-f lavfi -i anoisesrc=r=44100:d=1.3:a=0.3:s=7 -c:a aac -movflags frag_keyframe+empty_moov"},
    {0, "a.opus", "-f lavfi -i anoisesrc=r=48000:d=1.3:a=0.3:s=7 -ac 2 -c:a libopus"},
    {0, "a.ogg", "-f lavfi -i anoisesrc=r=22050:d=1.3:a=0.3:s=7 -c:a libvorbis"},
    {1, "a.flac", "-f lavfi -i anoisesrc=r=48000:d=1.3:a=0.3:s=7 -c:a flac"},
    {0, "a.webm", "-f lavfi -i anoisesrc=r=48000:d=1.3:a=0.3:s=7 -c:a libopus"},
    {0, "a.mka", "-f lavfi -i anoisesrc=r=48000:d=1.3:a=0.3:s=7 -c:a ac3"},
    {0, "surround.ac3", "-f lavfi -i \"anoisesrc=r=48000:d=1:s=3,aformat=channel_layouts=5.1\" -c:a ac3"},
    {0, "a.eac3", "-f lavfi -i anoisesrc=r=48000:d=1.3:a=0.3:s=7 -ac 2 -c:a eac3"},
    {0, "a.wma", "-f lavfi -i anoisesrc=r=44100:d=1.3:a=0.3:s=7 -ac 2 -c:a wmav2"},
    {0, "a.amr", "-f lavfi -i anoisesrc=r=8000:d=1.3:a=0.3:s=7 -c:a libopencore_amrnb"},
    {0, "a.aiff", "-f lavfi -i anoisesrc=r=44100:d=1.3:a=0.3:s=7 -c:a pcm_s16be"},
    {0, "a.caf", "-f lavfi -i anoisesrc=r=44100:d=1.3:a=0.3:s=7 -c:a alac"},
    {0, "a.spx", "-f lavfi -i anoisesrc=r=16000:d=1.3:a=0.3:s=7 -c:a libspeex"},
    {0, "adpcm.wav", "-f lavfi -i anoisesrc=r=22050:d=1.3:a=0.3:s=7 -c:a adpcm_ima_wav"},
    {1, "video.mp4", VIDEO " -f lavfi -i anoisesrc=r=44100:d=1.3:s=7 -c:v mpeg4 -c:a aac"},
    {0, "video.mkv", VIDEO " -f lavfi -i anoisesrc=r=44100:d=1.3:s=7 -c:v mpeg4 -c:a libmp3lame"},
    {0, "video.avi", VIDEO " -f lavfi -i anoisesrc=r=44100:d=1.3:s=7 -c:v mpeg4 -c:a libmp3lame"},
    {0, "video.mov", VIDEO " -f lavfi -i anoisesrc=r=44100:d=1.3:s=7 -c:v mpeg4 -c:a pcm_s16le"},
    {0, "video.ts", VIDEO " -f lavfi -i anoisesrc=r=48000:d=1.3:s=7 -c:v mpeg2video -c:a mp2"},
    {0, "video.mpg", VIDEO " -f lavfi -i anoisesrc=r=48000:d=1.3:s=7 -c:v mpeg2video -c:a mp2"},
    {0, "video.wmv", VIDEO " -f lavfi -i anoisesrc=r=44100:d=1.3:s=7 -c:v wmv2 -c:a wmav2"},
    {0, "video.flv", VIDEO " -f lavfi -i anoisesrc=r=44100:d=1.3:s=7 -c:v flv -c:a libmp3lame"},
    /* Edit lists: cut by copying, and sound that starts late. */
    {0, "cut.mp4", "-ss 0.4 -i \"$D/video.mp4\" -c copy"},
    {0, "late.mov", VIDEO " -itsoffset 0.5 -i \"$D/a.flac\" -map 0 -map 1 -c:v mpeg4 -c:a aac"},
    /* Two audio streams: the default one wins over channels; without one, channels do. */
    {1, "two.mkv", "-i \"$D/a.flac\" -i \"$D/surround.wav\" -map 0 -map 1 -c:a flac -disposition:a:0 default"},
    {0, "two-plain.mkv", "-i \"$D/a.flac\" -i \"$D/surround.wav\" -map 0 -map 1 -c:a flac -disposition:a 0"},
    {0, "two.mp4", "-i \"$D/a.flac\" -i \"$D/surround.wav\" -map 0 -map 1 -c:a aac"},
};

/* Each channel its own sound. */
#define VOICE(k) "0.3*sin(" #k "*997*t)+0.2*random(" #k ")"
#define TWO "-f lavfi -i \"aevalsrc='" VOICE(0) "|" VOICE(1) "':s=44100:d=1.1\" "
#define TWO_16K "-f lavfi -i \"aevalsrc='" VOICE(0) "|" VOICE(1) "':s=16000:d=1.1\" "
#define SIX "-f lavfi -i \"aevalsrc='" VOICE(0) "|" VOICE(1) "|" VOICE(2) "|" VOICE(3) "|" VOICE(4) "|" VOICE(5) \
    "':c=5.1:s=48000:d=1.1\" "
static const struct {
    int quick;
    const char *file;
    int tracks, channels;   /* of each track */
    const char *options;
} choices[] = {
    {1, "c2.wav", 1, 2, TWO "-c:a pcm_s16le"},
    {1, "c2-16k.wav", 1, 2, TWO_16K "-c:a pcm_s16le"},
    {0, "c2-16k-float.wav", 1, 2, TWO_16K "-c:a pcm_f32le"},
    {0, "c2-24.wav", 1, 2, TWO "-c:a pcm_s24le"},
    {1, "c2.mp3", 1, 2, TWO "-c:a libmp3lame"},
    {0, "c2.m4a", 1, 2, TWO "-c:a aac"},
    {0, "c2.opus", 1, 2, TWO "-c:a libopus"},
    {0, "c2.flac", 1, 2, TWO "-c:a flac"},
    {0, "c6.wav", 1, 6, SIX "-c:a pcm_s16le"},
    {0, "c6.flac", 1, 6, SIX "-c:a flac"},
    {0, "c6.m4a", 1, 6, SIX "-c:a aac"},
    {1, "tracks.mkv", 3, 2, VIDEO " -i \"$D/c2.wav\" -i \"$D/c2-16k.wav\" -i \"$D/c2.mp3\" -map 1 -map 0 -map 2 -map 3 "
                            "-c:v mpeg4 -c:a flac -disposition:a:1 default"},
    {0, "tracks.mp4", 2, 2, "-i \"$D/c2.wav\" -i \"$D/c2.mp3\" -map 0 -map 1 -c:a aac"},
};

static const char *in_folder(const char *name) {
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void check_file(const char *name) {
    char why[256];
    if (!CHECK(same_as_command(in_folder(name), why, sizeof(why))))
        printf("    %s: %s\n", name, why);
}

static int make_file(const char *name, const char *options) {
    char command[1024];
    snprintf(command, sizeof(command), "D=%s; ffmpeg -v quiet -nostdin -y %s \"$D/%s\"", folder, options, name);
    if (system(command) == 0)
        return 1;
    printf("SKIP: %s: this ffmpeg does not make it\n", name);
    n_skipped++;
    return 0;
}

/* Every channel of every track, and the mix of every track, as the command gives them; quickly: of the default track,
 * or of the last of several. */
static void check_choices(const char *name, int tracks, int channels, int all) {
    char why[256];
    for (int track = 0; track <= tracks; track++)
        for (int channel = 0; channel <= channels; channel++) {
            if (!all && track != (tracks == 1 ? 0 : tracks))
                continue;
            mx_audio_source source = {in_folder(name), channel, track};
            if (!CHECK(same_choice(&source, why, sizeof(why))))
                printf("    %s, track %d, channel %d: %s\n", name, track, channel, why);
        }
}

/* A piece of shell in the folder. */
static int shell(const char *script) {
    char command[1024];
    snprintf(command, sizeof(command), "cd %s && %s", folder, script);
    return system(command) == 0;
}

/* The format changes on the way; damaged and cut files give what the command gets out of them. */
static void test_odd_streams(void) {
    if (shell("ffmpeg -v quiet -nostdin -i a.mp3 -ar 22050 -ac 1 b.mp3 && cat a.mp3 b.mp3 > change.mp3")) {
        check_file("change.mp3");
        shell("head -c 9000 a.mp3 > short.mp3; cp short.mp3 hole.mp3; head -c 999 b.mp3 | tail -c 200 >> hole.mp3;"
              " tail -c 8000 a.mp3 >> hole.mp3");
        check_file("short.mp3");
        check_file("hole.mp3");
    }
    shell("head -c 60000 a.flac > short.flac; head -c 20000 a.flac > hole.flac; tail -c 30000 a.flac >> hole.flac");
    check_file("short.flac");
    check_file("hole.flac");
    shell("head -c 30001 stereo44.wav > short.wav; cp mono16.wav twice.wav; tail -c +71 mono16.wav >> twice.wav");
    check_file("short.wav");
    check_file("twice.wav");   /* a second data chunk behind the first */
}

/* Through a pipe, as a file on standard input, and an MP4 whose index comes last. */
static void test_standard_input(int all) {
    static const char *const names[] = {"a.mp3", "a.m4a", "stereo44.wav", "a.ogg", "cut.mp4"};
    for (size_t i = 0; i < (all ? MX_COUNT(names) : 2); i++)
        for (int piped = !all; piped < 2; piped++) {
            char why[256];
            if (access(in_folder(names[i]), R_OK) == 0 &&
                !CHECK(same_through_standard_input(in_folder(names[i]), piped, why, sizeof(why))))
                printf("    %s%s: %s\n", names[i], piped ? " through a pipe" : "", why);
        }
}

static void expect(const char *name, mxw_status status, const char *line) {
    const char *path = in_folder(name);
    size_t n;
    int16_t *samples;
    CHECK_EQ_INT(read_samples(path, &samples, &n), status);
    free(samples);
    if (!CHECK(strstr(mx_error(), path) == mx_error() && strstr(mx_error(), line)))
        printf("    got \"%s\", want \"%s\"\n", mx_error(), line);
}

static void expect_choice(const char *name, int channel, int track, mxw_status status, const char *line) {
    char want[600];
    size_t n;
    int16_t *samples;
    mx_audio_source source = {in_folder(name), channel, track};
    snprintf(want, sizeof(want), "%s: %s", source.path, line);
    CHECK_EQ_INT(read_source(&source, &samples, &n), status);
    free(samples);
    CHECK_STR(mx_error(), want);
}

/* Channels and tracks that are not there, from the start or from some point on. */
static void test_missing_choices(void) {
    expect_choice("c2.wav", 3, 0, MXW_E_MISSING, "has 2 channels, so there is no channel 3");
    expect_choice("c2.mp3", 3, 0, MXW_E_MISSING, "has 2 channels, so there is no channel 3");
    expect_choice("c2.mp3", 0, 2, MXW_E_MISSING, "has 1 audio track, so there is no track 2");
    expect_choice("c2.wav", 0, 2, MXW_E_MISSING, "has 1 audio track, so there is no track 2");
    expect_choice("tracks.mkv", 2, 4, MXW_E_MISSING, "has 3 audio tracks, so there is no track 4");
    expect_choice("a.flac", 2, 1, MXW_E_MISSING, "has 1 channel, so there is no channel 2");
    if (shell("ffmpeg -v quiet -nostdin -i c2.mp3 -ac 1 c1.mp3 && cat c2.mp3 c1.mp3 > fewer.mp3"))
        expect_choice("fewer.mp3", 2, 0, MXW_E_FORMAT,
                      "after 1.1 seconds its sound goes on with fewer channels, without channel 2");
    CHECK_EQ_INT(mx_mem_live(), 0);
}

/* Sound that begins later than the picture says so; the samples themselves are not moved. */
static void test_start(void) {
    static const struct {
        const char *file, *options;
        double start_s;
    } cases[] = {
        {"start.mkv", VIDEO " -itsoffset 1.5 -i \"$D/c2.wav\" -map 0 -map 1 -c:v mpeg4 -c:a pcm_s16le", 1.5},
        {"start.mov", VIDEO " -itsoffset 0.75 -i \"$D/c2.wav\" -map 0 -map 1 -c:v mpeg4 -c:a pcm_s16le", 0.75},
        {"together.mkv", VIDEO " -i \"$D/c2.wav\" -map 0 -map 1 -c:v mpeg4 -c:a pcm_s16le", 0},
        {"both-late.mkv", "-itsoffset 1.5 -i \"$D/c2.wav\" -c:a pcm_s16le", 0},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        mx_audio *audio;
        mxw_audio_info info;
        if (!make_file(cases[i].file, cases[i].options) ||
            !CHECK(mx_audio_open(&(mx_audio_source){in_folder(cases[i].file)}, &audio) == MXW_OK))
            continue;
        mx_audio_info(audio, &info);
        if (!CHECK(fabs(info.start_s - cases[i].start_s) < 0.0015 && info.tracks == 1))
            printf("    %s: starts at %g, want %g\n", cases[i].file, info.start_s, cases[i].start_s);
        mx_audio_close(audio);
        check_file(cases[i].file);
    }
}

/* Samples in all and before the first place where some are missing, and the seconds that are. */
static void hear(const char *name, int live, int64_t *n, int64_t *place, double *missing_s) {
    float block[512];
    size_t got = 1;
    mx_audio *audio;
    mxw_audio_info info;
    mx_audio_source source = {.path = in_folder(name), .live = live};
    *n = *place = 0;
    *missing_s = -1;
    if (!CHECK(mx_audio_open(&source, &audio) == MXW_OK))
        return;
    for (; got > 0; *n += (int64_t)got) {
        if (!CHECK(mx_audio_read(audio, block, MX_COUNT(block), &got) == MXW_OK))
            break;
        mx_audio_info(audio, &info);
        *place = info.missing_s > 0 && *missing_s <= 0 ? *n : *place;
        *missing_s = info.missing_s;
    }
    mx_audio_close(audio);
}

/* Timestamps that skip something, tremble, run a little too fast, go back, or start again. */
static void test_missing(void) {
#define SOUND(set) "-f lavfi -i anoisesrc=r=16000:d=6:a=0.3:s=7 -af 'asetpts=" set "' "
    static const struct {
        const char *file, *options;
        int64_t place;
        double missing_s;
    } cases[] = {
        {"hole.mka", SOUND("PTS+gte(T\\,2)*3/TB") "-c:a pcm_s16le", 32000, 3},
        {"small.mka", SOUND("PTS+gte(T\\,2)*0.3/TB") "-c:a pcm_s16le", 32000, 0.3},
        {"two.mka", SOUND("PTS+gte(T\\,2)*3/TB+gte(T\\,4)*900/TB") "-c:a pcm_s16le", 32000, 903},
        {"hole.m4a", SOUND("PTS+gte(T\\,2)*3/TB") "-c:a aac -movflags frag_keyframe+empty_moov", 32000, 3},
        {"hole.ogg", SOUND("PTS+gte(T\\,2)*3/TB") "-c:a flac", 32000, 3},
        {"hole.ts", SOUND("PTS+gte(T\\,2)*3/TB") "-c:a mp2", 32000, 3},
        {"hole.flac", SOUND("PTS+gte(T\\,2)*3/TB") "-c:a flac", 0, 0}, /* has no timestamps */
        {"trembles.mka", SOUND("PTS+mod(floor(T*3)\\,2)*0.1/TB") "-c:a pcm_s16le", 0, 0},
        {"fast.mka", "-f lavfi -i anoisesrc=r=4000:d=400:s=7 -af 'asetpts=PTS*1.0007' -c:a pcm_s16le", 0, 0},
        {"plain.ts", SOUND("PTS") "-c:a mp2", 0, 0},
        {"later.ts", SOUND("PTS") "-c:a mp2 -output_ts_offset 2000", 0, 0},
        {"soon.ts", SOUND("PTS") "-c:a mp2 -output_ts_offset 9", 0, 0},
        {"back.ts", "-i \"$D/plain.ts\" -c copy", 0, 0},     /* what these are made of comes below */
        {"again.ts", "-i \"$D/plain.ts\" -c copy", 0, 0},
        {"back-and-on.ts", "-i \"$D/plain.ts\" -c copy", 0, 0},
        {"on.ts", "-i \"$D/plain.ts\" -c copy", 96000, 3},
    };
#undef SOUND
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        if (!make_file(cases[i].file, cases[i].options))
            return;
        if (!strcmp(cases[i].file, "on.ts"))
            CHECK(shell("cat plain.ts plain.ts > back.ts; cat plain.ts later.ts plain.ts > again.ts;"
                        "cat plain.ts plain.ts soon.ts > back-and-on.ts; cat plain.ts soon.ts > on.ts"));
    }
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        int64_t n, place, all;
        double missing_s;
        hear(cases[i].file, 0, &all, &place, &missing_s);
        CHECK(missing_s == 0 && place == 0);
        hear(cases[i].file, 1, &n, &place, &missing_s);
        if (!CHECK(n == all && fabs(missing_s - cases[i].missing_s) < 0.1 && llabs(place - cases[i].place) < 3000))
            printf("    %s: %g s are missing at %lld; %lld samples of %lld\n", cases[i].file, missing_s,
                   (long long)place, (long long)n, (long long)all);
    }
}

static void test_failures(void) {
    expect("missing.mp3", MXW_E_NOT_FOUND, "no such file");
    shell("printf '' > empty.mp3; head -c 5000 /dev/urandom > noise.bin; mkdir folder.mp3");
    expect("empty.mp3", MXW_E_FORMAT, "is empty");
    expect("folder.mp3", MXW_E_IO, "is a folder");
    shell("printf '\\001\\002\\003\\004 nothing that anyone plays' > nothing.bin");
    expect("nothing.bin", MXW_E_FORMAT, "is not an audio or video file");
    if (shell("ffmpeg -v quiet -nostdin -i video.mp4 -an -c copy silent.mp4"))
        expect("silent.mp4", MXW_E_MISSING, "has no audio stream");
    if (shell("head -c 5000 a.m4a > short.m4a"))
        expect("short.m4a", MXW_E_FORMAT, "is damaged or cut short (moov atom not found)");
    CHECK_EQ_INT(mx_mem_live(), 0);
}

static void test_info(void) {
    mx_audio *audio;
    mxw_audio_info info;
    if (access(in_folder("a.m4a"), R_OK) != 0)
        return;
    CHECK(mx_audio_open(&(mx_audio_source){in_folder("a.m4a")}, &audio) == MXW_OK);
    mx_audio_info(audio, &info);
    CHECK_STR(info.codec, "aac");
    CHECK_STR(info.path, in_folder("a.m4a"));
    CHECK(strstr(info.container, "mp4") && info.sample_rate == 44100 && info.channels == 2);
    CHECK(info.duration_s > 1.2 && info.duration_s < 1.5);
    mx_audio_close(audio);
}

int main(int argc, char **argv) {
    int all = argc > 1 && strcmp(argv[1], "all") == 0;
    const void *table;
    if (system("ffmpeg -version > /dev/null 2>&1") != 0 || mx_module_get("ffmpeg", &table) < 0 || !mkdtemp(folder)) {
        printf("SKIP: audio-ffmpeg: no ffmpeg command, module or temporary folder\n");
        return 77;
    }
    for (size_t i = 0; i < MX_COUNT(files); i++)
        if ((all || files[i].quick) && make_file(files[i].file, files[i].options))
            check_file(files[i].file);
    for (size_t i = 0; i < MX_COUNT(choices); i++)
        if ((all || choices[i].quick) && make_file(choices[i].file, choices[i].options))
            check_choices(choices[i].file, choices[i].tracks, choices[i].channels, all);
    test_missing_choices();
    test_start();
    test_missing();
    test_odd_streams();
    test_standard_input(all);
    test_failures();
    test_info();
    char command[256];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    CHECK(system(command) == 0);
    printf("%d kinds of file skipped\n", n_skipped);
    return check_done();
}
