/* weights/store.h - internal to weights/: what a container reader fills in, and what weights.c makes of it. A reader
 * adds the file's tensors under the file's own names; weights.c then resolves every canonical tensor through the
 * format's name function. Everything is allocated in the arena or points into the map. */
#ifndef MX_WEIGHTS_STORE_H
#define MX_WEIGHTS_STORE_H
#include "base/file.h"
#include "base/mem.h"
#include "weights/weights.h"

/* A tensor of the file. */
typedef struct mx_raw {
    const char *name;
    mx_tensor view;
    int mapped;
    const char *alias_of;   /* another name for this tensor of the file, or NULL */
    int used;     /* part of the architecture, or a setting that was read */
} mx_raw;

/* Where a canonical tensor is stored: rows part/parts of a tensor of the file. */
typedef struct mx_tensor_source {
    char name[160];
    int part, parts;
} mx_tensor_source;

typedef struct mx_format {
    const char *label;            /* "OpenAI .pt" */
    const char *encoder_layer;    /* prefix of the file's names of layers: "encoder.blocks." */
    const char *decoder_layer;
    int (*probe)(const uint8_t *bytes, size_t n);
    mxw_status (*read)(mx_weights *w);                    /* fills raws; may set dims */
    void (*source)(const char *pattern, int layer, mx_tensor_source *source);
    mxw_status (*settle)(mx_weights *w);                  /* called once raws are sorted; may be NULL */
    mxw_status (*check)(mx_weights *w);                   /* called once every tensor is resolved; may be NULL */
} mx_format;

extern const mx_format mx_format_pt, mx_format_ct2;
/* The names of a WhisperForConditionalGeneration, those of a WhisperModel, and an index of files of either. */
extern const mx_format mx_format_safetensors, mx_format_safetensors_bare, mx_format_safetensors_index;

/* A canonical tensor. */
typedef struct mx_canonical {
    const char *name;
    const mx_raw *raw;
    mx_tensor view;
} mx_canonical;

struct mx_weights {
    mx_arena arena;
    mx_map map;
    mx_map *shards;               /* the files that an index names, in the arena */
    size_t n_shards;
    const uint8_t *bytes;         /* the file: map.data, or a test's bytes */
    size_t n_bytes;
    const char *path;
    const mx_format *format;
    mx_raw *raws;                 /* sorted by name once read */
    size_t n_raws, raws_capacity;
    mxw_dims dims;
    mx_canonical *tensors;            /* canonical order */
    const mx_canonical **by_name;     /* sorted */
    int64_t n_tensors, n_encoder, n_parameters;
    const char *size_name;
    const int32_t (*heads)[2];
    size_t n_heads;
    int sample_rate;              /* of Silero VAD's weights; 0: a Whisper checkpoint */
};

/* For tests and fuzzing: a checkpoint in memory, which must outlive it. */
mxw_status mx_weights_open_bytes(const uint8_t *bytes, size_t n, mx_weights **out);

mxw_status mx_raw_add(mx_weights *w, const char *name, size_t name_n, const mx_tensor *view, mx_raw **out);
mxw_status mx_raws_sort(mx_weights *w);                        /* after reading; no name may appear twice */
mx_raw *mx_raw_find(const mx_weights *w, const char *name);    /* after sorting */
/* The rows of one canonical tensor within its raw one; E_MISSING and E_FORMAT name it. */
mxw_status mx_raw_part(const mx_raw *raw, const mx_tensor_source *source, mx_tensor *view);

/* E_FORMAT unless it is a float tensor of this shape. */
mxw_status mx_shape_check(const char *name, const mx_tensor *got, int rank, const int64_t *dims);
/* Fills tensors and by_name with n canonical tensors, each from `one`. */
mxw_status mx_resolve_all(mx_weights *w, int64_t n, mxw_status (*one)(mx_weights *w, int64_t i, mx_canonical *named));

/* silero.c: E_FORMAT if what was read are weights of Silero VAD, which is not a Whisper model. */
mxw_status mx_silero_refuse(const mx_weights *w);
/* For tests and fuzzing: in memory. */
mxw_status mx_silero_open_bytes(const uint8_t *bytes, size_t n, int sample_rate, mx_weights **out);

/* names/arch.c: the tensors that the dimensions require. */
typedef struct mx_arch_tensor {
    const char *pattern;          /* '#' for the layer */
    int layer;                    /* -1 outside of layers */
    int encoder;
    int rank;
    int64_t dims[3];
} mx_arch_tensor;
int64_t mx_arch_count(const mxw_dims *dims);
mx_arch_tensor mx_arch_get(const mxw_dims *dims, int64_t index);
/* Whether they are plausible and consistent. */
mxw_status mx_dims_check(const mxw_dims *dims);
/* Pattern with the layer's number for '#'. */
void mx_arch_name(const char *pattern, int layer, char *out, size_t n);

/* names/dims.c: dimensions from the shapes, for files that do not state them. Fields already set are kept. */
mxw_status mx_dims_derive(mx_weights *w);

/* names/rules.c: conditions on tensors that Whisper does not have. */
mxw_status mx_rule_zero_bias(mx_raw *raw, const mx_tensor_source *source);   /* a key's bias: all zeros */
/* The output projection, if the file has one, must equal the embedding. */
mxw_status mx_rule_tied(const mx_weights *w, const char *embedding, const char *projection);

/* format/safetensors.c */
mxw_status mx_safetensors_read(mx_weights *w, const uint8_t *bytes, size_t n);
typedef struct mx_shard_list {
    const char **names;           /* in the arena, unique, sorted; plain names without a folder */
    size_t n;
} mx_shard_list;
mxw_status mx_shards_parse(const uint8_t *bytes, size_t n, mx_arena *arena, mx_shard_list *list);

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
mxw_status mx_config_load(mx_weights *w);   /* config.json, vocabulary.txt or .json in the file's folder */
mxw_status mx_config_parse(const uint8_t *bytes, size_t n, mx_weights *w);                      /* alignment heads */
mxw_status mx_vocabulary_count(const uint8_t *bytes, size_t n, int json, int64_t *count);

/* find/locate.c: model.bin, model.safetensors, its index, else the one *.pt in a folder. */
mxw_status mx_look_in_folder(const char *folder, mx_str *path);
/* <dir>/<name>.pt, else the folder <dir>/<name>. E_NOT_FOUND, possibly without an error line, if neither. */
mxw_status mx_look_by_name(const char *dir, const char *name, mx_str *path);

/* format/npz.c: the export, with ZIP64 fields for offsets from zip64_limit on, so that a test need not write 4 GiB. */
mxw_status mx_npz_write(const mx_weights *w, const char *path, uint64_t zip64_limit);
#endif
