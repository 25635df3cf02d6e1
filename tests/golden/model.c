/* tests/golden/model.c - the released models for the golden tests; see golden.h. */
#include <stdio.h>
#include <stdlib.h>

#include "golden.h"

mxw_model *golden_model(const char *test, const char *name) {
    mxw_checkpoint *checkpoint = NULL;
    mxw_status status = mxw_checkpoint_open(name, NULL, &checkpoint);
    mxw_checkpoint_close(checkpoint);
    if (status == MXW_E_NOT_FOUND) {
        printf("SKIP: %s: model %s is not installed (make model MODEL=%s)\n", test, name, name);
        exit(GOLDEN_SKIP);
    }
    mxw_model *model = NULL;
    mxw_model_options options;
    mxw_model_options_default(&options);
    options.model = name;
    options.engine = MXW_ENGINE_CPU;
    if (status < 0 || mxw_model_open(&options, &model) < 0) {
        printf("%s: model %s: %s\n", test, name, mxw_last_error());
        exit(1);
    }
    return model;
}
