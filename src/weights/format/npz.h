/* weights/format/npz.h - .npz files that numpy writes and reads: a ZIP of .npy members, each one array.
 *
 * Writing: members are stored as they are, row major; the file appears whole or not at all. Reading: the bytes of
 * strangers, every field checked; members stored or deflated; arrays of numbers only, in C or Fortran order. */
#ifndef MX_WEIGHTS_NPZ_H
#define MX_WEIGHTS_NPZ_H
#include "base/file.h"
#include "base/mem.h"
#include "tensor/tensor.h"

typedef struct mx_npz_writer mx_npz_writer;

mxw_status mx_npz_create(const char *path, mx_npz_writer **out);
/* One more array; bf16 is widened, which numpy lacks. */
mxw_status mx_npz_add(mx_npz_writer *w, const char *name, const mx_tensor *t);
mxw_status mx_npz_commit(mx_npz_writer *w);   /* closes it; on failure nothing is left behind */
void mx_npz_abort(mx_npz_writer *w);          /* NULL is fine */

typedef struct mx_npz_array {
    const char *name;      /* without ".npy" */
    mx_tensor tensor;      /* a view of the file, or of what was inflated; maybe unaligned, maybe strided */
} mx_npz_array;

typedef struct mx_npz {
    mx_map map;
    mx_arena arena;
    mx_npz_array *arrays;  /* in the order of the file; text and objects are left out */
    size_t n;
} mx_npz;

mxw_status mx_npz_open(const char *path, mx_npz *npz);
mxw_status mx_npz_open_bytes(const uint8_t *bytes, size_t n, mx_npz *npz);   /* which must outlive it */
void mx_npz_close(mx_npz *npz);
#endif
