/* gen_internal.h - what the writers of generated checkpoints share. */
#ifndef GEN_INSIDE_H
#define GEN_INSIDE_H
#include "kit/gen_checkpoint.h"
#include "weights/store.h"

typedef struct gen_item {
    char name[160], file_name[160];
    mx_tensor_source source;
    mx_tensor shape;   /* no data */
    int left_out;
} gen_item;

/* Tensor `index` of the architecture in a table's names. */
gen_item gen_get_item(const mx_naming *naming, const gen_options *o, int64_t index);
/* n values in the type, into bytes. */
void gen_round_to(mxw_dtype dtype, const float *values, int64_t n, void *out);
uint64_t gen_mix(uint64_t x);                        /* a number that looks random */
void gen_number(mx_str *s, uint64_t x, int bytes);   /* little-endian */
int gen_fail(const char *path);                      /* prints why; 1 */
int gen_write_file(const char *folder, const char *leaf, const mx_str *head, const mx_str *body);   /* body: or NULL */
#endif
