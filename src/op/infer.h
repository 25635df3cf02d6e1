/* op/infer.h - shared by the inference functions of op/; private to the folder. */
#ifndef MX_OP_INFER_H
#define MX_OP_INFER_H
#include "op/op.h"

typedef struct mx_infer {
    mx_op op;
    const mx_attrs *attrs;
    int n_inputs;
    const mx_type *const *in;
    mx_type *out;
    const mx_size_names *names;
    char text[6][128];   /* shapes shown in a message */
    int n_text;
} mx_infer;

typedef mxw_status (*mx_infer_fn)(mx_infer *f);

/* Fails with E_ARGUMENT and "op: ...". */
mxw_status mx_infer_bad(mx_infer *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The dtype and shape of an input, or a shape alone, as text that lives as long as f. */
const char *mx_infer_type(mx_infer *f, const mx_type *type);
const char *mx_infer_shape(mx_infer *f, const mx_type *type);
const char *mx_infer_dim(mx_infer *f, int64_t dim);

/* Checks that fail with a message like "op: what is i32 [3]: expected f32". */
mxw_status mx_infer_want_dtype(mx_infer *f, int input, const char *what, mxw_dtype dtype);
mxw_status mx_infer_want_rank(mx_infer *f, int input, const char *what, const char *shape, int rank);
/* Two sizes that must agree: equal, or one of them known only at run time. 0 if they cannot. */
int mx_infer_same(int64_t a, int64_t b, int64_t *agreed);
/* The type of output 0, element type of input 0. */
mx_type *mx_infer_out(mx_infer *f, int rank);

#define MX_OP(id, name, least, most, outputs) mxw_status mx_infer_##id(mx_infer *f);
#include "op/ops.def"
#undef MX_OP
#endif
