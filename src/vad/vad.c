/* vad/vad.c - a stream of samples: cut into chunks, run through the network as many at a time as there are, their
 * probabilities given to the state machine of the regions and kept for who asks for them. */
#include "vad/vad.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "vad/network.h"
#include "vad/regions.h"

#define READ_SAMPLES 65536        /* of an audio at a time */
#define KEPT_SECONDS 3600         /* of probabilities that nobody reads */
#define MAX_WORKERS 16            /* more would wait for the decoder, which is one thread's work */

struct mx_vad_model {
    mx_vad_network network;
    char sha256[65];              /* of the weights' file */
};

struct mxw_vad {
    mxw_vad_options options;      /* strings not kept */
    mx_vad_model *model;
    int owns_model;
    mx_run *decoder;
    mx_pool *pool;                /* NULL: the calling thread only */
    int n_workers;
    struct worker {
        mx_run *encoder;
        float *frames;            /* inputs of a run */
        mxw_status status;        /* a failure, ... */
        char line[512];           /* ... and its error line: it may be on another thread */
    } *workers;                   /* [n_workers]: one per thread */
    mx_regions regions;
    mxw_status failed;            /* a failure in the middle of a chunk: only reset helps */
    int finished;
    int64_t samples, chunks;      /* fed, heard */

    size_t room;                  /* chunks in the buffer: a run for each thread */
    float *buffer;                /* [context + room * chunk]: first the context of the next chunk */
    size_t waiting;               /* samples behind the context */
    float *features[2];           /* [room][MX_VAD_HIDDEN]: of the chunks that are encoded, and of those before, ... */
    size_t undecoded;             /* ... so many, which are decoded meanwhile */
    mxw_status decoded;           /* a failure of that, ... */
    char line[512];               /* ... and its error line */
    float h[MX_VAD_HIDDEN], c[MX_VAD_HIDDEN];

    float *kept;                  /* a ring of probabilities: kept[(kept_at + i) % kept_room], i < n_kept */
    size_t kept_at, n_kept, kept_room;
};

/* ---- the model --------------------------------------------------------------------------------------------------- */

mxw_status mx_vad_model_open(const char *name_or_path, const char *model_dir, int sample_rate, mx_vad_model **out) {
    mx_weights *weights = NULL;
    mxw_status status = mx_silero_open(name_or_path, model_dir, sample_rate, &weights);
    *out = NULL;
    if (status < 0)
        return status;
    mx_vad_model *model = mx_alloc_zero(1, sizeof(*model));
    status = model ? mx_vad_network_open(weights, sample_rate, &model->network) : MXW_E_MEMORY;
    if (status == MXW_OK) {
        mx_weights_sha256(weights, model->sha256);
        *out = model;
    } else {
        mx_free(model);
    }
    mx_weights_close(weights);   /* the graph has copies */
    return status;
}

void mx_vad_model_close(mx_vad_model *model) {
    if (!model)
        return;
    mx_vad_network_close(&model->network);
    mx_free(model);
}

const char *mx_vad_model_sha256(const mx_vad_model *model) { return model->sha256; }

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void free_workers(mx_vad *vad) {
    for (int i = 0; i < vad->n_workers; i++) {
        mx_run_close(vad->workers[i].encoder);
        mx_free(vad->workers[i].frames);
    }
    mx_free(vad->workers);
    mx_free(vad->buffer);
    mx_free(vad->features[0]);
    mx_free(vad->features[1]);
    vad->workers = NULL;
    vad->buffer = vad->features[0] = vad->features[1] = NULL;
    vad->n_workers = 0;
}

/* What the encoder needs on so many threads. */
static mxw_status allocate(mx_vad *vad, int n_workers) {
    const mx_vad_network *n = &vad->model->network;
    const size_t frames = (size_t)(MX_VAD_RUN_CHUNKS * MX_VAD_FRAMES * n->frame_floats);
    mxw_status status = MXW_OK;
    free_workers(vad);
    vad->room = (size_t)n_workers * MX_VAD_RUN_CHUNKS;
    vad->buffer = mx_alloc_zero((size_t)n->context + vad->room * (size_t)n->chunk, sizeof(float));
    for (int i = 0; i < 2; i++)
        vad->features[i] = mx_alloc_array(vad->room * MX_VAD_HIDDEN, sizeof(float));
    vad->workers = mx_alloc_zero((size_t)n_workers, sizeof(*vad->workers));
    if (!vad->buffer || !vad->features[0] || !vad->features[1] || !vad->workers)
        status = MXW_E_MEMORY;
    while (vad->n_workers < n_workers && status == MXW_OK) {
        struct worker *w = &vad->workers[vad->n_workers++];
        w->frames = mx_alloc_array(frames, sizeof(float));
        status = w->frames ? mx_run_open(n->programs[MX_VAD_ENCODER], NULL, &w->encoder) : MXW_E_MEMORY;
    }
    if (status < 0)
        free_workers(vad);
    return status;
}

mxw_status mx_vad_open(mx_vad_model *model, const mxw_vad_options *options, mx_vad **out) {
    mxw_status status;
    *out = NULL;
    mx_vad *vad = mx_alloc_zero(1, sizeof(*vad));
    if (!vad)
        return MXW_E_MEMORY;
    vad->options = *options;
    vad->options.model = vad->options.model_dir = NULL;
    vad->model = model;
    if (!model) {
        MX_TRY(mx_vad_model_open(options->model, options->model_dir, options->sample_rate, &vad->model));
        vad->owns_model = 1;
    }
    MX_TRY(mx_run_open(vad->model->network.programs[MX_VAD_DECODER], NULL, &vad->decoder));
    MX_TRY(allocate(vad, 1));
    mx_vad_reset(vad);
    *out = vad;
    return MXW_OK;
out:
    mx_vad_close(vad);
    return status;
}

void mx_vad_close(mx_vad *vad) {
    if (!vad)
        return;
    mx_run_close(vad->decoder);
    free_workers(vad);
    mx_regions_free(&vad->regions);
    mx_free(vad->kept);
    if (vad->owns_model)
        mx_vad_model_close(vad->model);
    mx_free(vad);
}

mxw_status mx_vad_share(mx_vad *vad, mx_pool *pool) {
    if (vad->samples > 0)
        return mx_fail(MXW_E_STATE, "speech detection: pool set after the first samples");
    mxw_status status = allocate(vad, MX_MIN(mx_pool_threads(pool), MAX_WORKERS));
    vad->pool = pool;
    vad->failed = status < 0 ? status : vad->failed;
    return status;
}

void mx_vad_reset(mx_vad *vad) {
    if (!vad->n_workers)   /* share failed: it says so until it is closed */
        return;
    mx_regions_start(&vad->regions, &vad->options);
    vad->failed = MXW_OK;
    vad->finished = 0;
    vad->samples = vad->chunks = 0;
    vad->waiting = 0;
    vad->kept_at = vad->n_kept = 0;
    vad->undecoded = 0;
    vad->decoded = MXW_OK;
    for (int i = 0; i < vad->n_workers; i++)
        vad->workers[i].status = MXW_OK;
    memset(vad->buffer, 0, (size_t)vad->model->network.context * sizeof(float));
    memset(vad->h, 0, sizeof(vad->h));
    memset(vad->c, 0, sizeof(vad->c));
}

int mx_vad_chunk(const mx_vad *vad) { return vad->model->network.chunk; }
int mx_vad_rate(const mx_vad *vad) { return vad->model->network.rate; }

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* The ring grows as it is filled, up to its limit; then the oldest are overwritten. */
static mxw_status keep_probability(mx_vad *vad, float p) {
    size_t limit = (size_t)KEPT_SECONDS * (size_t)vad->model->network.rate / (size_t)vad->model->network.chunk;
    if (vad->n_kept == vad->kept_room && vad->kept_room < limit) {
        size_t room = MX_MIN(limit, MX_MAX(1024, 2 * vad->kept_room));
        float *larger = mx_alloc_array(room, sizeof(*larger));
        if (!larger)
            return MXW_E_MEMORY;
        for (size_t i = 0; i < vad->n_kept; i++)
            larger[i] = vad->kept[(vad->kept_at + i) % vad->kept_room];
        mx_free(vad->kept);
        vad->kept = larger;
        vad->kept_room = room;
        vad->kept_at = 0;
    }
    if (vad->n_kept == vad->kept_room) {
        vad->kept_at = (vad->kept_at + 1) % vad->kept_room;
        vad->n_kept--;
    }
    vad->kept[(vad->kept_at + vad->n_kept++) % vad->kept_room] = p;
    return MXW_OK;
}

static int64_t n_runs(size_t n) { return (int64_t)((n + MX_VAD_RUN_CHUNKS - 1) / MX_VAD_RUN_CHUNKS); }

/* Chunks of a run, of n in all. */
static size_t chunks_of(size_t n, int64_t run) {
    return MX_MIN((size_t)MX_VAD_RUN_CHUNKS, n - (size_t)run * MX_VAD_RUN_CHUNKS);
}

static mxw_status decode_run(mx_vad *vad, int64_t run) {
    const int64_t chunk = vad->model->network.chunk;
    const size_t n = chunks_of(vad->undecoded, run);
    float p[MX_VAD_RUN_CHUNKS];
    mxw_status status = mx_vad_network_decode(&vad->model->network, vad->decoder,
                                              vad->features[1] + (size_t)run * MX_VAD_RUN_CHUNKS * MX_VAD_HIDDEN,
                                              (int64_t)n, vad->h, vad->c, p);
    for (size_t i = 0; i < n && status == MXW_OK; i++) {
        vad->chunks++;
        status = keep_probability(vad, p[i]);
        if (status == MXW_OK)
            status = mx_regions_add(&vad->regions, p[i], MX_MIN(vad->samples, vad->chunks * chunk));
    }
    return status;
}

/* The chunks that were encoded last. */
static void decode(mx_vad *vad) {
    for (int64_t i = 0; i < n_runs(vad->undecoded) && vad->decoded == MXW_OK; i++)
        vad->decoded = decode_run(vad, i);
    if (vad->decoded < 0)
        snprintf(vad->line, sizeof(vad->line), "%s", mx_error());
}

static void encode(mx_vad *vad, size_t n, int64_t run, struct worker *w) {
    const mx_vad_network *network = &vad->model->network;
    const size_t first = (size_t)run * MX_VAD_RUN_CHUNKS;
    if (w->status < 0)
        return;
    w->status = mx_vad_network_encode(network, w->encoder, vad->buffer + first * (size_t)network->chunk,
                                      (int64_t)chunks_of(n, run), w->frames,
                                      vad->features[0] + first * MX_VAD_HIDDEN);
    if (w->status < 0)
        snprintf(w->line, sizeof(w->line), "%s", mx_error());
}

/* Pieces of work that can be done at once: the chunks before are decoded, if there are any, and runs of the next ones
 * encoded. */
typedef struct hearing {
    mx_vad *vad;
    size_t n;                     /* chunks of the buffer to encode */
    int64_t first_run;            /* the piece that is the first run */
} hearing;

static void hear_piece(void *context, int64_t i, int slot) {
    const hearing *h = context;
    if (i < h->first_run)
        decode(h->vad);
    else
        encode(h->vad, h->n, i - h->first_run, &h->vad->workers[slot]);
}

static mxw_status check_pieces(mx_vad *vad) {
    mxw_status status = vad->decoded < 0 ? mx_fail(vad->decoded, "%s", vad->line) : MXW_OK;
    for (int i = 0; i < vad->n_workers && status == MXW_OK; i++)
        if (vad->workers[i].status < 0)
            status = mx_fail(vad->workers[i].status, "%s", vad->workers[i].line);
    vad->failed = status < 0 ? status : vad->failed;
    return status;
}

/* Encodes the first n chunks of the buffer; what is left moves to its front. Those before them are decoded. */
static mxw_status hear(mx_vad *vad, size_t n) {
    const size_t chunk = (size_t)vad->model->network.chunk, context = (size_t)vad->model->network.context;
    float *features = vad->features[0];
    hearing h = {.vad = vad, .n = n, .first_run = vad->undecoded > 0};
    mx_pool_for_slots(vad->pool, h.first_run + n_runs(n), vad->n_workers, hear_piece, &h);
    vad->features[0] = vad->features[1];
    vad->features[1] = features;
    vad->undecoded = n;
    vad->waiting -= n * chunk;
    memmove(vad->buffer, vad->buffer + n * chunk, (context + vad->waiting) * sizeof(float));
    return check_pieces(vad);
}

static mxw_status hear_rest(mx_vad *vad) {
    decode(vad);
    vad->undecoded = 0;
    return check_pieces(vad);
}

static mxw_status check_open(const mx_vad *vad) {
    if (vad->failed < 0)
        return mx_fail(vad->failed, "speech detection failed before; reset or close it");
    return MXW_OK;
}

mxw_status mx_vad_feed_some(mx_vad *vad, const float *samples, size_t n) {
    const mx_vad_network *network = &vad->model->network;
    const size_t chunk = (size_t)network->chunk, room = vad->room * chunk;
    mxw_status status = check_open(vad);
    if (status == MXW_OK && vad->finished)
        return mx_fail(MXW_E_STATE, "speech detection is finished: no more samples can be fed; reset it first");
    while (n && status == MXW_OK) {
        size_t part = MX_MIN(n, room - vad->waiting);
        memcpy(vad->buffer + network->context + vad->waiting, samples, part * sizeof(*samples));
        vad->waiting += part;
        vad->samples += (int64_t)part;
        samples += part;
        n -= part;
        if (vad->waiting >= chunk)
            status = hear(vad, vad->waiting / chunk);
    }
    return status;
}

mxw_status mx_vad_feed(mx_vad *vad, const float *samples, size_t n) {
    mxw_status status = mx_vad_feed_some(vad, samples, n);
    return status == MXW_OK ? hear_rest(vad) : status;
}

mxw_status mx_vad_feed_audio(mx_vad *vad, mx_audio *audio) {
    mxw_status status;
    size_t got = 0;
    float *samples = mx_alloc_array(READ_SAMPLES, sizeof(*samples));
    if (!samples)
        return MXW_E_MEMORY;
    do {
        MX_TRY(mx_audio_read(audio, samples, READ_SAMPLES, &got));
        MX_TRY(mx_vad_feed(vad, samples, got));
    } while (got > 0);
out:
    mx_free(samples);
    return status;
}

mxw_status mx_vad_finish(mx_vad *vad) {
    const mx_vad_network *network = &vad->model->network;
    mxw_status status = check_open(vad);
    if (status < 0 || vad->finished)
        return status;
    if (vad->waiting) {
        size_t missing = (size_t)network->chunk - vad->waiting;
        memset(vad->buffer + network->context + vad->waiting, 0, missing * sizeof(float));
        vad->waiting += missing;
        status = hear(vad, 1);
    }
    if (status == MXW_OK)
        status = hear_rest(vad);
    if (status == MXW_OK)
        status = mx_regions_end(&vad->regions, vad->samples);
    vad->finished = 1;
    vad->failed = status < 0 ? status : vad->failed;
    return status;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static mxw_vad_region region_of(const mx_vad *vad, mx_region span) {
    double rate = vad->model->network.rate;
    return (mxw_vad_region){.struct_size = sizeof(mxw_vad_region), .first = span.first, .end = span.end,
                            .start_s = (double)span.first / rate, .end_s = (double)span.end / rate};
}

mxw_status mx_vad_next(mx_vad *vad, mxw_vad_region *region) {
    mx_region span;
    mxw_status status = check_open(vad);
    if (status < 0)
        return status;
    if (!mx_regions_take(&vad->regions, &span))
        return vad->finished ? MXW_END : MXW_MORE;
    *region = region_of(vad, span);
    return MXW_OK;
}

int mx_vad_ahead(const mx_vad *vad, mxw_vad_region *region) {
    mx_region span;
    int certain = mx_regions_ahead(&vad->regions, &span);
    *region = region_of(vad, span);
    return certain;
}

mxw_status mx_vad_probabilities(mx_vad *vad, float *probabilities, size_t n, size_t *got) {
    *got = MX_MIN(n, vad->n_kept);
    for (size_t i = 0; i < *got; i++)
        probabilities[i] = vad->kept[(vad->kept_at + i) % vad->kept_room];
    if (*got)
        vad->kept_at = (vad->kept_at + *got) % vad->kept_room;
    vad->n_kept -= *got;
    return MXW_OK;
}
