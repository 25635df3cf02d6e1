/* convert/internal.h - internal to convert/: a conversion under way, and what its writers share. */
#ifndef MX_CONVERT_INTERNAL_H
#define MX_CONVERT_INTERNAL_H
#include <jansson.h>

#include "base/base.h"
#include "base/file.h"
#include "convert/convert.h"
#include "text/text.h"
#include "weights/names/names.h"

#define MX_TEXT_BLANK 220 /* the token " ", in both vocabularies */

/* The type of a tensor in a file: a plain one, blocks, or int8 with a scale for each row. */
typedef struct mx_target {
    const char *name; /* "f16", "q5_0", "int8" */
    mxw_dtype dtype;
    const mx_block_type *blocks;
    int int8;
    int divide; /* int8: a code is divided by its scale, as CTranslate2 has it, not multiplied */
} mx_target;

typedef struct mx_conversion {
    const mx_weights *w;
    const char *path; /* the file or folder to write */
    const mxw_convert_options *options;
    mxw_checkpoint_info info;
    const mxw_dims *dims;
    mx_text *text;
    mx_target matrices;   /* what is asked for, or what auto means */
    mx_target rest;       /* beside quantized matrices: the type of vectors, kernels and positions */
    int automatic;        /* each tensor that is quantized keeps its type */
    uint64_t done, total; /* weights */
    mx_str made;          /* pieces that the checkpoint does not have: "tokenizer.json, merges.txt" */
} mx_conversion;

/* convert.c: the places of a tensor that its rank and name decide. */
int mx_is_matrix(const mx_tensor *view, const char *name); /* 2 axes, not positions: what is quantized */

/* folder.c: files of the new folder. */
mxw_status mx_save_text(const char *folder, const char *leaf, const char *text, size_t n);
/* Writes it as JSON and drops the reference; NULL (a failed allocation): E_MEMORY. */
mxw_status mx_save_json(const char *folder, const char *leaf, json_t *root);
/* Copies a file that lies beside the checkpoint; E_NOT_FOUND, without an error line, if it does not. */
mxw_status mx_copy_beside(const mx_conversion *c, const char *folder, const char *leaf);
/* A new folder beside `path`, which must be new or empty; it is moved there, or removed with what is in it. */
mxw_status mx_folder_begin(const char *path, mx_str *temporary);
mxw_status mx_folder_commit(const char *path, const char *temporary);
void mx_folder_remove(const char *temporary);

/* values.c: tensor i in a type. Bytes are known before it is read. */
uint64_t mx_target_bytes(const mx_target *target, const mx_tensor *view);
typedef struct mx_values {
    void *data;    /* mx_free */
    size_t n;      /* bytes */
    float *scales; /* int8: of each row */
} mx_values;
mxw_status mx_values_read(mx_conversion *c, int64_t i, const mx_target *target, mx_values *values);
void mx_values_free(mx_values *values);
/* The type that tensor i keeps: its own if it is quantized in blocks and nothing else was asked for. */
mx_target mx_target_of(const mx_conversion *c, int64_t i, const mx_target *wanted);
mx_target mx_plain(mxw_dtype dtype);

/* sidecars.c: what lies beside the weights, in a folder. */
mxw_status mx_write_ct2_beside(mx_conversion *c, const char *folder);
mxw_status mx_write_hf_beside(mx_conversion *c, const char *folder);
/* ids that decoding suppresses, as openai-whisper does, ascending; a list. NULL: no memory. */
json_t *mx_suppressed(const mx_conversion *c);

/* A writer for each format. */
mxw_status mx_write_ggml(mx_conversion *c);
mxw_status mx_write_gguf(mx_conversion *c);
mxw_status mx_write_ct2(mx_conversion *c, const char *folder);
mxw_status mx_write_safetensors(mx_conversion *c, const char *folder);
mxw_status mx_write_npz(mx_conversion *c);

/* values.c: little-endian fields of a file. */
mxw_status mx_put(mx_save *save, uint64_t value, int bytes);
void mx_add(mx_str *s, uint64_t value, int bytes);
#endif
