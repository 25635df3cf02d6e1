/* audio/audio.c - selects the reader: WAV that needs no conversion is read here, everything else by the FFmpeg module.
 * Without the module, other WAVs are converted here. */
#include "audio/audio.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "audio/device.h"
#include "audio/ffmpeg_module.h"
#include "audio/input.h"
#include "audio/resample.h"
#include "audio/wav.h"
#include "base/log.h"
#include "base/mem.h"

#define BLOCK 4096   /* samples or frames read at a time */

typedef enum reader { READ_PLAIN, READ_CONVERTED, READ_FFMPEG } reader;

struct mx_audio {
    char *path;
    int channel, track, live;  /* as requested */
    int is_file;               /* path can be opened again and read from its start */
    reader reader;
    mx_input input;
    mx_wav wav;
    int64_t data_left;         /* bytes of the WAV's samples still to read, as its header says */
    int ended;
    mx_resample *resample;     /* NULL at 16 kHz */
    const mx_ffmpeg_table *ffmpeg;
    mx_ffmpeg *file;
    uint8_t *bytes;            /* [BLOCK] frames of the WAV */
    double mono[BLOCK];
    int16_t pcm[BLOCK];
    int64_t n_samples;         /* delivered so far; -1 once the end was reported */
};

/* ---- opening ------------------------------------------------------------------------------------- */

static int ffmpeg_read_bytes(void *user, uint8_t *bytes, int n) {
    size_t got;
    return n > 0 && mx_input_read_some(user, bytes, (size_t)n, &got) >= 0 ? (int)got : -1;
}

static int64_t ffmpeg_seek(void *user, int64_t offset) {
    return offset >= 0 && mx_input_seek(user, offset) >= 0 ? offset : -1;
}

/* An MP4 or QuickTime file whose audio comes before its index cannot be streamed. Boxes: size, name, bytes. */
static mxw_status find_index(mx_input *input, int *comes_last) {
    static const char *const openers[] = {"ftyp", "free", "skip", "wide", "uuid"};
    uint8_t head[16];
    size_t got, k;
    for (int64_t at = 0;;) {
        mxw_status status = mx_input_peek(input, at, head, sizeof(head), &got);
        if (status < 0)
            return status == MXW_E_UNSUPPORTED ? MXW_OK : status;   /* too far away to tell */
        if (got < sizeof(head))
            return MXW_OK;
        *comes_last = memcmp(head + 4, "mdat", 4) == 0;
        if (*comes_last)
            return MXW_OK;
        for (k = 0; k < MX_COUNT(openers) && memcmp(head + 4, openers[k], 4) != 0; k++)
            ;
        uint32_t size = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 | head[3];
        if (k == MX_COUNT(openers) || size < 8)
            return MXW_OK;
        at += size;
    }
}

static mxw_status open_ffmpeg(mx_audio *audio) {
    int comes_last = 0;
    mxw_status status = audio->input.regular ? MXW_OK : find_index(&audio->input, &comes_last);
    if (status < 0)
        return status;
    if (comes_last) {
        mx_log(MXW_LOG_INFO, "audio", "%s: its index may be at its end, so it is read completely first",
               audio->input.name);
        status = mx_input_spool(&audio->input);
        if (status < 0)
            return status;
    }
    mx_ffmpeg_input input = {.name = audio->input.name,
                             .path = audio->is_file ? audio->path : NULL,
                             .user = &audio->input,
                             .read = ffmpeg_read_bytes,
                             .seek = audio->input.regular ? ffmpeg_seek : NULL,
                             .size = audio->input.size,
                             .channel = audio->channel,
                             .track = audio->track,
                             .live = audio->live};
    audio->reader = READ_FFMPEG;
    return audio->ffmpeg->open(&input, &audio->file);
}

static mxw_status open_wav(mx_audio *audio) {
    mx_wav *wav = &audio->wav;
    audio->data_left = wav->data_bytes;
    audio->bytes = mx_alloc_array(BLOCK, (size_t)wav->frame_bytes);
    if (!audio->bytes)
        return MXW_E_MEMORY;
    if (wav->sample_rate != MXW_SAMPLE_RATE) {
        mxw_status status = mx_resample_open(wav->sample_rate, &audio->resample);
        if (status < 0)
            return status;
    }
    audio->reader = mx_wav_is_plain(wav) ? READ_PLAIN : READ_CONVERTED;
    return mx_input_seek(&audio->input, wav->data_offset);
}

static pthread_once_t warn_once = PTHREAD_ONCE_INIT;

static void warn_converter(void) {
    mx_log(MXW_LOG_WARN, "audio", "%s: WAV files are converted by the built-in converter, whose samples are close to "
           "FFmpeg's but not identical", mx_error());
}

static mxw_status check_not_empty(mx_input *input) {
    uint8_t byte;
    size_t got;
    mxw_status status = mx_input_peek(input, 0, &byte, 1, &got);
    if (status >= 0 && got == 0)
        status = mx_fail(MXW_E_FORMAT, "%s: is empty", input->name);
    return status;
}

static mxw_status choose_in_wav(mx_audio *audio) {
    if (audio->track > 1)
        return mx_fail(MXW_E_MISSING, "%s: has 1 audio track, so there is no track %d", audio->input.name,
                       audio->track);
    return mx_wav_choose(&audio->input, &audio->wav, audio->channel);
}

/* WAV without conversion, else FFmpeg, else WAV converted here, else an error. */
static mxw_status choose(mx_audio *audio) {
    mx_input *input = &audio->input;
    const void *table = NULL;
    mxw_status wav_status = MXW_E_FORMAT;
    int is_wav = 0;
    mxw_status status = mx_wav_probe(input, &is_wav);
    if (status < 0)
        return status;
    if (is_wav)
        wav_status = mx_wav_parse(input, &audio->wav);
    if (is_wav && (wav_status == MXW_E_MEMORY || wav_status == MXW_E_IO))   /* nothing that FFmpeg could do better */
        return wav_status;
    if (wav_status >= 0)
        status = choose_in_wav(audio);
    if (status < 0)
        return status;
    if (wav_status >= 0 && mx_wav_is_plain(&audio->wav))
        return open_wav(audio);
    status = mx_module_get("ffmpeg", &table);
    audio->ffmpeg = table;
    if (status >= 0)
        return open_ffmpeg(audio);
    if (wav_status >= 0) {
        pthread_once(&warn_once, warn_converter);
        return open_wav(audio);
    }
    if (is_wav)
        return mx_wav_parse(input, &audio->wav);   /* for its error line, which the failed module search has replaced */
    return mx_fail_in(MXW_E_UNSUPPORTED, "%s: is not a WAV file, and other formats need FFmpeg", input->name);
}

mxw_status mx_audio_open(const mx_audio_source *source, mx_audio **out) {
    mxw_status status = MXW_E_MEMORY;
    *out = NULL;
    mx_audio *audio = mx_alloc_zero(1, sizeof(*audio));
    if (!audio)
        return MXW_E_MEMORY;
    audio->input.fd = -1;
    audio->channel = source->channel;
    audio->track = source->track;
    audio->live = source->live;
    audio->path = mx_strdup(source->path ? source->path : source->device ? source->device : source->name);
    if (!audio->path)
        goto out;
    if (source->device) {
        audio->reader = READ_FFMPEG;
        audio->input.name = audio->path;
        MX_TRY(mx_device_open(source, &audio->ffmpeg, &audio->file));
        *out = audio;
        goto out;
    }
    if (source->path)
        MX_TRY(mx_input_open(&audio->input, audio->path));
    else
        MX_TRY(mx_input_open_bytes(&audio->input, &source->bytes, audio->path));
    audio->is_file = audio->input.regular && audio->input.owned;
    MX_TRY(check_not_empty(&audio->input));
    status = choose(audio);
    if (status < 0 && audio->input.failed)   /* that is why, whatever the last reader made of it */
        status = mx_input_fail_callback(&audio->input, audio->input.failed);
    if (status < 0)
        goto out;
    *out = audio;
out:
    if (status < 0)
        mx_audio_close(audio);
    return status;
}

void mx_audio_close(mx_audio *audio) {
    if (!audio)
        return;
    if (audio->file)
        audio->ffmpeg->close(audio->file);
    mx_resample_close(audio->resample);
    mx_input_close(&audio->input);
    mx_free(audio->bytes);
    mx_free(audio->path);
    mx_free(audio);
}

void mx_audio_info(const mx_audio *audio, mxw_audio_info *info) {
    const mx_wav *wav = &audio->wav;
    memset(info, 0, sizeof(*info));
    if (audio->reader == READ_FFMPEG) {
        audio->ffmpeg->info(audio->file, info);
    } else {
        int64_t bytes = wav->data_bytes;
        if (audio->input.size >= 0)
            bytes = MX_MIN(bytes, MX_MAX(audio->input.size - wav->data_offset, 0));
        info->container = "wav";
        info->codec = wav->codec_name;
        info->sample_rate = info->read_rate = wav->sample_rate;
        info->channels = wav->channels;
        info->tracks = 1;
        info->duration_s =
            bytes == MX_WAV_UNTIL_END ? -1 : (double)(bytes / wav->frame_bytes) / (double)wav->sample_rate;
    }
    info->path = audio->path;
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* Whole frames of the WAV into audio->bytes. */
static mxw_status read_frames(mx_audio *audio, size_t n, size_t *n_frames) {
    size_t frame_bytes = (size_t)audio->wav.frame_bytes, got;
    int64_t whole = MX_MIN((int64_t)(n * frame_bytes), audio->data_left);
    mxw_status status = mx_input_read(&audio->input, audio->bytes, (size_t)whole, &got);
    if (status < 0)
        return status;
    if ((int64_t)got < whole && audio->data_left != MX_WAV_UNTIL_END)
        mx_log(MXW_LOG_WARN, "audio", "%s: truncated by %lld bytes; the rest is used",
               audio->input.name, (long long)(audio->data_left - (int64_t)got));
    if (audio->data_left != MX_WAV_UNTIL_END)
        audio->data_left -= (int64_t)got;
    *n_frames = got / frame_bytes;
    audio->ended = *n_frames < n;
    return MXW_OK;
}

static mxw_status read_plain(mx_audio *audio, float *samples, size_t n, size_t *got) {
    *got = 0;
    if (audio->ended)
        return MXW_OK;
    mxw_status status = read_frames(audio, n, got);
    const mx_wav *wav = &audio->wav;
    for (size_t i = 0; status >= 0 && i < *got; i++)
        samples[i] = (float)mx_wav_plain_sample(wav, audio->bytes + i * (size_t)wav->frame_bytes) / 32768.0f;
    return status;
}

/* Rounds to 16 bits, as the reference decodes it. */
static float quantise(double value) {
    return (float)(fmax(-32768.0, fmin(32767.0, nearbyint(value * 32768.0))) / 32768.0);
}

static mxw_status read_converted(mx_audio *audio, float *samples, size_t n, size_t *got) {
    mxw_status status = MXW_OK;
    size_t n_frames;
    for (;;) {
        *got = audio->resample ? mx_resample_read(audio->resample, audio->mono, n) : 0;
        if (*got > 0 || audio->ended)
            break;
        status = read_frames(audio, audio->resample ? BLOCK : n, &n_frames);
        if (status < 0)
            return status;
        mx_wav_decode(&audio->wav, audio->bytes, n_frames, audio->mono);
        if (!audio->resample) {
            *got = n_frames;
            break;
        }
        status = mx_resample_feed(audio->resample, audio->mono, n_frames);
        if (status < 0)
            return status;
        if (audio->ended)
            mx_resample_finish(audio->resample);
    }
    for (size_t i = 0; i < *got; i++)
        samples[i] = quantise(audio->mono[i]);
    return status;
}

static mxw_status read_ffmpeg(mx_audio *audio, float *samples, size_t n, size_t *got) {
    mxw_status status = audio->ffmpeg->read(audio->file, audio->pcm, n, got);
    if (*got == 0 && audio->input.failed)   /* to FFmpeg, the end of a damaged file */
        return mx_input_fail_callback(&audio->input, audio->input.failed);
    for (size_t i = 0; status >= 0 && i < *got; i++)
        samples[i] = (float)audio->pcm[i] / 32768.0f;
    return status;
}

mxw_status mx_audio_read(mx_audio *audio, float *samples, size_t n, size_t *got) {
    static mxw_status (*const read_block[])(mx_audio *, float *, size_t, size_t *) = {read_plain, read_converted,
                                                                                      read_ffmpeg};
    mxw_status status = read_block[audio->reader](audio, samples, MX_MIN(n, (size_t)BLOCK), got);
    if (status < 0)
        return status;
    if (*got == 0 && n > 0 && audio->n_samples == 0) {
        mx_log(MXW_LOG_WARN, "audio", "%s: has no samples", audio->input.name);
        audio->n_samples = -1;
    }
    if (*got > 0)
        audio->n_samples += (int64_t)*got;
    return MXW_OK;
}
