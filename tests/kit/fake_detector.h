/* tests/kit/fake_detector.h - a detector of speech without weights, for tests of what follows it: a chunk is speech if
 * it is loud, or as a given table says; a region ends at a pause of min_silence_ms, and is padded. It gives its answers
 * as early as Silero's does, and no earlier. */
#ifndef FAKE_DETECTOR_H
#define FAKE_DETECTOR_H
#include "pipeline/recognizer.h"

typedef struct fake_detector_options {
    const float *probabilities;   /* [n], of the first chunks; NULL: by loudness */
    size_t n;
    int64_t fail_after;           /* samples, after which feed fails; 0: never */
    int fail_open, fail_finish;
    const char *sha256;           /* of the weights that it says it has */
} fake_detector_options;

/* For mx_recognizer.open_detector; context: fake_detector_options, or NULL. */
mxw_status fake_detector_open(void *context, const mxw_vad_options *options, mx_detector *out);
#endif
