/* tests/kit/golden_model.c - the released models for the golden tests; see golden.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/golden.h"
#include "max_whisper/lab.h"

static mxw_engine engine = MXW_ENGINE_CPU;
static const char *device = "auto";
static int keep_names;
static mxw_precision precision = MXW_PRECISION_EXACT;

/* f16: four times the most that log probabilities were off where a CPU rounded what the GPU rounds
 * (docs/results/h200-max.md, "What was checked"). int8 and f8: twice the most, found likewise with tiny.en and base
 * (docs/lab.md); of a cosine's distance from 1, which grows with the square of an error, four times. */
static const golden_allowance allowances[] = {
    [MXW_PRECISION_EXACT] = {"exact", 1e-3, 0.005, 0.999999, 0.999999, 1e-4},
    [MXW_PRECISION_F16] = {"f16", 0.04, 0.025, 0.99999, 0.9999, 1e-3},
    [MXW_PRECISION_INT8] = {"int8", 0.5, 0.025, 0.99, 0.92, 0.14},
    [MXW_PRECISION_F8] = {"f8", 0.75, 0.025, 0.975, 0.82, 0.25},
};

static mxw_precision precision_of(const char *name) {
    for (size_t i = 0; i < sizeof(allowances) / sizeof(*allowances); i++)
        if (strcmp(allowances[i].precision, name) == 0)
            return (mxw_precision)i;
    printf("--precision=%s: expected exact, f16, int8 or f8\n", name);
    exit(2);
}

void golden_take_engine(int *argc, char **argv) {
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--engine=max") == 0)
            engine = MXW_ENGINE_MAX;
        else if (strcmp(argv[i], "--engine=gpu") == 0)
            engine = MXW_ENGINE_GPU;
        else if (strncmp(argv[i], "--device=", 9) == 0)
            device = argv[i] + 9;
        else if (strncmp(argv[i], "--precision=", 12) == 0)
            precision = precision_of(argv[i] + 12);
        else if (strcmp(argv[i], "--keep-names") == 0)
            keep_names = 1;
        else
            argv[kept++] = argv[i];
    }
    *argc = kept;
}

const golden_allowance *golden_allowed(void) { return &allowances[precision]; }

double golden_tolerance(void) { return golden_allowed()->log_prob; }

int golden_all_stages(void) { return engine != MXW_ENGINE_MAX || keep_names; }

mxw_model *golden_model(const char *test, const char *name) { return golden_model_batch(test, name, 1); }

mxw_model *golden_model_batch(const char *test, const char *name, int batch) {
    mxw_checkpoint *checkpoint = NULL;
    mxw_status status = mxw_checkpoint_open(name, NULL, &checkpoint);
    mxw_checkpoint_close(checkpoint);
    if (status == MXW_E_NOT_FOUND) {
        printf("SKIP: %s: model %s is not installed (make model MODEL=%s)\n", test, name, name);
        exit(GOLDEN_SKIP);
    }
    mxw_model *model = NULL;
    mxw_model_options options;
    mxw_lab_options lab;
    mxw_model_options_default(&options);
    options.model = name;
    options.engine = engine;
    options.device = device;
    mxw_lab_options_default(&lab);
    lab.keep_names = keep_names;
    options.precision = precision;
    options.batch = batch;
    status = status < 0 ? status : mxw_lab_model_open(&options, &lab, &model);
    int has_8_bits = precision == MXW_PRECISION_INT8 || precision == MXW_PRECISION_F8;
    if (status == MXW_E_DEVICE || (status == MXW_E_UNSUPPORTED && has_8_bits)) {   /* which few devices have */
        printf("SKIP: %s: %s\n", test, mxw_last_error());
        exit(GOLDEN_SKIP);
    }
    if (status < 0) {
        printf("%s: model %s: %s\n", test, name, mxw_last_error());
        exit(1);
    }
    return model;
}
