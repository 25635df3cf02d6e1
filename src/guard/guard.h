/* guard/guard.h - public header of guard/: evidence about the words of a window in, suspicion and reasons out.
 *
 * A word is suspected when what the run itself knows speaks against somebody having said it: the detector of speech,
 * the model's probabilities, its attention, the pace, repetitions. Each kind of evidence is a number (evidence.def); a
 * logistic function of them is the suspicion. Its coefficients (coefficients.def) are fitted by tools/fit-guard. No
 * word is looked up in a list.
 *
 * Pure functions: no tensors, no sessions; results depend neither on the batch nor on the number of threads. */
#ifndef MX_GUARD_H
#define MX_GUARD_H
#include <stddef.h>
#include <stdint.h>

#define MX_GUARD_FRAMES_PER_S 50     /* of speech probabilities and attention */
#define MX_GUARD_BEFORE 96           /* tokens before a window that are of use */
#define MX_GUARD_SUSPECTED 0.5       /* from here on a word is marked, or dropped */

typedef enum mx_evidence {
#define EVIDENCE(identifier, name, reason, sign) MX_EVIDENCE_##identifier,
#include "guard/evidence.def"
#undef EVIDENCE
    MX_N_EVIDENCE
} mx_evidence;

const char *mx_evidence_name(int index);   /* NULL past the end */
int mx_evidence_sign(int index);           /* 1: more of it is more suspect; -1: less; what the fit must keep to */

/* A token of text, as the window's text was forced. */
typedef struct mx_guard_token {
    int32_t id;
    double logprob;       /* among all text */
    double entropy;       /* of the best candidates in its place, nats */
    double on_speech;     /* the probability of speech where its attention is; padding after the audio left aside */
    double centre_s;      /* where that is, in the window */
} mx_guard_token;

/* What the row of attention scores [n_heads][n_keys] that predicts a token says. speech [n_frames]: the probability of
 * speech in each frame of the window; weights [2 n_keys]: scratch. */
void mx_guard_attend(mx_guard_token *token, const float *scores, size_t n_heads, size_t n_keys, const float *speech,
                     size_t n_frames, double *weights);
/* Entropy of n candidates by their log probabilities, the rest counted as one more. */
double mx_guard_entropy(const float *logprobs, size_t n);

typedef struct mx_guard_word {
    double start_s, end_s;                /* in the window */
    size_t first_token, n_tokens;         /* of the window's */
    size_t segment;                       /* of the window; in order, its words without a gap between their tokens */
    size_t index;                         /* the caller's; not used here */
    double evidence[MX_N_EVIDENCE];       /* out */
    double suspicion;                     /* out: 0 to 1 */
    uint32_t reasons;                     /* out: bits of base/arrays.h; 0 unless it is suspected */
} mx_guard_word;

typedef struct mx_guard_window {
    double no_speech_prob, avg_logprob, temperature, compression_ratio;
    const float *speech;                  /* [n_frames] */
    size_t n_frames;
    const int32_t *before;                /* [n_before]: tokens of the text before the window, if there is any */
    size_t n_before;
    const mx_guard_token *tokens;         /* [n_tokens] */
    size_t n_tokens;
    mx_guard_word *words;                 /* [n_words] */
    size_t n_words;
} mx_guard_window;

/* Fills in what is out in every word. */
void mx_guard_judge(mx_guard_window *window);
/* The suspicion of evidence [MX_N_EVIDENCE], and what speaks most for it. */
double mx_guard_score(const double *evidence, uint32_t *reasons);
#endif
