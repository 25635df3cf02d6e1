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

/* ---- models and sessions with test hooks ---- */

typedef struct mxw_lab_options {
    size_t struct_size;
    int keep_names;              /* 0; 1: engine max keeps every named value, so that all stages can be captured; this
                                  * limits fusion */
    int encode_engine;           /* -1: that of the model; else the mxw_engine that runs the encoder, ... */
    const char *encode_device;   /* ... and its device; NULL: "auto" */
    const char *inject;          /* NULL; a fault to make on purpose (mxw_fault_name) */
} mxw_lab_options;

MXW_API void mxw_lab_options_default(mxw_lab_options *options, size_t struct_size);
#define mxw_lab_options_default(options) mxw_lab_options_default(options, sizeof(*(options)))
/* mxw_model_open with hooks; lab NULL: none. */
MXW_API mxw_status mxw_lab_model_open(const mxw_model_options *options, const mxw_lab_options *lab, mxw_model **out);
/* The fault that was injected into the model, or NULL. */
MXW_API const char *mxw_lab_model_fault(const mxw_model *model);
/* The faults: name and what it does (*what may be NULL); NULL past the end. */
MXW_API const char *mxw_fault_name(int index, const char **what);

typedef struct mxw_features mxw_features;
/* mxw_session_open, but the first window is not encoded: its features are "encoder.ln_post" of these, which must
 * outlive the session. */
MXW_API mxw_status mxw_lab_session_open(mxw_model *model, const mxw_session_options *options,
                                        const mxw_features *features, mxw_session **out);

/* ---- the guard's evidence ---- */

/* What the guard against invented text knows about a word; tools/fit-guard fits the guard to it. */
typedef struct mxw_evidence {
    double start, end;           /* seconds, as aligned */
    const char *word;            /* UTF-8 */
    double suspicion;
    uint32_t reasons;            /* as in mxw_word */
    const double *values;        /* mxw_evidence_name */
    size_t n_values;
} mxw_evidence;
MXW_API const char *mxw_evidence_name(int index);   /* of a value; NULL past the end */
/* 1: a higher value is more suspect; -1: a lower one; 0 past the end */
MXW_API int mxw_evidence_sign(int index);
typedef void (*mxw_evidence_fn)(void *user, const mxw_evidence *evidence);
/* Calls fn for every word that the session's guard judges, in order, also for those that it then drops. E_STATE without
 * a guard, or with parallel. */
MXW_API mxw_status mxw_lab_session_watch_guard(mxw_session *session, mxw_evidence_fn fn, void *user);

/* ---- features: what a run computes ---- */

/* mxw_features: named tensors of one run, in the order in which they were computed: the log-mel ("mel") of one window,
 * every stage of the encoder ("encoder.conv1", "encoder.blocks.0.attn.q", ...), the cross keys and values, every stage
 * of the decoder forced over the window's tokens, its candidates, those tokens; and of the whole recording the windows,
 * tokens and text. Immutable. */

typedef struct mxw_feature {
    size_t struct_size;          /* sizeof(mxw_feature) */
    const char *name;
    const mxw_tensor *tensor;    /* f32; ids i32, text u8 */
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

MXW_API void mxw_features_options_default(mxw_features_options *options, size_t struct_size);
#define mxw_features_options_default(options) mxw_features_options_default(options, sizeof(*(options)))
/* Runs the model over 16 kHz mono samples. Engine max shows what fusion has left: all stages with keep_names. */
MXW_API mxw_status mxw_features_capture(mxw_model *model, const float *samples, size_t n,
                                        const mxw_features_options *options, mxw_features **out);
/* A .npz file of any origin; numeric arrays only. */
MXW_API mxw_status mxw_features_open(const char *path, mxw_features **out);
/* As .npz for numpy; the file appears complete or not at all. */
MXW_API mxw_status mxw_features_save(const mxw_features *features, const char *path);
MXW_API void mxw_features_close(mxw_features *features);
MXW_API size_t mxw_features_count(const mxw_features *features);
/* What feature points to lives as long as features. */
MXW_API mxw_status mxw_features_get(const mxw_features *features, size_t index, mxw_feature *feature);
/* Index by name; negative status if there is none. */
MXW_API int64_t mxw_features_find(const mxw_features *features, const char *name);
/* What is known about the run: "model", "engine", "device", "language", "injected", "text"; NULL if not known. */
MXW_API const char *mxw_features_note(const mxw_features *features, const char *key);

/* ---- comparisons: two runs, stage by stage ---- */

/* One stage: b compared with a. */
typedef struct mxw_difference {
    size_t struct_size;          /* sizeof(mxw_difference) */
    const char *name;
    const char *apart;           /* NULL; else why there are no numbers: only in one run, shapes differ */
    double cosine, l2;           /* l2: of b - a */
    double relative;             /* l2 over the l2 of a */
    double mean_abs, max_abs, mean_shift, std_ratio;
    double bound;                /* on `relative`: what rounding explains; see docs/lab.md */
    int bad;                     /* 1: beyond the bound, or missing where it matters */
} mxw_difference;

typedef struct mxw_comparison mxw_comparison;
MXW_API mxw_status mxw_comparison_open(const mxw_features *a, const mxw_features *b, mxw_comparison **out);
MXW_API void mxw_comparison_close(mxw_comparison *comparison);
MXW_API size_t mxw_comparison_count(const mxw_comparison *comparison);
MXW_API mxw_status mxw_comparison_get(const mxw_comparison *comparison, size_t index, mxw_difference *difference);

/* Where b first differs from a, and what kind of fault it looks like. */
typedef struct mxw_finding {
    size_t struct_size;          /* sizeof(mxw_finding) */
    int64_t index;               /* of the comparison: the first bad stage; negative: none */
    const char *stage;           /* its name, or NULL */
    const char *fault;           /* "scale", "missing operation", ...; one of a short list, or NULL */
    const char *explanation;     /* one sentence with the numbers that it rests on */
} mxw_finding;
/* With a checkpoint (may be NULL) matrix products can be computed again. Strings live as long as the comparison. */
MXW_API mxw_status mxw_comparison_diagnose(mxw_comparison *comparison, const mxw_checkpoint *checkpoint,
                                           mxw_finding *finding);

/* ---- op checks: every op of a window on engine cpu against float64 ---- */

typedef struct mxw_op_check {
    size_t struct_size;          /* sizeof(mxw_op_check) */
    const char *op;
    int64_t calls, outputs, checked;   /* outputs: elements; checked: how many of them */
    double max_abs, max_relative, max_ulp;
    double of_bound;             /* the largest share of an output's own bound; above 1: wrong */
    const char *worst;           /* the stage where it was */
    const char *bound;           /* where the bound comes from */
} mxw_op_check;

typedef struct mxw_op_checks mxw_op_checks;
/* all: 1 checks every output, 0 about 4,096 of each call. */
MXW_API mxw_status mxw_op_checks_open(mxw_model *model, const float *samples, size_t n, int all, mxw_op_checks **out);
MXW_API void mxw_op_checks_close(mxw_op_checks *checks);
MXW_API size_t mxw_op_checks_count(const mxw_op_checks *checks);
MXW_API mxw_status mxw_op_checks_get(const mxw_op_checks *checks, size_t index, mxw_op_check *check);

#ifdef __cplusplus
}
#endif
#endif
