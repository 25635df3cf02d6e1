/* vad/network.h - internal to vad/: Silero's network, chunks of samples -> probabilities of speech.
 *
 * A chunk is `chunk` new samples and the `context` before it. Its STFT frames are prepared on the host, the rest are
 * two compiled graphs: the encoder takes chunks to features, in any order; the decoder, which is recurrent, features to
 * probabilities. Invariant: the probability of a chunk is the same bits whatever number of chunks a run has, since
 * every op works row by row and the recurrent one step by step. */
#ifndef MX_VAD_NETWORK_H
#define MX_VAD_NETWORK_H
#include "exec/exec.h"
#include "weights/weights.h"

enum {
    MX_VAD_FRAMES = 4,         /* STFT frames of a chunk */
    MX_VAD_HIDDEN = 128,       /* units of the LSTM */
    MX_VAD_MAX_CHUNK = 512,    /* samples: those of 16 kHz */
    MX_VAD_MAX_CONTEXT = 64,
    MX_VAD_MAX_INPUTS = 4,
    MX_VAD_RUN_CHUNKS = 64    /* of a run at most: enough rows for a GEMM, and what they need stays in the cache */
};

enum { MX_VAD_ENCODER, MX_VAD_DECODER, MX_VAD_PARTS };

/* What the STFT reads: the frames as they are, or, if the basis is a windowed cosine and sine, folded (stft.h). */
typedef struct mx_vad_input {
    const char *name;
    int64_t width;             /* values of a frame */
} mx_vad_input;

typedef struct mx_vad_network {
    int rate, chunk, context, window;
    int folded;
    float hann[129];           /* [window / 2 + 1] of a folded one */
    mx_vad_input inputs[MX_VAD_MAX_INPUTS];
    int n_inputs;
    int64_t frame_floats;      /* of all inputs together */
    mx_graph *graphs[MX_VAD_PARTS];
    mx_program *programs[MX_VAD_PARTS];
} mx_vad_network;

mxw_status mx_vad_network_open(const mx_weights *weights, int rate, mx_vad_network *network);
void mx_vad_network_close(mx_vad_network *network);

/* One run of the encoder: samples[0 .. context) lie before the first chunk; frames is scratch, n * MX_VAD_FRAMES *
 * frame_floats; features: [n][MX_VAD_HIDDEN]. */
mxw_status mx_vad_network_encode(const mx_vad_network *network, mx_run *run, const float *samples, int64_t n,
                                 float *frames, float *features);
/* One run of the decoder. h, c: [MX_VAD_HIDDEN], read and replaced. */
mxw_status mx_vad_network_decode(const mx_vad_network *network, mx_run *run, const float *features, int64_t n, float *h,
                                 float *c, float *probabilities);
#endif
