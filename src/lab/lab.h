/* lab/lab.h - public header of lab/: captures, compares and explains what a run computes; injects faults.
 *
 * mx_features:   named tensors of one run, in execution order; owns its host memory; immutable once captured.
 * mx_comparison: two of them, stage by stage, with a bound on what rounding explains.
 * mx_op_checks:  every op of a window against float64. */
#ifndef MX_LAB_H
#define MX_LAB_H
#include "max_whisper/lab.h"
#include "pipeline/pipeline.h"

typedef struct mxw_features mx_features;
typedef struct mxw_comparison mx_comparison;
typedef struct mxw_op_checks mx_op_checks;

/* ---- features.c, capture.c ---- */

typedef struct mx_stage {
    const char *name;
    mx_tensor tensor;       /* dense, f32, i32 or u8 */
    mxw_tensor shown;       /* the same for the public API */
    mxw_feature info;       /* statistics and name */
} mx_stage;

typedef struct mx_note {
    const char *key, *text;
} mx_note;

struct mxw_features {
    mx_arena arena;
    mx_stage *stages;
    size_t n, room;
    mx_note notes[12];
    size_t n_notes;
};

/* Copies the values (any float to f32); an existing name is not replaced. */
mxw_status mx_features_add(mx_features *f, const char *name, const mx_tensor *value);
mxw_status mx_features_set_note(mx_features *f, const char *key, const char *text);
const char *mx_features_get_note(const mx_features *f, const char *key);
const mx_stage *mx_features_find(const mx_features *f, const char *name);
mxw_status mx_features_capture(mx_recognizer *r, const float *samples, size_t n, const mxw_features_options *options,
                               mx_features **out);
mxw_status mx_features_open(const char *path, mx_features **out);
mxw_status mx_features_read(const uint8_t *bytes, size_t n, mx_features **out);   /* for tests and the fuzzer */
mxw_status mx_features_save(const mx_features *f, const char *path);
void mx_features_close(mx_features *f);

/* ---- compare.c, diverge.c ---- */

struct mxw_comparison {
    mx_arena arena;
    const mx_features *a, *b;   /* must outlive it */
    mxw_difference *rows;
    size_t n;
};

mxw_status mx_comparison_open(const mx_features *a, const mx_features *b, mx_comparison **out);
void mx_comparison_close(mx_comparison *c);
mxw_status mx_comparison_diagnose(mx_comparison *c, const mx_weights *weights, mxw_finding *finding);

/* ---- inject.c ---- */

const char *mx_fault_name(int index, const char **what);
/* Opens a recognizer with the fault lab->inject; E_ARGUMENT if it is unknown. */
mxw_status mx_fault_open(const mxw_model_options *options, const mxw_lab_options *lab, mx_recognizer **out);

/* ---- exact.c ---- */

struct mxw_op_checks {
    mxw_op_check rows[MX_OP_COUNT];
    char worst[MX_OP_COUNT][96];
    size_t n;
    int all;
    mxw_status status;
};
mxw_status mx_op_checks_open(mx_recognizer *r, const float *samples, size_t n, int all, mx_op_checks **out);
void mx_op_checks_close(mx_op_checks *c);
#endif
