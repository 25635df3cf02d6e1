/* pipeline/live/encoder.h - log-mel in, features out, for clips that grow from pass to pass; on a CPU. */
#ifndef MX_LIVE_ENCODER_H
#define MX_LIVE_ENCODER_H
#include "pipeline/pipeline.h"

typedef struct mx_live_encoder mx_live_encoder;

int mx_live_encoder_fits(const mx_recognizer *r);   /* whether the model can be run that way, and it pays */
mxw_status mx_live_encoder_open(mx_recognizer *r, mx_live_encoder **out);
void mx_live_encoder_close(mx_live_encoder *encoder);    /* NULL is fine */
/* mel [2 n_audio_ctx][n_mels], of which n_frames are sound, the rest padding; *features [n_audio_ctx][d], valid until
 * the next run. all: the padding is computed, too. */
mxw_status mx_live_encoder_run(mx_live_encoder *encoder, const float *mel, int64_t n_frames, int all,
                               const float **features);
#endif
