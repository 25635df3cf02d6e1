/* max_whisper/lab.h - UNSTABLE: what a run computes, stage by stage; comparisons; faults made on purpose.
 *
 * Not part of max_whisper.h and not covered by MXW_ABI_VERSION: anything here may change with any version.
 */
#ifndef MXW_LAB_H
#define MXW_LAB_H

#include "graph.h"
#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mxw_features: named tensors of one run, in the order in which they were computed: the log-mel ("mel") of one window,
 * every stage of the encoder ("encoder.conv1", "encoder.blocks.0.attn.q", ...), the cross keys and values, every stage
 * of the decoder forced over the window's tokens, its candidates, those tokens; and of the whole recording the windows,
 * tokens and text. Immutable. */

typedef struct mxw_feature {
    const char *name;
    mxw_tensor tensor;           /* f32; ids i32, text u8 */
    double mean, std, min, max, l2;   /* of the finite elements, in float64 */
    int64_t n_not_finite;
} mxw_feature;

typedef struct mxw_features_options {
    size_t struct_size;
    int64_t seek;                /* 0: first mel frame (10 ms each) of the window */
    const mxw_features *like;    /* NULL; else the decoder is forced over the tokens that it has, not over its own */
    int whole;                   /* 1: the whole recording is transcribed too */
    const mxw_session_options *session;   /* NULL: the defaults */
} mxw_features_options;

MXW_API void mxw_features_options_default(mxw_features_options *options);
/* Runs the model over 16 kHz mono samples. An engine that fuses shows what is left: keep_names shows all. */
MXW_API mxw_status mxw_features_capture(mxw_model *model, const float *samples, size_t n,
                                        const mxw_features_options *options, mxw_features **out);
/* A .npz, ours or a stranger's; numbers only. */
MXW_API mxw_status mxw_features_open(const char *path, mxw_features **out);
/* As .npz that numpy reads: written whole or not at all. */
MXW_API mxw_status mxw_features_save(const mxw_features *features, const char *path);
MXW_API void mxw_features_close(mxw_features *features);
MXW_API size_t mxw_features_count(const mxw_features *features);
MXW_API mxw_status mxw_features_get(const mxw_features *features, size_t index, mxw_feature *feature);
/* Index by name; negative status if there is none. */
MXW_API int64_t mxw_features_find(const mxw_features *features, const char *name);
/* What is known of the run: "model", "engine", "device", "language", "injected", "text"; NULL if not known. */
MXW_API const char *mxw_features_note(const mxw_features *features, const char *key);

/* One stage of two runs. What is compared is b against a. */
typedef struct mxw_difference {
    const char *name;
    const char *apart;           /* NULL; else why there are no numbers: only in one of them, other shapes */
    double cosine, l2;           /* l2: of b - a */
    double relative;             /* l2 over the l2 of a */
    double mean_abs, max_abs, mean_shift, std_ratio;
    double bound;                /* on `relative`: beyond what rounding explains; see docs/lab.md */
    int bad;                     /* 1: beyond it, or apart in a way that matters */
} mxw_difference;

typedef struct mxw_comparison mxw_comparison;
MXW_API mxw_status mxw_comparison_open(const mxw_features *a, const mxw_features *b, mxw_comparison **out);
MXW_API void mxw_comparison_close(mxw_comparison *comparison);
MXW_API size_t mxw_comparison_count(const mxw_comparison *comparison);
MXW_API mxw_status mxw_comparison_get(const mxw_comparison *comparison, size_t index, mxw_difference *difference);

/* Where b parts from a, and what kind of fault it looks like. The checkpoint, if given, lets products be made again. */
typedef struct mxw_finding {
    int64_t index;               /* of the comparison: the first bad stage; negative: none */
    const char *stage;           /* its name, or NULL */
    const char *fault;           /* "scale", "missing operation", ...; one of a short list, or NULL */
    const char *words;           /* one sentence with the figures it rests on */
} mxw_finding;
/* Strings live as long as the comparison. */
MXW_API mxw_status mxw_comparison_diagnose(mxw_comparison *comparison, const mxw_checkpoint *checkpoint,
                                           mxw_finding *finding);

/* Faults that mxw_model_options.inject makes: name and what it does; NULL past the end. */
MXW_API const char *mxw_fault_name(int index, const char **what);

/* Every op of a window of engine cpu against the same in float64. */
typedef struct mxw_op_check {
    const char *op;
    int64_t calls, outputs, checked;   /* outputs: elements; checked: of them */
    double max_abs, max_relative, max_ulp;
    double of_bound;             /* the largest share of an output's own bound; above 1: wrong */
    const char *worst;           /* the stage where it was */
    const char *bound;           /* where the bound comes from */
} mxw_op_check;

typedef struct mxw_op_checks mxw_op_checks;
/* all: every output; else about 4,096 of each call. */
MXW_API mxw_status mxw_op_checks_open(mxw_model *model, const float *samples, size_t n, int all, mxw_op_checks **out);
MXW_API void mxw_op_checks_close(mxw_op_checks *checks);
MXW_API size_t mxw_op_checks_count(const mxw_op_checks *checks);
MXW_API mxw_status mxw_op_checks_get(const mxw_op_checks *checks, size_t index, mxw_op_check *check);

#ifdef __cplusplus
}
#endif
#endif
