/* weights/format/npz.h - .npz files that numpy writes and reads: a ZIP of .npy members, each one array.
 *
 * Writing: members are stored uncompressed, row major; the file appears atomically. Reading: untrusted input,
 * every field is checked; members stored or deflated; arrays of numbers only, in C or Fortran order. */
#ifndef MX_WEIGHTS_NPZ_H
#define MX_WEIGHTS_NPZ_H
#include "base/file.h"
#include "base/mem.h"
#include "tensor/tensor.h"

typedef struct mx_npz_writer mx_npz_writer;

mxw_status mx_npz_create(const char *path, mx_npz_writer **out);
/* Adds an array; bf16, which numpy lacks, is widened. */
mxw_status mx_npz_add(mx_npz_writer *w, const char *name, const mx_tensor *t);
/* For tests: ZIP64 fields for offsets from `limit` on in files created later, so that none need have 4 GiB; 0: only
 * where they are needed. */
void mx_npz_zip64_from(uint64_t limit);
mxw_status mx_npz_commit(mx_npz_writer *w);   /* closes it; on failure no file remains */
void mx_npz_abort(mx_npz_writer *w);          /* NULL is fine */

typedef struct mx_npz_array {
    const char *name;      /* without ".npy" */
    mx_tensor tensor;      /* a view of the file or of inflated data; possibly unaligned or strided */
    int inflated;          /* the latter */
    int words;             /* unsigned words, as i32 */
} mx_npz_array;

typedef struct mx_npz {
    mx_map map;
    mx_arena arena;
    mx_npz_array *arrays;  /* in the order of the file; without text and objects */
    size_t n;
} mx_npz;

mxw_status mx_npz_open(const char *path, mx_npz *npz);
mxw_status mx_npz_open_bytes(const uint8_t *bytes, size_t n, mx_npz *npz);   /* which must outlive it */
/* The same for weights, which may be packed into unsigned words of 32 bits. */
mxw_status mx_npz_open_words(const uint8_t *bytes, size_t n, mx_npz *npz);
void mx_npz_close(mx_npz *npz);
#endif
