/* decode/decode.h - public header of decode/: token candidates in, tokens out; it deals with rules, never with tensors.
 *
 * mx_decode_plan: what is the same for every window of a session (options, vocabulary facts, suppression sets).
 * mx_decoding:    one window at one temperature, as a state machine: mx_decoding_step says which rows of tokens to feed
 *                 and which logits are wanted under which rules; the caller runs them, possibly batched with rows of
 *                 other windows, and passes the candidates to mx_decoding_take. Nothing is allocated between start and
 *                 result.
 *
 * The algorithm is openai-whisper's, including the order of ties: greedy, best-of sampling, beam search with patience,
 * length penalty, timestamp rules, suppression, prompt and prefix. See docs/decoding.md. */
#ifndef MX_DECODE_H
#define MX_DECODE_H
#include "op/select.h"
#include "text/text.h"

/* ---- the plan ------------------------------------------------------------------------------------ */

typedef struct mx_decode_options {
    int n_text_ctx;                  /* 448 */
    int n_audio_ctx;                 /* 1500: a timestamp step is 30 s / n_audio_ctx */
    mxw_task task;
    int beam_size;                   /* 0: greedy */
    int best_of;
    double patience;                 /* MXW_NONE: 1 */
    double length_penalty;           /* MXW_NONE: plain length */
    int sample_len;
    const char *suppress_tokens;
    int suppress_blank;
    const char *prefix;              /* or NULL */
    int without_timestamps;
    double max_initial_timestamp;    /* or MXW_NONE */
    uint64_t seed;
    int break_loops;                 /* a sequence that repeats itself again and again is ended as soon as it does */
    const char *const *languages;    /* codes that detection chooses among, or NULL: all */
    int n_languages;
    double repetition_penalty;       /* 0 or 1: none */
    int no_repeat_ngram_size;        /* 0: any */
} mx_decode_options;

/* Rows of the suppression table. */
enum { MX_SET_USUAL, MX_SET_FIRST, MX_SET_LANGUAGES, MX_SET_NONE, MX_SET_COUNT };

/* What is not to be said again within a window, by CTranslate2's rules. They change logits before any mx_rule, and
 * depend on everything that a sequence has said, so they are applied on the host: see mx_repetition_apply. */
typedef struct mx_repetition {
    float penalty;                   /* of the logits of ids that were said: x * penalty below 0, else x / penalty */
    int ngram;                       /* an id that would complete that many in a row a second time is out; 0: none is */
} mx_repetition;

typedef struct mx_decode_plan {
    mx_decode_options options;
    mx_repetition repetition;
    int has_repetition;              /* it changes something */
    const mx_text *text;
    mx_text_special special;
    uint8_t *suppress;               /* [MX_SET_COUNT][n_vocab], non-zero: suppressed */
    int32_t *prefix;                 /* tokens */
    size_t n_prefix;
    int max_initial_timestamp_index; /* or -1 */
    int max_candidates;              /* beam size times patience */
    int n_group;                     /* the most sequences a window can have */
    int n_initial_max;               /* the most tokens before the first sampled one */
    int n_cells;                     /* cache rows that one window needs */
} mx_decode_plan;

mxw_status mx_decode_plan_open(const mx_decode_options *options, const mx_text *text, mx_decode_plan **out);
void mx_decode_plan_close(mx_decode_plan *plan);

/* ---- a window ------------------------------------------------------------------------------------ */

typedef struct mx_decoding mx_decoding;

typedef struct mx_decode_row {
    int32_t token, position, sequence, cell;
} mx_decode_row;

/* All that a sequence has said in its window: what it was told to begin with (prefix, text that goes on), and what was
 * sampled. */
typedef struct mx_said {
    const int32_t *begin, *sampled;
    int n_begin, n_sampled;
} mx_said;

typedef struct mx_decode_step {
    const mx_decode_row *rows;
    int n_rows;
    const int32_t *cells;            /* [n_sequences][n_text_ctx]: position -> cell */
    int n_sequences;
    const int32_t *picks;            /* rows whose logits are wanted */
    const mx_rule *rules;            /* one per pick */
    int n_picks;
    const mx_repetition *repetition; /* NULL: none; else the logits of each pick pass mx_repetition_apply ... */
    const mx_said *said;             /* ... with this, before its rule */
} mx_decode_step;

typedef struct mx_candidates {
    const int32_t *ids;              /* [n_picks][k], best first; -1 where there are no more */
    const float *logprobs;           /* [n_picks][k] */
    const float *stats;              /* [n_picks][MX_SELECT_STATS] */
    int k;
} mx_candidates;

typedef struct mx_decode_result {
    const int32_t *tokens;           /* sampled, without end of text; owned by the decoding until its next start */
    size_t n_tokens;
    double avg_logprob, no_speech_prob, temperature, compression_ratio;
    const char *text;                /* stripped; owned likewise */
    int ended;                       /* with the end of text, not at the length limit */
    int looped;                      /* it was cut where it began to repeat itself */
} mx_decode_result;

mxw_status mx_decoding_open(const mx_decode_plan *plan, mx_decoding **out);
void mx_decoding_close(mx_decoding *decoding);
/* prompt: the previous text's tokens, cut here to what fits. language: a code, ignored by an .en vocabulary.
 * window: the number of the window in the recording; it seeds the sampling. */
mxw_status mx_decoding_start(mx_decoding *decoding, const char *language, const int32_t *prompt, size_t n_prompt,
                             double temperature, uint64_t window);
/* After start, before the first step: the text goes on after these tokens of text, which are fed as they are, after the
 * first timestamp in a plan with timestamps, and are not part of the result. greedy: without the plan's beams.
 * E_ARGUMENT if they do not fit beside the prompt. */
mxw_status mx_decoding_continue(mx_decoding *decoding, const int32_t *tokens, size_t n, int greedy);
/* 1 with *step filled, 0 when the window is decoded. */
int mx_decoding_step(mx_decoding *decoding, mx_decode_step *step);
int mx_decoding_candidates(const mx_decoding *decoding);   /* how many per pick the search needs */
void mx_decoding_take(mx_decoding *decoding, const mx_candidates *candidates);
mxw_status mx_decoding_result(mx_decoding *decoding, mx_decode_result *result);

/* The step that forces a known window: it feeds all tokens and picks the log probabilities of every token after the
 * initial ones (and of the end of text): pick i predicts tokens[i]. */
mxw_status mx_decoding_force(mx_decoding *decoding, const char *language, const int32_t *prompt, size_t n_prompt,
                             const int32_t *tokens, size_t n_tokens, mx_decode_step *step);

/* The step that feeds a window's text alone, without prompt or timestamps, as needed for word times: the start of a
 * transcript, the tokens, the end of text. Pick i predicts tokens[i] among all text. *n_before: rows before the first
 * picked one. E_ARGUMENT if there are more tokens than the model has positions for. */
mxw_status mx_decoding_align(mx_decoding *decoding, const char *language, const int32_t *tokens, size_t n_tokens,
                             mx_decode_step *step, size_t *n_before);

/* ---- fallback and helpers ------------------------------------------------------------------------ */

/* Changes a row of logits [n_vocab] by what was said before it. Ids are of that vocabulary. */
void mx_repetition_apply(const mx_repetition *rule, const mx_said *said, float *logits);

/* The rule that allows only the tokens of the plan's languages, for a row with start-of-transcript alone; log
 * probabilities are relative to these. */
mx_rule mx_decode_language_rule(const mx_decode_plan *plan);

typedef struct mx_thresholds {
    double compression_ratio, logprob, no_speech;   /* each may be MXW_NONE */
} mx_thresholds;
int mx_needs_fallback(const mx_decode_result *result, const mx_thresholds *thresholds);
int mx_is_silence(const mx_decode_result *result, const mx_thresholds *thresholds);
/* The temperatures numpy.arange(first, 1 + 1e-6, increment); at least one. *n is the capacity, then the count. */
void mx_temperatures(double first, double increment, double *out, int *n);
#define MX_LISTED_TEMPERATURES 16
/* Temperatures that were listed, "0,0.4,0.8"; *n is their count. E_ARGUMENT if it is no such list. */
mxw_status mx_temperatures_listed(const char *list, double out[MX_LISTED_TEMPERATURES], int *n);

/* Bytes of the text over bytes of its zlib compression, 0 for no text. */
mxw_status mx_compression_ratio(const char *text, size_t n, double *ratio);
/* Encodes a prompt or prefix as the reference does: a blank, then the text stripped of white space. *tokens is owned by
 * the caller (mx_free). `option` names it in error messages. */
mxw_status mx_encode_prompt(const mx_text *text, const char *option, const char *utf8, int32_t **tokens, size_t *n);
/* How many of n items Python's list[-keep:] skips: none for keep = 0, |keep| for keep < 0. */
size_t mx_tail_start(size_t n, int64_t keep);
#endif
