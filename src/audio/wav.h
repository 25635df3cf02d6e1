/* audio/wav.h - internal to audio/: RIFF, RF64 and BW64 WAVE: the header, and samples as mono doubles. */
#ifndef MX_WAV_H
#define MX_WAV_H
#include "audio/input.h"

typedef enum mx_wav_codec {
    MX_WAV_U8, MX_WAV_S16, MX_WAV_S24, MX_WAV_S32, MX_WAV_F32, MX_WAV_F64, MX_WAV_ALAW, MX_WAV_MULAW
} mx_wav_codec;

#define MX_WAV_MAX_CHANNELS 64
#define MX_WAV_UNTIL_END INT64_MAX

typedef struct mx_wav {
    mx_wav_codec codec;
    const char *codec_name;       /* "pcm_s16le": FFmpeg's names */
    int channels, sample_rate;
    int sample_bytes, frame_bytes;
    uint32_t mask;                /* speaker positions, 0 if the header names none */
    int64_t data_offset;
    int64_t data_bytes;           /* MX_WAV_UNTIL_END if unknown to the writer */
    int as_is;                    /* 16 kHz, 16-bit, one data chunk: a channel's samples need no conversion */
    int is_mono;                  /* as FFmpeg sees it */
    int channel;                  /* as chosen: 0 or 1, 2, ... */
    double weight[MX_WAV_MAX_CHANNELS];   /* of each channel in the mono sum */
} mx_wav;

mxw_status mx_wav_probe(mx_input *input, int *is_wav);   /* 1 if it starts as a WAV file does */
/* E_FORMAT if damaged, E_UNSUPPORTED for a codec that is not in the list above. */
mxw_status mx_wav_parse(mx_input *input, mx_wav *wav);
/* channel 0: downmix of all. E_MISSING if there is no such channel. */
mxw_status mx_wav_choose(const mx_input *input, mx_wav *wav, int channel);
/* Whether the samples need no conversion, and the selected one of a frame. */
int mx_wav_is_plain(const mx_wav *wav);
int16_t mx_wav_plain_sample(const mx_wav *wav, const uint8_t *frame);
/* n frames of bytes to mono, 1.0 being full scale. */
void mx_wav_decode(const mx_wav *wav, const uint8_t *bytes, size_t n_frames, double *mono);
#endif
