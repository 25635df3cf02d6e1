/* pipeline_kit.h - what the tests of the whole pipeline share: small generated models, generated recordings, and a
 * transcription in one call through the public API. Every function that can fail prints why. */
#ifndef PIPELINE_KIT_H
#define PIPELINE_KIT_H
#include "base/str.h"
#include "kit/gen_checkpoint.h"

/* A model that transcribes (a released vocabulary, 30-second windows) with n_state wide layers, heads, and layers a
 * side: random, so its text is meaningless, but the same everywhere. */
mxw_dims kit_dims(int n_vocab, int n_state, int heads, int layers);

/* n samples that resemble speech: a gliding buzz with pauses, over noise; multiples of 1/32768.
 * Sample i depends on the seed and i alone. */
void kit_samples(uint64_t seed, size_t first, size_t n, float *out);
/* As a 16-bit mono WAV said to be of that rate; 0, or non-zero after a line. */
int kit_wav(const char *path, uint64_t seed, size_t n, uint32_t rate);

/* Where kit_open opens models from now on: op by op on cpu (the default), fake (fake_device.h) or cuda[:N];
 * "max cpu", "max cuda": compiled. Exits as skipped, with a line, where it is not usable. */
void kit_on(const char *test, const char *where);
mxw_model_options kit_model_options(const char *path, int threads);
mxw_status kit_open(const char *path, int threads, mxw_model **out);
/* Feeds in pieces of `piece` samples (0: all at once), finishes, and takes every segment. */
mxw_status kit_run(mxw_session *session, const float *samples, size_t n, size_t piece);
/* The session's result in a format, appended. */
mxw_status kit_write(mxw_session *session, const char *format, mx_str *out);
/* Open, run, write as json, close. options NULL: the default ones. */
mxw_status kit_transcribe(mxw_model *model, const mxw_session_options *options, const float *samples, size_t n,
                          mx_str *json);
/* Greedy, without fallback, sample_len tokens a window. */
mxw_session_options kit_short_options(int sample_len);
#endif
