/* pipeline/fault_hooks.h - how lab/ injects a fault into a recognizer, to prove that it is found. */
#ifndef MX_FAULT_HOOKS_H
#define MX_FAULT_HOOKS_H
#include "pipeline/pipeline.h"

/* Called while a recognizer is built and run. A member that is NULL changes nothing. */
typedef struct mx_fault_hooks {
    const char *name;                 /* of the fault; lives as long as the process */
    void *context;                    /* owned by the recognizer until it is closed */
    mxw_status (*graph)(void *context, mx_part part, mx_graph *g);             /* just built */
    mxw_status (*weight)(void *context, const char *name, mx_tensor *view);    /* as the checkpoint has it */
    void (*mel)(void *context, int64_t n_frames, int n_mels, float *window);   /* [n_frames][n_mels] */
    int64_t max_windows;              /* of a recording; 0: all */
    void (*free)(void *context);
} mx_fault_hooks;

/* mx_recognizer_open with a fault. hooks->context is freed with the recognizer, or at once on failure. */
mxw_status mx_recognizer_open_with_faults(const mxw_model_options *options, const mxw_lab_options *lab,
                                          const mx_fault_hooks *hooks, mx_recognizer **out);
#endif
