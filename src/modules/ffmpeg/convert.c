/* modules/ffmpeg/convert.c - see convert.h. */
#include "modules/ffmpeg/convert.h"

#include <string.h>

#include <libavutil/channel_layout.h>
#include <libavutil/mem.h>

#define OUT_RATE 16000
#define FLUSH_BLOCK 4096

static int reserve(convert *c, size_t more) {
    if (c->taken == c->n)
        c->taken = c->n = 0;
    if (more > SIZE_MAX / 8 - c->n)
        return AVERROR(ENOMEM);
    if (c->n + more > c->capacity) {
        size_t capacity = (c->n + more) * 2;
        int16_t *samples = av_realloc_array(c->samples, capacity, sizeof(int16_t));
        if (!samples)
            return AVERROR(ENOMEM);
        c->samples = samples;
        c->capacity = capacity;
    }
    return 0;
}

/* A stream may change its format on the way. The command then rebuilds its filters and drops what the old
 * resampler still held, so we do too. */
static int prepare(convert *c, const AVFrame *frame) {
    AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO;
    if (c->channel > frame->ch_layout.nb_channels)
        return CONVERT_NO_CHANNEL;
    if (c->swr && c->format == frame->format && c->sample_rate == frame->sample_rate &&
        av_channel_layout_compare(&c->layout, &frame->ch_layout) == 0)
        return 0;
    swr_free(&c->swr);
    int ret = av_channel_layout_copy(&c->layout, &frame->ch_layout);
    if (ret >= 0)
        ret = swr_alloc_set_opts2(&c->swr, &mono, AV_SAMPLE_FMT_S16, OUT_RATE, c->channel ? &mono : &c->layout,
                                  frame->format, frame->sample_rate, 0, NULL);
    if (ret >= 0)
        ret = swr_init(c->swr);
    if (ret < 0)
        swr_free(&c->swr);
    c->format = frame->format;
    c->sample_rate = frame->sample_rate;
    return ret;
}

/* The chosen channel's samples, in the frame's own format: what pan=mono|c0=cN makes. */
static int pick_channel(convert *c, const AVFrame *frame, const uint8_t **in) {
    int bytes = av_get_bytes_per_sample(frame->format), n_channels = frame->ch_layout.nb_channels;
    if (av_sample_fmt_is_planar(frame->format)) {
        *in = frame->extended_data[c->channel - 1];
        return 0;
    }
    av_fast_malloc(&c->one, &c->one_bytes, (size_t)frame->nb_samples * (size_t)bytes);
    if (!c->one)
        return AVERROR(ENOMEM);
    const uint8_t *from = frame->data[0] + (c->channel - 1) * bytes;
    for (int i = 0; i < frame->nb_samples; i++)
        memcpy(c->one + (size_t)i * (size_t)bytes, from + (size_t)i * (size_t)(bytes * n_channels), (size_t)bytes);
    *in = c->one;
    return 0;
}

/* in NULL: flushes; returns the samples added. */
static int run(convert *c, const uint8_t **in, int n_in, int room) {
    int ret = reserve(c, (size_t)room);
    if (ret < 0)
        return ret;
    uint8_t *out = (uint8_t *)(c->samples + c->n);
    ret = swr_convert(c->swr, &out, room, in, n_in);
    if (ret > 0)
        c->n += (size_t)ret;
    return ret;
}

int convert_frame(convert *c, const AVFrame *frame) {
    int ret = prepare(c, frame);
    if (ret < 0)
        return ret;
    int room = swr_get_out_samples(c->swr, frame->nb_samples);
    if (room < 0)
        return room;
    const uint8_t *one, **in = (const uint8_t **)frame->extended_data;
    if (c->channel) {
        ret = pick_channel(c, frame, &one);
        if (ret < 0)
            return ret;
        in = &one;
    }
    ret = run(c, in, frame->nb_samples, room + 16);
    return ret < 0 ? ret : 0;
}

int convert_finish(convert *c) {
    int ret = 0;
    if (!c->swr)
        return 0;
    do
        ret = run(c, NULL, 0, FLUSH_BLOCK);
    while (ret > 0);
    swr_free(&c->swr);
    return ret;
}

size_t convert_take(convert *c, int16_t *samples, size_t n) {
    size_t count = c->n - c->taken < n ? c->n - c->taken : n;
    if (count > 0)
        memcpy(samples, c->samples + c->taken, count * sizeof(int16_t));
    c->taken += count;
    return count;
}

void convert_free(convert *c) {
    swr_free(&c->swr);
    av_channel_layout_uninit(&c->layout);
    av_freep(&c->samples);
    av_freep(&c->one);
}
