/* modules/ffmpeg/ffmpeg.c - any container and codec that FFmpeg reads, to 16 kHz mono 16-bit samples.
 *
 * Invariants: the samples are those of `ffmpeg -i X -f s16le -ac 1 -acodec pcm_s16le -ar 16000 -` with the same
 * libraries, and with -map 0:a:N and -af "pan=mono|c0=cN" where a track or a channel is asked for. So the choice of
 * stream, the options of demuxer and decoder, the going on after damaged packets and the single conversion are the
 * command's. FFmpeg's own messages go to the host's log, never to standard error. A device is a file that has no end:
 * it is opened without waiting for others to leave it, and what it lacks is waited for in steps, so that a caller can
 * end the wait. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avstring.h>
#include <libavutil/time.h>

#include "audio/ffmpeg_module.h"
#include "modules/ffmpeg/clock.h"
#include "modules/ffmpeg/convert.h"

#define IO_BYTES 32768
#define DEVICE_RATE 48000   /* what microphones have */
#define DEVICE_WAIT_US 5000
#define LIVE_BYTES "1024"   /* of a packet of plain samples, where they are wanted at once; the least there is */
#define DRAIN_ERRORS 1000   /* damaged frames in a row at the end, after which there is nothing more to hope for */
#define OPEN_PLAYLIST FFERRTAG('L', 'I', 'S', 'T')   /* open_format: names other files instead of holding sound */
#define PLAYLISTS "hls,concat,dash,imf,sdp"

static const mx_host *host;
static _Thread_local char last_line[256];   /* FFmpeg's last complaint on this thread */

struct mx_ffmpeg {
    char *name;
    mx_ffmpeg_input input;
    int64_t position;              /* of our own reading functions */
    AVIOContext *io;
    AVFormatContext *format;
    AVStream *stream;
    int n_tracks;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *frame;
    convert convert;
    int ended;
    int64_t n_damaged, n_samples;
    int device_error;              /* why a device stopped: an AVERROR, or 0 */
    int has_clock;                 /* live, with timestamps that are not made from its samples */
    source_clock clock;
    double gap_s, missing_s;       /* skipped before sample gap_at, if not 0; and before those that were read */
    int64_t gap_at;
};

/* ---- messages ------------------------------------------------------------------------------------ */

static void log_line(void *context, int level, const char *format, va_list args) {
    static _Thread_local int prefix = 1;
    char line[512];
    if (level > AV_LOG_WARNING)
        return;
    av_log_format_line2(context, level, format, args, line, sizeof(line), &prefix);
    size_t n = strlen(line);
    while (n > 0 && line[n - 1] == '\n')
        line[--n] = 0;
    if (n == 0)
        return;
    host->log(MXW_LOG_DEBUG, "ffmpeg", "%s", line);
    if (level <= AV_LOG_ERROR) {
        const char *text = line[0] == '[' && strstr(line, "] ") ? strstr(line, "] ") + 2 : line;
        snprintf(last_line, sizeof(last_line), "%.*s", (int)sizeof(last_line) - 1, text);
    }
}

static mxw_status fail_memory(const char *name) { return host->fail(MXW_E_MEMORY, "%s: out of memory", name); }

static mxw_status fail_open(const char *name, int error) {
    char text[AV_ERROR_MAX_STRING_SIZE];
    av_strerror(error, text, sizeof(text));
    if (error == AVERROR(ENOMEM))
        return fail_memory(name);
    if (error == OPEN_PLAYLIST)
        return host->fail(MXW_E_UNSUPPORTED, "%s: is a playlist; the files or addresses that it names are not opened",
                          name);
    if (error == AVERROR(ENOENT))
        return host->fail(MXW_E_NOT_FOUND, "%s: no such file", name);
    if (error == AVERROR_INVALIDDATA && !last_line[0])
        return host->fail(MXW_E_FORMAT, "%s: is not an audio or video file", name);
    if (error == AVERROR_INVALIDDATA || error == AVERROR_EOF)
        return host->fail(MXW_E_FORMAT, "%s: is damaged or cut short (%s)", name, last_line[0] ? last_line : text);
    if (error == AVERROR_DECODER_NOT_FOUND || error == AVERROR_DEMUXER_NOT_FOUND || error == AVERROR_PATCHWELCOME)
        return host->fail(MXW_E_UNSUPPORTED, "%s: FFmpeg does not read this format (%s)", name, text);
    return host->fail(MXW_E_IO, "%s: cannot be read (%s)", name, text);
}

/* The reason is what the device's own library says. A server of PulseAudio says nothing but a number of its own. */
static mxw_status fail_device(const mx_ffmpeg_input *input, int error) {
    int pulse = !strcmp(input->device, "pulse");
    const char *line = last_line;
    if (error == AVERROR(ENOMEM))
        return fail_memory(input->name);
    if (error == AVERROR_EXIT)
        return host->fail(MXW_E_ABORTED, "%s: stopped", input->name);
    if (error == AVERROR_DEMUXER_NOT_FOUND)
        return host->fail(MXW_E_UNSUPPORTED, "%s: FFmpeg has no input device '%s' here", input->name, input->device);
    if (strstr(line, "busy"))
        return host->fail(MXW_E_IO, "%s: is in use by another program (%s)", input->name, line);
    if (input->device_rate && strstr(line, "rate"))
        return host->fail(MXW_E_UNSUPPORTED, "%s: does not record at %d Hz (%s)", input->name, input->device_rate,
                          line);
    if (strstr(line, "cannot set"))
        return host->fail(MXW_E_UNSUPPORTED, "%s: %s", input->name, line);
    if (pulse && !line[0] && !strcmp(input->path, "default"))
        return host->fail(MXW_E_NOT_FOUND, "%s: no PulseAudio or PipeWire answers, or it has no microphone",
                          input->name);
    if (pulse && !line[0])
        return host->fail(MXW_E_NOT_FOUND, "%s: no PulseAudio or PipeWire answers, or it has no such device",
                          input->name);
    return host->fail(MXW_E_NOT_FOUND, "%s: %s", input->name, line[0] ? line : "cannot be opened");
}

/* ---- opening ------------------------------------------------------------------------------------- */

static int read_bytes(void *user, uint8_t *bytes, int n) {
    mx_ffmpeg *file = user;
    int got = file->input.read(file->input.user, bytes, n);
    if (got > 0)
        file->position += got;
    return got > 0 ? got : got == 0 ? AVERROR_EOF : AVERROR(EIO);
}

static int64_t seek_bytes(void *user, int64_t offset, int whence) {
    mx_ffmpeg *file = user;
    if (whence & AVSEEK_SIZE)
        return file->input.size;
    switch (whence & ~AVSEEK_FORCE) {
    case SEEK_CUR:
        offset += file->position;
        break;
    case SEEK_END:
        offset += file->input.size;
        break;
    }
    if (file->input.seek(file->input.user, offset) != offset)
        return AVERROR(EIO);
    file->position = offset;
    return offset;
}

static int open_io(mx_ffmpeg *file) {
    uint8_t *buffer = av_malloc(IO_BYTES);
    if (!buffer)
        return AVERROR(ENOMEM);
    file->io = avio_alloc_context(buffer, IO_BYTES, 0, file, read_bytes, NULL, file->input.seek ? seek_bytes : NULL);
    if (!file->io) {
        av_free(buffer);
        return AVERROR(ENOMEM);
    }
    file->io->seekable = file->input.seek ? AVIO_SEEKABLE_NORMAL : 0;
    file->format->pb = file->io;
    file->format->flags |= AVFMT_FLAG_CUSTOM_IO;   /* whatever fails before FFmpeg sets it, io stays ours to close */
    return 0;
}

static int must_stop(void *user) {
    const mx_ffmpeg *file = user;
    return file->input.should_abort && file->input.should_abort(file->input.abort_user);
}

/* Options that a device does not have are left over, and ignored. */
static int open_device(mx_ffmpeg *file) {
    const mx_ffmpeg_input *input = &file->input;
    const AVInputFormat *device = av_find_input_format(input->device);
    AVDictionary *options = NULL;
    int ret = 0;
    if (!device || !device->priv_class || !AV_IS_INPUT_DEVICE(device->priv_class->category))
        return AVERROR_DEMUXER_NOT_FOUND;
    file->format = avformat_alloc_context();
    if (!file->format)
        return AVERROR(ENOMEM);
    file->format->flags |= AVFMT_FLAG_NONBLOCK;
    file->format->interrupt_callback = (AVIOInterruptCB){must_stop, file};
    int rate = input->device_rate ? input->device_rate : DEVICE_RATE;
    ret = av_dict_set_int(&options, "sample_rate", rate, 0);
    if (ret >= 0 && input->device_channels) {
        ret = av_dict_set_int(&options, "channels", input->device_channels, 0);
        if (ret >= 0)
            ret = av_dict_set_int(&options, "fragment_size", rate / 50 * 2 * input->device_channels, 0);
    }
    if (ret >= 0)
        ret = avformat_open_input(&file->format, input->path, device, &options);
    av_dict_free(&options);
    return ret;
}

/* What has no path may open nothing else: a playlist in it is told from damage, by what its first bytes look like. */
static int open_pathless(mx_ffmpeg *file, AVDictionary **options, const AVInputFormat **format) {
    int ret = open_io(file);
    if (ret >= 0)
        ret = av_dict_set(options, "protocol_whitelist", "crypto,data", 0);
    if (ret >= 0)
        ret = av_probe_input_buffer2(file->io, format, "", file->format, 0, 0);
    return ret >= 0 && av_match_name((*format)->name, PLAYLISTS) ? OPEN_PLAYLIST : ret;
}

/* "file:" keeps a path with a colon from being taken for a protocol, and a playlist from reaching the network: what
 * a local file may open is FFmpeg's own list for files. */
static int open_format(mx_ffmpeg *file) {
    const AVInputFormat *format = NULL;
    AVDictionary *options = NULL;
    char *url = NULL;
    file->format = avformat_alloc_context();
    int ret = file->format ? 0 : AVERROR(ENOMEM);
    if (ret >= 0 && file->input.path) {
        url = av_asprintf("file:%s", file->input.path);
        ret = url ? 0 : AVERROR(ENOMEM);
    } else if (ret >= 0) {
        ret = open_pathless(file, &options, &format);
    }
    if (ret >= 0)
        ret = av_dict_set(&options, "scan_all_pmts", "1", 0);
    if (ret >= 0 && file->input.live)
        ret = av_dict_set(&options, "max_size", LIVE_BYTES, 0);
    if (ret >= 0)
        ret = avformat_open_input(&file->format, url, format, &options);
    av_free(url);
    av_dict_free(&options);
    return ret;
}

/* The audio stream of that number, counted from 1; 0: the command's choice: streams that gave packets while probing,
 * then default ones, then most channels. */
static AVStream *find_stream(const AVFormatContext *format, int track, int *n_tracks) {
    AVStream *best = NULL;
    int64_t best_score = 0;
    *n_tracks = 0;
    for (unsigned i = 0; i < format->nb_streams; i++) {
        AVStream *stream = format->streams[i];
        int64_t score = stream->codecpar->ch_layout.nb_channels;
        score += stream->event_flags & AVSTREAM_EVENT_FLAG_NEW_PACKETS ? 100000000 : 0;
        score += stream->disposition & AV_DISPOSITION_DEFAULT ? 5000000 : 0;
        if (stream->codecpar->codec_type != AVMEDIA_TYPE_AUDIO)
            continue;
        ++*n_tracks;
        if (track == 0 ? score > best_score : track == *n_tracks) {
            best_score = score;
            best = stream;
        }
    }
    return best;
}

static mxw_status choose_stream(mx_ffmpeg *file) {
    const AVFormatContext *format = file->format;
    int track = file->input.track, channel = file->input.channel;
    file->stream = find_stream(format, track, &file->n_tracks);
    if (file->n_tracks == 0)
        return host->fail(MXW_E_MISSING, "%s: has no audio stream", file->name);
    if (!file->stream)
        return host->fail(MXW_E_MISSING, "%s: has %d audio track%s, so there is no track %d", file->name,
                          file->n_tracks, file->n_tracks == 1 ? "" : "s", track);
    int n_channels = file->stream->codecpar->ch_layout.nb_channels;
    if (n_channels > 0 && channel > n_channels)
        return host->fail(MXW_E_MISSING, "%s: has %d channel%s, so there is no channel %d", file->name, n_channels,
                          n_channels == 1 ? "" : "s", channel);
    file->convert.channel = channel;
    for (unsigned i = 0; i < format->nb_streams; i++)
        format->streams[i]->discard = format->streams[i] == file->stream ? AVDISCARD_NONE : AVDISCARD_ALL;
    return MXW_OK;
}

static int open_decoder(mx_ffmpeg *file, const AVCodec *codec) {
    AVDictionary *options = NULL;
    file->decoder = avcodec_alloc_context3(codec);
    if (!file->decoder)
        return AVERROR(ENOMEM);
    int ret = avcodec_parameters_to_context(file->decoder, file->stream->codecpar);
    if (ret < 0)
        return ret;
    AVChannelLayout *layout = &file->decoder->ch_layout;
    if (layout->order == AV_CHANNEL_ORDER_UNSPEC)
        av_channel_layout_default(layout, layout->nb_channels);
    file->decoder->pkt_timebase = file->stream->time_base;
    ret = av_dict_set(&options, "threads", file->input.live ? "1" : "auto", 0);
    if (ret >= 0)
        ret = avcodec_open2(file->decoder, codec, &options);
    av_dict_free(&options);
    return ret;
}

/* Streams without a container have the timestamps that FFmpeg counts out for them. */
static int has_timestamps(const AVInputFormat *format) {
    static const char *const containers[] = {"matroska", "mpegts", "mpeg", "ogg", "mov", "flv", "asf", "nut", NULL};
    for (const char *const *name = containers; *name; name++)
        if (av_match_name(*name, format->name))
            return 1;
    return 0;
}

static mxw_status open_stream(mx_ffmpeg *file) {
    int ret = file->input.device ? 0 : avformat_find_stream_info(file->format, NULL);   /* a device knows itself */
    if (ret < 0 && file->format->nb_streams == 0)
        return fail_open(file->name, ret);
    mxw_status status = choose_stream(file);
    if (status < 0)
        return status;
    const AVCodec *codec = avcodec_find_decoder(file->stream->codecpar->codec_id);
    if (!codec)
        return host->fail(MXW_E_UNSUPPORTED, "%s: FFmpeg has no decoder for its audio (%s)", file->name,
                          avcodec_get_name(file->stream->codecpar->codec_id));
    ret = open_decoder(file, codec);
    if (ret == AVERROR(ENOMEM))
        return fail_memory(file->name);
    if (ret < 0)
        return host->fail(MXW_E_FORMAT, "%s: its audio (%s) is damaged or not supported (%s)", file->name, codec->name,
                          last_line[0] ? last_line : "the decoder does not start");
    const AVInputFormat *format = file->format->iformat;
    file->has_clock = file->input.live && (file->input.device || has_timestamps(format));
    file->clock.slack_s = file->input.device                  ? DEVICE_SLACK_S
                          : format->flags & AVFMT_TS_DISCONT ? SOURCE_RESTART_S
                                                             : INFINITY;
    return MXW_OK;
}

static void close_file(mx_ffmpeg *file) {
    if (!file)
        return;
    convert_free(&file->convert);
    av_frame_free(&file->frame);
    av_packet_free(&file->packet);
    avcodec_free_context(&file->decoder);
    avformat_close_input(&file->format);
    if (file->io) {
        av_freep(&file->io->buffer);
        avio_context_free(&file->io);
    }
    av_free(file->name);
    av_free(file);
}

static mxw_status open_file(const mx_ffmpeg_input *input, mx_ffmpeg **out) {
    mxw_status status = MXW_OK;
    *out = NULL;
    last_line[0] = 0;
    mx_ffmpeg *file = av_mallocz(sizeof(*file));
    if (!file)
        return fail_memory(input->name);
    file->input = *input;
    file->name = av_strdup(input->name);
    file->packet = av_packet_alloc();
    file->frame = av_frame_alloc();
    if (!file->name || !file->packet || !file->frame) {
        status = fail_memory(input->name);
    } else {
        int ret = input->device ? open_device(file) : open_format(file);
        status = ret >= 0 ? open_stream(file) : input->device ? fail_device(input, ret) : fail_open(file->name, ret);
    }
    if (status >= 0 && input->device_rate && file->stream->codecpar->sample_rate != input->device_rate)
        status = host->fail(MXW_E_UNSUPPORTED, "%s: does not record at %d Hz, but at %d", file->name,
                            input->device_rate, file->stream->codecpar->sample_rate);
    if (status < 0)
        close_file(file);
    else
        *out = file;
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* What the timestamps skip before the frame lies behind the samples that are converted already. */
static void note_missing(mx_ffmpeg *file) {
    const AVFrame *frame = file->frame;
    int64_t at = frame->best_effort_timestamp;
    double missing_s = source_clock_missing(
        &file->clock, at == AV_NOPTS_VALUE ? NAN : (double)at * av_q2d(file->decoder->pkt_timebase),
        (double)frame->nb_samples / frame->sample_rate);
    if (missing_s > 0 && !(file->gap_s > 0))
        file->gap_at = file->n_samples + (int64_t)(file->convert.n - file->convert.taken);
    file->gap_s += missing_s;
}

/* Frames that the decoder has ready are converted. 0 when it wants more, AVERROR_EOF at its end. */
static int receive(mx_ffmpeg *file) {
    for (;;) {
        int ret = avcodec_receive_frame(file->decoder, file->frame);
        if (ret < 0)
            return ret == AVERROR(EAGAIN) ? 0 : ret;
        if (file->has_clock && file->frame->sample_rate > 0)
            note_missing(file);
        ret = file->frame->sample_rate > 0 ? convert_frame(&file->convert, file->frame) : AVERROR_INVALIDDATA;
        av_frame_unref(file->frame);
        if (ret < 0)
            return ret;
    }
}

/* What going on would not mend. */
static int is_final(int error) {
    return error == AVERROR(ENOMEM) || error == CONVERT_NO_CHANNEL || error == AVERROR_EXIT;
}

/* A packet that does not decode is counted and left out, as the command does. */
static int decode_packet(mx_ffmpeg *file) {
    int ret = avcodec_send_packet(file->decoder, file->packet);
    av_packet_unref(file->packet);
    if (ret >= 0 || ret == AVERROR_EOF)
        ret = receive(file);
    if (is_final(ret))
        return ret;
    if (ret < 0 && ret != AVERROR_EOF)
        file->n_damaged++;
    return 0;
}

static int drain(mx_ffmpeg *file) {
    int ret = avcodec_send_packet(file->decoder, NULL);
    for (int errors = 0; errors < DRAIN_ERRORS && ret != AVERROR_EOF; errors++) {
        ret = receive(file);
        if (ret == 0)
            break;
        if (is_final(ret))
            return ret;
        file->n_damaged += ret != AVERROR_EOF;
    }
    file->ended = 1;
    return convert_finish(&file->convert);
}

static double stated_seconds(const mx_ffmpeg *file) {
    const AVStream *stream = file->stream;
    if (file->format->duration_estimation_method == AVFMT_DURATION_FROM_BITRATE)
        return -1;
    if (stream->duration != AV_NOPTS_VALUE)
        return (double)stream->duration * av_q2d(stream->time_base);
    return -1;
}

/* What a user should know about a file that was read to its end. */
static mxw_status sum_up(const mx_ffmpeg *file) {
    double seconds = (double)file->n_samples / 16000 + file->missing_s, stated = stated_seconds(file);
    if (file->n_samples == 0 && file->n_damaged > 0)
        return host->fail(MXW_E_FORMAT, "%s: no sound could be decoded: all of its %lld packets are damaged (%s)",
                          file->name, (long long)file->n_damaged, last_line[0] ? last_line : "unknown reason");
    if (file->n_samples == 0 && stated > 0)
        return host->fail(MXW_E_FORMAT, "%s: is cut short: nothing of its %.1f seconds can be decoded", file->name,
                          stated);
    if (file->n_samples > 0 && seconds < stated * 0.99 - 0.5)
        host->log(MXW_LOG_WARN, "audio", "%s: is cut short: %.1f of %.1f seconds are there", file->name, seconds,
                  stated);
    if (file->n_damaged > 0)
        host->log(MXW_LOG_WARN, "audio", "%s: %lld damaged packets were left out", file->name,
                  (long long)file->n_damaged);
    return MXW_OK;
}

/* One more packet, or the end. */
static int advance(mx_ffmpeg *file) {
    int ret = file->input.device && must_stop(file) ? AVERROR_EXIT : av_read_frame(file->format, file->packet);
    if (ret == AVERROR(EAGAIN) && file->input.device)
        av_usleep(DEVICE_WAIT_US);
    if (ret == AVERROR(EAGAIN))
        return 0;
    if (ret < 0 && ret != AVERROR_EOF && file->input.device) {
        file->device_error = ret;
        return AVERROR_EXIT;
    }
    if (ret >= 0 && file->packet->stream_index == file->stream->index)
        return decode_packet(file);
    av_packet_unref(file->packet);
    if (ret >= 0)
        return 0;
    if (ret != AVERROR_EOF) {
        char text[AV_ERROR_MAX_STRING_SIZE];
        av_strerror(ret, text, sizeof(text));
        host->log(MXW_LOG_WARN, "audio", "%s: reading stopped early (%s)", file->name, text);
    }
    return drain(file);
}

/* A stream may change its channels on the way. Left out, the rest would move to a wrong time. */
static mxw_status fail_channel(const mx_ffmpeg *file) {
    return host->fail(MXW_E_FORMAT, "%s: after %.1f seconds its sound goes on with fewer channels, without channel %d",
                      file->name, (double)file->n_samples / 16000, file->input.channel);
}

static mxw_status fail_stop(const mx_ffmpeg *file) {
    char text[AV_ERROR_MAX_STRING_SIZE];
    if (file->device_error == AVERROR_EXIT)
        return host->fail(MXW_E_ABORTED, "%s: stopped", file->name);
    av_strerror(file->device_error, text, sizeof(text));
    return host->fail(MXW_E_IO, "%s: the device gives no more sound (%s)", file->name, last_line[0] ? last_line : text);
}

/* How many of n samples come before the place where some are missing; behind it, that is told. */
static size_t until_gap(mx_ffmpeg *file, size_t n) {
    int64_t left = file->gap_at - file->n_samples;
    if (!(file->gap_s > 0))
        return n;
    if (left > 0)
        return (int64_t)n < left ? n : (size_t)left;
    file->missing_s += file->gap_s;
    file->gap_s = 0;
    return n;
}

static mxw_status read_samples(mx_ffmpeg *file, int16_t *samples, size_t n, size_t *got) {
    for (;;) {
        *got = convert_take(&file->convert, samples, until_gap(file, n));
        file->n_samples += (int64_t)*got;
        if (*got > 0 || n == 0)
            return MXW_OK;
        if (file->ended == 2)
            return MXW_OK;
        if (file->ended) {
            file->ended = 2;
            return sum_up(file);
        }
        int ret = advance(file);
        if (is_final(ret))
            return ret == CONVERT_NO_CHANNEL ? fail_channel(file) : ret == AVERROR_EXIT ? fail_stop(file)
                                                                                       : fail_memory(file->name);
    }
}

/* Where the stream begins on the container's clock, whose zero is the first of all streams. What is less than one of
 * Whisper's time steps is encoder delay or rounding. */
static double start_seconds(const mx_ffmpeg *file) {
    const AVStream *stream = file->stream;
    if (stream->start_time == AV_NOPTS_VALUE || file->format->start_time == AV_NOPTS_VALUE)
        return 0;
    double seconds = (double)stream->start_time * av_q2d(stream->time_base) -
                     (double)file->format->start_time / AV_TIME_BASE;
    return seconds < 0.02 ? 0 : (double)(int64_t)(seconds * 1000 + 0.5) / 1000;
}

static void get_info(const mx_ffmpeg *file, mxw_audio_info *info) {
    const AVCodecParameters *codec = file->stream->codecpar;
    int estimated = file->format->duration_estimation_method == AVFMT_DURATION_FROM_BITRATE;
    info->container = file->format->iformat->name;
    info->codec = avcodec_get_name(codec->codec_id);
    info->sample_rate = codec->sample_rate;
    info->read_rate = file->convert.sample_rate;
    info->missing_s = file->missing_s;
    info->channels = codec->ch_layout.nb_channels;
    info->tracks = file->n_tracks;
    info->start_s = start_seconds(file);
    info->duration_s = stated_seconds(file);
    if (info->duration_s < 0)
        info->duration_s = estimated || file->format->duration == AV_NOPTS_VALUE
                               ? -1
                               : (double)file->format->duration / AV_TIME_BASE;
}

/* ---- the module ---------------------------------------------------------------------------------- */

static const mx_ffmpeg_table table = {open_file, read_samples, get_info, close_file};

const void *mx_module_open(const mx_host *services, uint32_t abi);

__attribute__((visibility("default"))) const void *mx_module_open(const mx_host *services, uint32_t abi) {
    if (abi != MX_MODULE_ABI)
        return NULL;
    host = services;
    av_log_set_callback(log_line);
    return &table;
}
