/* cli/speech/envelope.c - see envelope.h. */
#include "speech/envelope.h"

enum { FIRST_BLOCK = 16 }; /* samples: a millisecond */

static void join(envelope *e, int to, int from) {
    e->low[to] = e->low[from] < e->low[to] ? e->low[from] : e->low[to];
    e->high[to] = e->high[from] > e->high[to] ? e->high[from] : e->high[to];
}

static void halve(envelope *e) {
    for (int i = 0; 2 * i < e->n; i++) {
        e->low[i] = e->low[2 * i];
        e->high[i] = e->high[2 * i];
        if (2 * i + 1 < e->n)
            join(e, i, 2 * i + 1);
    }
    e->n = (e->n + 1) / 2;
    e->per *= 2;
}

void envelope_add(envelope *e, const float *samples, size_t n) {
    if (!e->per)
        e->per = FIRST_BLOCK;
    for (size_t i = 0; i < n; i++, e->n_samples++) {
        if (e->n_samples == e->n * e->per) {
            if (e->n == ENVELOPE_BLOCKS)
                halve(e);
            e->low[e->n] = e->high[e->n] = samples[i];
            e->n++;
            continue;
        }
        if (samples[i] < e->low[e->n - 1])
            e->low[e->n - 1] = samples[i];
        if (samples[i] > e->high[e->n - 1])
            e->high[e->n - 1] = samples[i];
    }
}

int envelope_range(const envelope *e, int64_t first, int64_t end, float *low, float *high) {
    first = first < 0 ? 0 : first;
    end = end < e->n_samples ? end : e->n_samples;
    if (!e->per || first >= end)
        return 0;
    int64_t from = first / e->per, to = (end - 1) / e->per;
    *low = e->low[from];
    *high = e->high[from];
    for (int64_t i = from + 1; i <= to; i++) {
        *low = e->low[i] < *low ? e->low[i] : *low;
        *high = e->high[i] > *high ? e->high[i] : *high;
    }
    return 1;
}

float envelope_peak(const envelope *e) {
    float low = 0, high = 0;
    if (!envelope_range(e, 0, e->n_samples, &low, &high))
        return 0;
    return -low > high ? -low : high;
}
