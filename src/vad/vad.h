/* vad/vad.h - public header of vad/: samples -> probability of speech for each chunk -> regions of speech.
 *
 * mx_vad_model: Silero's weights and the compiled network for one rate; immutable, shared by streams and threads.
 * mx_vad:       one stream; state of the network and of the regions; one thread at a time.
 * Invariants: probabilities and regions do not depend on how samples are split into calls; memory does not depend on
 * the length of the stream. */
#ifndef MX_VAD_H
#define MX_VAD_H
#include "audio/audio.h"
#include "base/pool.h"
#include "max_whisper/vad.h"

typedef struct mx_vad_model mx_vad_model;
typedef struct mxw_vad mx_vad;

/* name_or_path NULL: MXW_VAD_MODEL; sample_rate: 16000 or 8000. */
mxw_status mx_vad_model_open(const char *name_or_path, const char *model_dir, int sample_rate, mx_vad_model **out);
void mx_vad_model_close(mx_vad_model *model);   /* NULL is fine; streams that use it must be closed first */
const char *mx_vad_model_sha256(const mx_vad_model *model);   /* of the file that was opened; lives as long as model */

/* model NULL: opened from the options and owned by the stream. Options are complete and in range (all of them: those
 * that may be MXW_NONE too), their rate is the model's. */
mxw_status mx_vad_open(mx_vad_model *model, const mxw_vad_options *options, mx_vad **out);
void mx_vad_close(mx_vad *vad);
/* Many chunks are run on all threads of the pool, with the same bits, if many samples are fed at once. To be called
 * before the first samples; the pool must outlive vad. */
mxw_status mx_vad_share(mx_vad *vad, mx_pool *pool);
mxw_status mx_vad_feed(mx_vad *vad, const float *samples, size_t n);
/* The same, but the last chunks may stay unknown until more is fed, or finish: for who has more samples at hand. */
mxw_status mx_vad_feed_some(mx_vad *vad, const float *samples, size_t n);
mxw_status mx_vad_feed_audio(mx_vad *vad, mx_audio *audio);
mxw_status mx_vad_finish(mx_vad *vad);
mxw_status mx_vad_next(mx_vad *vad, mxw_vad_region *region);
/* What is certain about the region after those that mx_vad_next gave, for text while a recording is still running. 1:
 * it has begun and will be kept; it begins exactly at region->first and reaches at least to region->end. 0: no region
 * is certain yet (always 0 with max_speech_s, which may cut in hindsight); the next one, if any, begins at
 * region->first or later. After finish, once next has returned END: 0 and INT64_MAX. */
int mx_vad_ahead(const mx_vad *vad, mxw_vad_region *region);
mxw_status mx_vad_probabilities(mx_vad *vad, float *probabilities, size_t n, size_t *got);
int mx_vad_chunk(const mx_vad *vad);
int mx_vad_rate(const mx_vad *vad);
void mx_vad_reset(mx_vad *vad);
#endif
