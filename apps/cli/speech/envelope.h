/* cli/speech/envelope.h - a recording as it is drawn: the lowest and the highest sample of each of thousands of blocks.
 *
 * In: samples as they come. Out: blocks of equal length. Invariants: memory does not grow with the recording: when
 * there are too many blocks, each two become one.
 */
#ifndef CLI_SPEECH_ENVELOPE_H
#define CLI_SPEECH_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

enum { ENVELOPE_BLOCKS = 1 << 15 };

typedef struct envelope {
    float low[ENVELOPE_BLOCKS], high[ENVELOPE_BLOCKS];
    int n;            /* blocks begun */
    int64_t per;      /* samples in each, but for the last; 0: none came */
    int64_t n_samples;
} envelope;

void envelope_add(envelope *e, const float *samples, size_t n);
/* The extremes of the samples from first up to end; 0: there are none. */
int envelope_range(const envelope *e, int64_t first, int64_t end, float *low, float *high);
/* The largest magnitude of all. */
float envelope_peak(const envelope *e);

#endif
