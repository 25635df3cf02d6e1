/* weights/names/positions.c - the encoder's positions as openai-whisper's sinusoids() computes them: sines, then
 * cosines of a position times falling frequencies, every step rounded to f32. */
#include <math.h>

#include "weights/store.h"

mxw_status mx_sinusoids(int64_t n_ctx, int64_t n_state, float *out) {
    const int64_t half = n_state / 2;
    if (half < 2 || n_state % 2)
        return mx_fail(MXW_E_FORMAT, "positions of %lld values are not sinusoids", (long long)n_state);
    const float step = (float)(-log(10000.0) / (double)(half - 1));
    for (int64_t i = 0; i < half; i++) {
        const float frequency = (float)exp((double)(step * (float)i));
        for (int64_t t = 0; t < n_ctx; t++) {
            const float angle = (float)t * frequency;
            out[t * n_state + i] = (float)sin((double)angle);
            out[t * n_state + half + i] = (float)cos((double)angle);
        }
    }
    return MXW_OK;
}
