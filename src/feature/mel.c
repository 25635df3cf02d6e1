/* feature/mel.c - samples to stored log-mel frames, and windows of them.
 *
 * A frame is computed once the 201 samples from its centre on are known (frame 0 needs the 201st for its reflection),
 * so that every frame is computed the same way however the samples arrive. Frames are computed MX_FRAME_LANES at a
 * time; with a pool, each thread computes such a group in its own scratch memory. The running maximum is taken in
 * order, afterwards. A stored entry is the frame's unclamped log10 mel, followed by the maximum of all frames up to and
 * including it. */
#include "feature/feature.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "feature/filters.h"
#include "feature/spectrum.h"
#include "feature/spool.h"

#define HALF (MX_MEL_FFT / 2)
#define AHEAD (HALF + 1)          /* samples that must be known from a frame's centre on */
#define BUFFER 8192               /* samples buffered: those that later frames need, and room for new ones */
#define SHARED_BUFFER (BUFFER * 8)   /* with a pool, at least */
#define SHARED_GROUPS 16             /* per thread, for load balance */
#define MEMORY_LIMIT (16u << 20)
#define SILENCE (-10.0f)          /* log10 of the floor */

/* A thread's scratch memory for one group of frames. */
typedef struct workspace {
    mx_spectrum spectrum;
    float frame[MX_MEL_FFT][MX_FRAME_LANES];
    double power[MX_SPECTRUM_BINS][MX_FRAME_LANES];
    float mels[MX_FILTERS_MAX][MX_FRAME_LANES];
} workspace;

struct mx_mel {
    int n_mels;
    mxw_mel_reference reference;
    int finished;
    mxw_status broken;            /* a failed write: no more samples are accepted */
    int64_t n_samples;            /* fed */
    int64_t n_known;              /* samples known: those fed, and after finish the zeros that follow */
    int64_t n_frames;             /* computed */
    float maximum;
    float hann[MX_MEL_FFT];
    mx_filters filters;
    const mx_fft_kernels *lanes;
    mx_spool spool;
    mx_pool *pool;                /* NULL: the calling thread only */
    workspace *workspaces;        /* [n_workspaces]: one per thread */
    int n_workspaces;
    int64_t first;                /* index of buffer[0] */
    int filled, room;
    float *buffer;                /* [room] */
    float *records;               /* [frames that room holds][n_mels + 1] */
    float *cut;                   /* [MX_MEL_WINDOW][n_mels + 1]: a window's records */
};

/* Periodic Hann, rounded to f32 at each step as in the reference: the rounding of the angle alone changes values by
 * 2e-7, which is visible in bins 80 dB below the loudest. */
static void fill_window(float hann[MX_MEL_FFT]) {
    const float step = (float)(2 * 3.14159265358979323846 / MX_MEL_FFT);
    for (int i = 0; i < MX_MEL_FFT; i++) {
        float angle = (float)i * step;
        float cosine = (float)cos((double)angle);
        hann[i] = 0.5f - 0.5f * cosine;
    }
}

/* The state before the first sample. */
static mxw_status make_room(mx_mel *mel, int room, int n_workspaces) {
    float *buffer = mx_alloc_zero((size_t)room, sizeof(*buffer));
    float *records = mx_alloc_zero((size_t)(room / MX_MEL_HOP + 1) * (size_t)(mel->n_mels + 1), sizeof(*records));
    workspace *workspaces = mx_alloc_zero((size_t)n_workspaces, sizeof(*workspaces));
    if (!buffer || !records || !workspaces) {
        mx_free(buffer);
        mx_free(records);
        mx_free(workspaces);
        return MXW_E_MEMORY;
    }
    mx_free(mel->buffer);
    mx_free(mel->records);
    mx_free(mel->workspaces);
    mel->buffer = buffer;
    mel->records = records;
    mel->workspaces = workspaces;
    mel->room = room;
    mel->n_workspaces = n_workspaces;
    for (int i = 0; i < n_workspaces; i++)
        mx_spectrum_init(&workspaces[i].spectrum);
    return MXW_OK;
}

mxw_status mx_mel_open(int n_mels, mxw_mel_reference reference, mx_mel **out) {
    return mx_mel_open_limited(n_mels, reference, MEMORY_LIMIT, out);
}

mxw_status mx_mel_open_limited(int n_mels, mxw_mel_reference reference, size_t memory_bytes, mx_mel **out) {
    *out = NULL;
    if (n_mels != 80 && n_mels != 128)
        return mx_fail(MXW_E_UNSUPPORTED, "log-mel with %d bins: only 80 and 128 exist", n_mels);
    mx_mel *mel = mx_alloc_zero(1, sizeof(*mel));
    if (!mel)
        return MXW_E_MEMORY;
    size_t record_bytes = (size_t)(n_mels + 1) * sizeof(float);
    mx_spool_init(&mel->spool, record_bytes, memory_bytes);
    mel->n_mels = n_mels;
    mel->cut = mx_alloc_array(MX_MEL_WINDOW, record_bytes);
    if (!mel->cut || make_room(mel, BUFFER, 1) < 0) {
        mx_mel_close(mel);
        return MXW_E_MEMORY;
    }
    mel->reference = reference;
    mel->maximum = SILENCE;
    fill_window(mel->hann);
    mx_filters_init(&mel->filters, n_mels);
    mel->lanes = mx_fft_best();
    *out = mel;
    return MXW_OK;
}

mxw_status mx_mel_share(mx_mel *mel, mx_pool *pool) {
    if (mel->n_known > 0)
        return mx_fail(MXW_E_STATE, "log-mel: pool set after the first samples");
    int threads = mx_pool_threads(pool);
    int room = MX_MAX(SHARED_BUFFER, threads * SHARED_GROUPS * MX_FRAME_LANES * MX_MEL_HOP);
    mxw_status status = make_room(mel, room, threads);
    if (status >= 0)
        mel->pool = pool;
    return status;
}

void mx_mel_close(mx_mel *mel) {
    if (!mel)
        return;
    mx_spool_free(&mel->spool);
    mx_free(mel->cut);
    mx_free(mel->buffer);
    mx_free(mel->records);
    mx_free(mel->workspaces);
    mx_free(mel);
}

/* Unlike fmaxf, this is not a function call. */
static inline float larger(float a, float b) { return b > a ? b : a; }

/* Samples [centre - 200, centre + 200) times the window; those before the start are reflected. */
static void load_lane(const mx_mel *mel, workspace *d, int64_t centre, int lane) {
    int reflected = (int)MX_MAX(HALF - centre, 0);
    const float *from = mel->buffer + (centre - HALF + reflected - mel->first);
    for (int i = 0; i < reflected; i++)
        d->frame[i][lane] = mel->buffer[reflected - i - mel->first] * mel->hann[i];
    for (int i = reflected; i < MX_MEL_FFT; i++)
        d->frame[i][lane] = from[i - reflected] * mel->hann[i];
}

static void store_lane(const mx_mel *mel, const workspace *d, int lane, float *record) {
    float maximum = SILENCE;
    for (int i = 0; i < mel->n_mels; i++) {
        record[i] = d->mels[i][lane];
        maximum = larger(maximum, record[i]);
    }
    record[mel->n_mels] = maximum;
}

static float *record_of(const mx_mel *mel, int64_t i) { return mel->records + i * (mel->n_mels + 1); }

/* The number of frames whose samples are known. */
static int64_t ready(const mx_mel *mel) {
    return mel->n_known < mel->n_frames * MX_MEL_HOP + AHEAD
               ? 0
               : (mel->n_known - AHEAD) / MX_MEL_HOP - mel->n_frames + 1;
}

/* One group of those frames. */
static void run_group(void *context, int64_t group, int slot) {
    const mx_mel *mel = context;
    workspace *d = &mel->workspaces[slot];
    int64_t first = group * MX_FRAME_LANES;
    int count = (int)MX_MIN(ready(mel) - first, MX_FRAME_LANES);
    for (int lane = 0; lane < count; lane++)
        load_lane(mel, d, (mel->n_frames + first + lane) * MX_MEL_HOP, lane);
    mel->lanes->power(&d->spectrum, d->frame, d->power);
    mel->lanes->project(&mel->filters, d->power, d->mels);
    for (int lane = 0; lane < count; lane++)
        store_lane(mel, d, lane, record_of(mel, first + lane));
}

/* Computes every frame whose samples are known; the buffer then keeps only the samples that later frames need. */
static mxw_status compute(mx_mel *mel) {
    int64_t count = ready(mel);
    mx_pool_for_slots(mel->pool, (count + MX_FRAME_LANES - 1) / MX_FRAME_LANES, mel->n_workspaces, run_group, mel);
    for (int64_t i = 0; i < count; i++) {
        float *record = record_of(mel, i);
        record[mel->n_mels] = mel->maximum = larger(mel->maximum, record[mel->n_mels]);
    }
    mxw_status status = mx_spool_add(&mel->spool, mel->records, count);
    if (status < 0)
        return status;
    mel->n_frames += count;
    int64_t keep = MX_MAX(mel->n_frames * MX_MEL_HOP - HALF, 0);
    if (keep > mel->first) {
        int drop = (int)(keep - mel->first);
        memmove(mel->buffer, mel->buffer + drop, (size_t)(mel->filled - drop) * sizeof(float));
        mel->filled -= drop;
        mel->first = keep;
    }
    return MXW_OK;
}

/* samples NULL: zeros */
static mxw_status take(mx_mel *mel, const float *samples, size_t n) {
    while (n > 0 && mel->broken >= 0) {
        size_t room = (size_t)(mel->room - mel->filled);
        size_t count = MX_MIN(n, room);
        if (samples)
            memcpy(mel->buffer + mel->filled, samples, count * sizeof(float));
        else
            memset(mel->buffer + mel->filled, 0, count * sizeof(float));
        mel->filled += (int)count;
        mel->n_known += (int64_t)count;
        samples = samples ? samples + count : NULL;
        n -= count;
        mel->broken = compute(mel);
    }
    return mel->broken;
}

mxw_status mx_mel_feed(mx_mel *mel, const float *samples, size_t n) {
    if (mel->finished)
        return mx_fail(MXW_E_STATE, "samples fed after the end of the recording");
    if (mel->broken < 0)
        return mx_fail(mel->broken, "samples fed after a failure");
    mxw_status status = take(mel, samples, n);
    if (status >= 0)
        mel->n_samples += (int64_t)n;
    return status;
}

/* The reference pads with 30 s of zeros; all but the first frames of them are exact silence and are not stored. */
mxw_status mx_mel_finish(mx_mel *mel) {
    if (mel->finished)
        return MXW_OK;
    if (mel->broken < 0)
        return mx_fail(mel->broken, "recording ended after a failure");
    mxw_status status = take(mel, NULL, MX_MEL_HOP + HALF + AHEAD);
    if (status >= 0)
        mel->finished = 1;
    return status;
}

float mx_mel_maximum(const mx_mel *mel) { return mel->maximum; }

void mx_mel_raise_maximum(mx_mel *mel, float maximum) { mel->maximum = larger(mel->maximum, maximum); }

int mx_mel_finished(const mx_mel *mel) { return mel->finished; }

int64_t mx_mel_frames(const mx_mel *mel) { return mel->finished ? mel->n_samples / MX_MEL_HOP : mel->n_frames; }

double mx_mel_seconds(const mx_mel *mel) { return (double)mel->n_samples / MXW_SAMPLE_RATE; }

static mxw_status check_window(const mx_mel *mel, int64_t seek, int64_t count, mx_mel_rest rest) {
    if (mel->reference == MXW_MEL_FILE && !mel->finished)
        return mx_fail(MXW_E_STATE, "window requested before the end of the recording is known");
    if (seek < 0 || count < 0 || count > MX_MEL_WINDOW)
        return mx_fail(MXW_E_ARGUMENT, "window of %lld frames at %lld", (long long)count, (long long)seek);
    int64_t known = mx_mel_frames(mel);
    if (mel->finished && rest == MX_MEL_CONTENT ? seek > known : seek > known - count)
        return mx_fail(mel->finished ? MXW_E_ARGUMENT : MXW_E_STATE, "window of %lld frames at %lld, but only %lld %s",
                       (long long)count, (long long)seek, (long long)known,
                       mel->finished ? "exist" : "are known so far");
    return MXW_OK;
}

mxw_status mx_mel_window(mx_mel *mel, int64_t seek, int64_t n_frames, mx_mel_rest rest, float *out) {
    const int n_mels = mel->n_mels;
    int64_t count = rest == MX_MEL_CONTENT ? MX_MEL_WINDOW : n_frames;
    mxw_status status = check_window(mel, seek, count, rest);
    if (status < 0)
        return status;
    int64_t stored = MX_MIN(count, mel->n_frames - seek);
    status = mx_spool_read(&mel->spool, seek, stored, mel->cut);
    if (status < 0)
        return status;
    float maximum = mel->maximum;
    if (mel->reference == MXW_MEL_RUNNING && stored > 0)
        maximum = mel->cut[stored * (n_mels + 1) - 1];
    float floor_value = maximum - 8.0f;
    for (int64_t t = 0; t < stored; t++)
        for (int i = 0; i < n_mels; i++)
            out[t * n_mels + i] = (larger(mel->cut[t * (n_mels + 1) + i], floor_value) + 4.0f) / 4.0f;
    float after = rest == MX_MEL_ZEROS ? 0.0f : (fmaxf(SILENCE, floor_value) + 4.0f) / 4.0f;
    for (int64_t i = stored * n_mels; i < (int64_t)MX_MEL_WINDOW * n_mels; i++)
        out[i] = after;
    return MXW_OK;
}

/* ---- all at once ------------------------------------------------------------------------------------------------- */

/* The first `count` values of samples, zeros and their reflection at the end. The last frame that is computed needs no
 * more than AHEAD - MX_MEL_HOP of the reflection. */
static mxw_status feed_reflected(mx_mel *mel, const float *samples, size_t n, size_t padding, size_t count) {
    size_t own = MX_MIN(n, count), zeros = MX_MIN(padding, count - own), total = n + padding;
    mxw_status status = take(mel, samples, own);
    if (status >= 0)
        status = take(mel, NULL, zeros);
    for (size_t i = total; i < count && status >= 0; i++) {
        size_t back = 2 * total - 2 - i;
        status = take(mel, back < n ? &samples[back] : NULL, 1);
    }
    return status;
}

/* Frames [first, first + count) of `cut`, clamped, each as a column of out. */
static void put_columns(const mx_mel *mel, int64_t first, int64_t count, int64_t n_frames, float *out) {
    float floor_value = mel->maximum - 8.0f;
    for (int64_t t = 0; t < count; t++)
        for (int i = 0; i < mel->n_mels; i++)
            out[i * n_frames + first + t] = (larger(mel->cut[t * (mel->n_mels + 1) + i], floor_value) + 4.0f) / 4.0f;
}

mxw_status mx_log_mel(const float *samples, size_t n, size_t padding, int n_mels, float *out) {
    mx_mel *mel;
    int64_t n_frames = (int64_t)((n + padding) / MX_MEL_HOP);
    mxw_status status = mx_mel_open(n_mels, MXW_MEL_RUNNING, &mel);
    if (status < 0)
        return status;
    if (n_frames > 0)
        status = feed_reflected(mel, samples, n, padding, (size_t)(n_frames - 1) * MX_MEL_HOP + AHEAD);
    for (int64_t at = 0, count; at < n_frames && status >= 0; at += count) {
        count = MX_MIN(n_frames - at, MX_MEL_WINDOW);
        status = mx_spool_read(&mel->spool, at, count, mel->cut);
        if (status >= 0)
            put_columns(mel, at, count, n_frames, out);
    }
    mx_mel_close(mel);
    return status;
}
