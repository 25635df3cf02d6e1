/* weights/store.h - internal to weights/: what a container reader fills in, and what weights.c makes of it. A reader
 * adds the file's tensors under the file's own names; weights.c then tells by them whose names they are, and resolves
 * every canonical tensor through that table. Everything is allocated in the arena or points into the map. */
#ifndef MX_WEIGHTS_STORE_H
#define MX_WEIGHTS_STORE_H
#include "base/file.h"
#include "base/mem.h"
#include "weights/format/npz.h"
#include "weights/names/names.h"
#include "tensor/quantized.h"
#include "weights/weights.h"

/* Types of files that ours only stand for: `stored` of a raw tensor. */
#define MX_F8 "f8_e4m3"
#define MX_U32 "u32"

/* A tensor of the file. */
typedef struct mx_raw {
    const char *name;
    mx_tensor view;
    int mapped;
    const char *alias_of;   /* another name for this tensor of the file, or NULL */
    int used;     /* part of the architecture, or a setting that was read */
    const char *stored;       /* type in the file where the view's is another: "q5_0", "f8_e4m3"; or NULL */
    uint64_t stored_bytes;    /* of a quantized one: its bytes there, scales included */
    const mx_quantized *quantized;   /* NULL: the view has its values */
} mx_raw;

/* names/naming.c: the table that the tensors' names show; `otherwise` if they show none. */
const mx_naming *mx_naming_find(const mx_weights *w, const mx_naming *otherwise);

/* A container. */
typedef struct mx_format {
    const char *label;            /* "OpenAI .pt" */
    const mx_naming *naming;      /* if the names in a file do not show another */
    int fixed;                    /* it is this one, whatever the names are */
    int (*probe)(const uint8_t *bytes, size_t n);
    mxw_status (*read)(mx_weights *w, const uint8_t *bytes, size_t n);   /* adds raws; may set dims */
} mx_format;

extern const mx_format mx_format_pt, mx_format_npz, mx_format_ct2, mx_format_ggml, mx_format_gguf;
extern const mx_format mx_format_safetensors, mx_format_index;

/* A canonical tensor. */
typedef struct mx_canonical {
    const char *name;
    const mx_raw *raw;
    mx_tensor view;
    int part, parts;      /* of the raw one's rows */
} mx_canonical;

/* A piece that a checkpoint lacks, and what stands in for it. */
typedef struct mx_missing {
    const char *piece, *instead;
} mx_missing;

struct mx_weights {
    mx_arena arena;
    mx_map map;
    mx_map *shards;               /* the files that an index names, in the arena */
    const char **shard_paths;     /* theirs */
    size_t n_shards;
    const uint8_t *bytes;         /* the file: map.data, or a test's bytes */
    size_t n_bytes;
    const char *path;
    const mx_format *format;
    const mx_naming *naming;
    const char *label;            /* container and names in words: "MLX safetensors" */
    mx_npz npz;                   /* the arrays of a .npz; else empty */
    mx_raw *raws;                 /* sorted by name once read */
    size_t n_raws, raws_capacity;
    mxw_dims dims;
    mx_canonical *tensors;            /* canonical order */
    const mx_canonical **by_name;     /* sorted */
    int64_t n_tensors, n_encoder, n_parameters;
    const char *size_name;
    const int32_t (*heads)[2];
    size_t n_heads;
    int has_vocabulary, has_merges;   /* in the file or beside it; the library has its own of both */
    mx_missing missing[4];
    size_t n_missing;
    int sample_rate;              /* of Silero VAD's weights; 0: a Whisper checkpoint */
};

/* For tests and fuzzing: a checkpoint in memory, which must outlive it. */
mxw_status mx_weights_open_bytes(const uint8_t *bytes, size_t n, mx_weights **out);

mxw_status mx_raw_add(mx_weights *w, const char *name, size_t name_n, const mx_tensor *view, mx_raw **out);
mxw_status mx_raws_sort(mx_weights *w);                        /* after reading; no name may appear twice */
mx_raw *mx_raw_find(const mx_weights *w, const char *name);    /* after sorting */
/* The rows of one canonical tensor within its raw one; E_MISSING and E_FORMAT name it. */
mxw_status mx_raw_part(const mx_raw *raw, const mx_tensor_source *source, mx_tensor *view);
/* Declares it quantized: an f32 tensor of this shape, without data. q is copied. */
mxw_status mx_raw_quantize(mx_weights *w, mx_raw *raw, int rank, const int64_t *dims, const mx_quantized *q);

/* Notes a piece that the checkpoint lacks and what stands in for it; texts outlive w. */
void mx_weights_lack(mx_weights *w, const char *piece, const char *instead);
/* E_FORMAT unless it is a float tensor of this shape. */
mxw_status mx_shape_check(const char *name, const mx_tensor *got, int rank, const int64_t *dims);
/* Fills tensors and by_name with n canonical tensors, each from `one`. */
mxw_status mx_resolve_all(mx_weights *w, int64_t n, mxw_status (*one)(mx_weights *w, int64_t i, mx_canonical *named));

/* silero.c: E_FORMAT if what was read are weights of Silero VAD, which is not a Whisper model. */
mxw_status mx_silero_refuse(const mx_weights *w);
/* For tests and fuzzing: in memory. */
mxw_status mx_silero_open_bytes(const uint8_t *bytes, size_t n, int sample_rate, mx_weights **out);

/* names/arch.c */
/* Whether they are plausible and consistent. */
mxw_status mx_dims_check(const mxw_dims *dims);

/* names/dims.c: dimensions from the shapes, for files that do not state them. Fields already set are kept. */
mxw_status mx_dims_derive(mx_weights *w);

/* names/rules.c: conditions on tensors that Whisper does not have. */
mxw_status mx_rule_zero_bias(mx_raw *raw, const mx_tensor_source *source);   /* a key's bias: all zeros */
/* The output projection, if the file has one, must equal the embedding. */
mxw_status mx_rule_tied(const mx_weights *w, const char *embedding, const char *projection);

/* names/naming.c: the alignment heads from a tensor "alignment_heads", if there is one. */
mxw_status mx_heads_from_tensor(mx_weights *w);

/* names/positions.c: the positions of the encoder, which a checkpoint of MLX does not have: sinusoids, as
 * openai-whisper computes them, in f32, [n_ctx][n_state]. */
mxw_status mx_sinusoids(int64_t n_ctx, int64_t n_state, float *out);

/* format/compressed.c: compressed-tensors' weights in int8 and f8 with their scales; called by Hugging Face's names. */
mxw_status mx_compressed_settle(mx_weights *w);

/* format/ggml_types.c: the element types of ggml and GGUF files. */
typedef struct mx_ggml_type {
    const char *name;             /* "f16", "q5_0" */
    mxw_dtype dtype;              /* unless it is a block type */
    const struct mx_block_type *blocks;   /* NULL: plain elements */
} mx_ggml_type;
/* E_UNSUPPORTED, with the tensor's name, for a type that is not read. */
mxw_status mx_ggml_type_get(const char *shown_name, uint32_t id, mx_ggml_type *type);
/* Bytes of a tensor, whose sizes are those of the view; E_FORMAT if they make no sense. Rows are whole blocks;
 * kernels of convolutions, whose rows are too short for that, are whole blocks altogether. */
mxw_status mx_ggml_bytes(const char *shown_name, const mx_ggml_type *type, int rank, const int64_t *dims,
                         uint64_t *bytes);
/* Adds it as a view of the data. */
mxw_status mx_ggml_add(mx_weights *w, const char *name, size_t name_n, const mx_ggml_type *type, int rank,
                       const int64_t *dims, const uint8_t *data);

/* format/index.c: the files that an index lists. */
typedef struct mx_shard_list {
    const char **names;           /* in the arena, unique, sorted; plain names without a folder */
    size_t n;
} mx_shard_list;
mxw_status mx_shards_parse(const uint8_t *bytes, size_t n, mx_arena *arena, mx_shard_list *list);

/* format/config_mlx.c: config.json beside MLX's weights. */
typedef struct mx_mlx_config {
    mxw_dims dims;                /* 0: not stated */
    int bits, group;              /* of quantized matrices; 0: not stated */
} mx_mlx_config;
mxw_status mx_mlx_config_parse(const uint8_t *bytes, size_t n, mx_mlx_config *config);
mxw_status mx_mlx_config_load(mx_weights *w, mx_mlx_config *config);   /* zeros if there is no file */

/* format/config_hf.c: config.json, generation_config.json and vocab.json beside a model.safetensors. */
mxw_status mx_hf_config_load(mx_weights *w);    /* before the dimensions are derived: has the heads */
mxw_status mx_hf_config_check(mx_weights *w);   /* after: checks everything else */
mxw_status mx_hf_config_parse(const uint8_t *bytes, size_t n, mxw_dims *dims);         /* 0: not stated */
mxw_status mx_hf_generation_parse(const uint8_t *bytes, size_t n, mx_weights *w);
mxw_status mx_hf_vocabulary_check(const uint8_t *bytes, size_t n, int32_t n_vocab);

/* format/config.c: the files beside a model.bin. */
#define MX_CONFIG_BYTES (4u << 20)   /* larger files are rejected */
/* Opens a file of the checkpoint's folder; E_NOT_FOUND if there is none. */
mxw_status mx_open_beside(const mx_weights *w, const char *leaf, mx_str *path, mx_map *map);
/* Passes it to `use`; does nothing if there is none, or no folder (a test's bytes). */
mxw_status mx_with_beside(mx_weights *w, const char *leaf, void *user,
                          mxw_status (*use)(mx_weights *w, void *user, const mx_map *map));
/* Takes n pairs of layer and head as the alignment heads; those of a model with more layers are ignored, with a
 * warning. */
mxw_status mx_heads_take(mx_weights *w, size_t n, const int32_t (*heads)[2]);
mxw_status mx_config_load(mx_weights *w);   /* config.json, vocabulary.txt or .json in the file's folder */
mxw_status mx_config_parse(const uint8_t *bytes, size_t n, mx_weights *w);                      /* alignment heads */
mxw_status mx_vocabulary_count(const uint8_t *bytes, size_t n, int json, int64_t *count);

/* weights.c: whether the first n bytes of a file are those of a checkpoint. */
int mx_is_checkpoint(const uint8_t *bytes, size_t n);

/* find/locate.c: the file of a usual name (model.bin, model.safetensors, its index, ...), else the one *.pt, else the
 * one other file in a folder that is a checkpoint by its first bytes. */
mxw_status mx_look_in_folder(const char *folder, mx_str *path);
/* <dir>/<name>.pt, else <dir>/ggml-<name>.bin, else <dir>/<name>.gguf, else the folder <dir>/<name>. E_NOT_FOUND,
 * possibly without an error line, if none. */
mxw_status mx_look_by_name(const char *dir, const char *name, mx_str *path);

/* find/search_paths.c: a name that is not a released one ("tiny.en-q5_1"): in the model folder and, unless that is
 * given, in the caches of whisper.cpp, transcribe.cpp ("tiny.en-Q8_0") and MLX ("tiny-4bit"). E_NOT_FOUND, possibly
 * without an error line, if there is none. */
mxw_status mx_look_for_name(const char *name, const char *model_dir, mx_str *path);
#endif
