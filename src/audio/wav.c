/* audio/wav.c - see wav.h. The header is untrusted input: offsets are 64-bit and checked before use. */
#include "audio/wav.h"

#include <math.h>
#include <string.h>

#define TAG_PCM 1
#define TAG_FLOAT 3
#define TAG_ALAW 6
#define TAG_MULAW 7
#define TAG_EXTENSIBLE 0xFFFE
#define FRONT_CENTER 0x4u
#define RATE_MIN 1000
#define RATE_MAX 1000000
#define MAX_CHUNKS_AFTER 100   /* examined after the samples */

static const struct {
    unsigned tag, bytes;
    mx_wav_codec codec;
    const char *name;
} codecs[] = {
    {TAG_PCM, 1, MX_WAV_U8, "pcm_u8"},          {TAG_PCM, 2, MX_WAV_S16, "pcm_s16le"},
    {TAG_PCM, 3, MX_WAV_S24, "pcm_s24le"},      {TAG_PCM, 4, MX_WAV_S32, "pcm_s32le"},
    {TAG_FLOAT, 4, MX_WAV_F32, "pcm_f32le"},    {TAG_FLOAT, 8, MX_WAV_F64, "pcm_f64le"},
    {TAG_ALAW, 1, MX_WAV_ALAW, "pcm_alaw"},     {TAG_MULAW, 1, MX_WAV_MULAW, "pcm_mulaw"},
};

static uint32_t u16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32(const uint8_t *p) { return u16(p) | u16(p + 2) << 16; }
static uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

static int is_id(const uint8_t *p, const char *id) { return memcmp(p, id, 4) == 0; }

static int is_riff(const uint8_t *p) { return is_id(p, "RIFF") || is_id(p, "RF64") || is_id(p, "BW64"); }

mxw_status mx_wav_probe(mx_input *input, int *is_wav) {
    uint8_t head[12];
    size_t got;
    mxw_status status = mx_input_peek(input, 0, head, sizeof(head), &got);
    *is_wav = status >= 0 && got == sizeof(head) && is_riff(head) && is_id(head + 8, "WAVE");
    return status;
}

/* Weights of the speakers in a mono sum, before they are scaled to a sum of one: FFmpeg's defaults. Speakers in the
 * order of the mask's bits; a low-frequency channel is left out. */
static const double speaker_weight[] = {0.70710678118654752, 0.70710678118654752, 1, 0, 0.5, 0.5,
                                        0.70710678118654752, 0.70710678118654752, 0.5, 0.5, 0.5};
/* Speaker positions implied by a header without a mask, by number of channels. */
static const uint32_t default_mask[] = {0, 0x4, 0x3, 0x7, 0x107, 0x37, 0x3f, 0x13f, 0x63f};

static void set_weights(mx_wav *wav) {
    uint32_t mask = wav->mask;
    double sum = 0;
    int channel = 0;
    if (!mask && wav->channels < (int)MX_COUNT(default_mask))
        mask = default_mask[wav->channels];
    for (unsigned bit = 0; bit < 32 && channel < wav->channels; bit++)
        if (mask >> bit & 1)
            wav->weight[channel++] = bit < MX_COUNT(speaker_weight) ? speaker_weight[bit] : 0.5;
    if (!mask)
        for (; channel < wav->channels; channel++)
            wav->weight[channel] = 1;
    for (int i = 0; i < wav->channels; i++)
        sum += wav->weight[i];
    for (int i = 0; i < wav->channels; i++)
        wav->weight[i] = sum > 0 ? wav->weight[i] / sum : 1.0 / wav->channels;
}

static mxw_status parse_format(const mx_input *input, const uint8_t *p, size_t n, mx_wav *wav) {
    if (n < 16)
        return mx_fail(MXW_E_FORMAT, "%s: damaged WAV: its format chunk has only %zu bytes", input->name, n);
    unsigned tag = u16(p), channels = u16(p + 2), block = u16(p + 12), bits = u16(p + 14), valid = bits;
    uint32_t rate = u32(p + 4);
    if (tag == TAG_EXTENSIBLE && n >= 40) {
        valid = u16(p + 18);
        wav->mask = u32(p + 20);
        tag = u16(p + 24);
    }
    if (channels == 0 || block == 0 || block % channels != 0 || (bits + 7) / 8 != block / channels)
        return mx_fail(MXW_E_FORMAT, "%s: damaged WAV: %u channels of %u bits in blocks of %u bytes", input->name,
                       channels, bits, block);
    if (channels > MX_WAV_MAX_CHANNELS || rate < RATE_MIN || rate > RATE_MAX)
        return mx_fail(MXW_E_UNSUPPORTED, "%s: WAV with %u channels at %lu Hz", input->name, channels,
                       (unsigned long)rate);
    size_t i = 0;
    while (i < MX_COUNT(codecs) && (codecs[i].tag != tag || codecs[i].bytes != block / channels))
        i++;
    if (i == MX_COUNT(codecs))
        return mx_fail(MXW_E_UNSUPPORTED, "%s: WAV with codec 0x%04x and %u bits", input->name, tag, bits);
    wav->codec = codecs[i].codec;
    wav->codec_name = codecs[i].name;
    wav->channels = (int)channels;
    wav->sample_rate = (int)rate;
    wav->sample_bytes = (int)codecs[i].bytes;
    wav->frame_bytes = (int)block;
    wav->as_is = wav->codec == MX_WAV_S16 && rate == MXW_SAMPLE_RATE && (valid == 16 || valid == 0);
    wav->is_mono = channels == 1 && (wav->mask == 0 || wav->mask == FRONT_CENTER);
    set_weights(wav);
    return MXW_OK;
}

/* Size of the data chunk, if known: writers to a pipe leave 0 or the largest number, and RF64 has the true one in its
 * ds64 chunk. */
static int64_t data_size(uint32_t size, int64_t size64) {
    if (size64 >= 0 && size == UINT32_MAX)
        return size64;
    return size == 0 || size == UINT32_MAX ? MX_WAV_UNTIL_END : (int64_t)size;
}

/* Of several data chunks in a file FFmpeg takes the last, so such a file is left to it. */
static int another_data_follows(mx_input *input, const mx_wav *wav) {
    uint8_t head[8];
    size_t got;
    if (!input->regular || wav->data_bytes > input->size)
        return 0;
    int64_t offset = wav->data_offset + wav->data_bytes + (wav->data_bytes & 1);
    for (int n_chunks = 0; n_chunks < MAX_CHUNKS_AFTER; n_chunks++) {
        if (mx_input_peek(input, offset, head, sizeof(head), &got) < 0 || got < sizeof(head))
            break;
        if (is_id(head, "data"))
            return 1;
        offset += 8 + (int64_t)u32(head + 4) + (u32(head + 4) & 1);
    }
    return 0;
}

mxw_status mx_wav_parse(mx_input *input, mx_wav *wav) {
    uint8_t head[8], body[40];
    int64_t offset = 12, size64 = -1;
    int have_format = 0;
    memset(wav, 0, sizeof(*wav));
    for (;;) {
        size_t got, n;
        mxw_status status = mx_input_peek(input, offset, head, sizeof(head), &got);
        if (status < 0)
            return status;
        if (got < sizeof(head))
            return mx_fail(MXW_E_FORMAT, "%s: damaged WAV: truncated before its %s", input->name,
                           have_format ? "samples" : "format chunk");
        uint32_t size = u32(head + 4);
        offset += 8;
        if (is_id(head, "data") && have_format) {
            wav->data_offset = offset;
            wav->data_bytes = data_size(size, size64);
            wav->as_is = wav->as_is && !another_data_follows(input, wav);
            return MXW_OK;
        }
        status = mx_input_peek(input, offset, body, MX_MIN(size, sizeof(body)), &n);
        if (status >= 0 && is_id(head, "fmt ")) {
            status = parse_format(input, body, n, wav);
            have_format = 1;
        } else if (status >= 0 && is_id(head, "ds64") && n >= 16) {
            size64 = (int64_t)MX_MIN(u64(body + 8), (uint64_t)INT64_MAX);
        } else if (status >= 0 && is_id(head, "data")) {
            status = mx_fail(MXW_E_FORMAT, "%s: damaged WAV: samples before their format", input->name);
        }
        if (status < 0)
            return status;
        offset += (int64_t)size + (size & 1);
    }
}

mxw_status mx_wav_choose(const mx_input *input, mx_wav *wav, int channel) {
    if (channel > wav->channels)
        return mx_fail(MXW_E_MISSING, "%s: has %d channel%s, so there is no channel %d", input->name, wav->channels,
                       wav->channels == 1 ? "" : "s", channel);
    wav->channel = channel;
    for (int i = 0; i < wav->channels && channel > 0; i++)
        wav->weight[i] = i == channel - 1;
    return MXW_OK;
}

int mx_wav_is_plain(const mx_wav *wav) { return wav->as_is && (wav->is_mono || wav->channel > 0); }

int16_t mx_wav_plain_sample(const mx_wav *wav, const uint8_t *frame) {
    return (int16_t)u16(frame + (wav->channel > 0 ? (wav->channel - 1) * wav->sample_bytes : 0));
}

/* A-law and mu-law (G.711): sign, 3 bits of exponent, 4 of mantissa. */
static int alaw(uint8_t code) {
    code ^= 0x55;
    int exponent = code >> 4 & 7, value = (code & 15) * 16 + 8;
    if (exponent)
        value = (value + 256) << (exponent - 1);
    return code & 0x80 ? value : -value;
}

static int mulaw(uint8_t code) {
    code = (uint8_t)~code;
    int value = ((((code & 15) << 3) + 132) << (code >> 4 & 7)) - 132;
    return code & 0x80 ? -value : value;
}

static double clean(double value) { return isfinite(value) ? fmax(-1e6, fmin(1e6, value)) : 0.0; }

static double sample(mx_wav_codec codec, const uint8_t *p) {
    uint32_t bits;
    uint64_t bits64;
    float f;
    double d;
    switch (codec) {
    case MX_WAV_U8:
        return (p[0] - 128) / 128.0;
    case MX_WAV_S16:
        return (int16_t)u16(p) / 32768.0;
    case MX_WAV_S24:
        return (int32_t)(u16(p) << 8 | (uint32_t)p[2] << 24) / 2147483648.0;
    case MX_WAV_S32:
        return (int32_t)u32(p) / 2147483648.0;
    case MX_WAV_F32:
        bits = u32(p);
        memcpy(&f, &bits, sizeof(f));
        return clean(f);
    case MX_WAV_F64:
        bits64 = u64(p);
        memcpy(&d, &bits64, sizeof(d));
        return clean(d);
    case MX_WAV_ALAW:
        return alaw(p[0]) / 32768.0;
    case MX_WAV_MULAW:
        return mulaw(p[0]) / 32768.0;
    }
    return 0;
}

void mx_wav_decode(const mx_wav *wav, const uint8_t *bytes, size_t n_frames, double *mono) {
    for (size_t i = 0; i < n_frames; i++) {
        double sum = 0;
        for (int c = 0; c < wav->channels; c++, bytes += wav->sample_bytes)
            sum += wav->weight[c] * sample(wav->codec, bytes);
        mono[i] = sum;
    }
}
