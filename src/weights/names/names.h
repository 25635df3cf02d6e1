/* weights/names/names.h - the tensors that a Whisper model has, and what each format calls them: for weights/, which
 * reads them, and convert/, which writes them. */
#ifndef MX_WEIGHTS_NAMES_H
#define MX_WEIGHTS_NAMES_H
#include "weights/weights.h"

/* arch.c: the tensors that the dimensions require. */
typedef struct mx_arch_tensor {
    const char *pattern;          /* '#' for the layer */
    int layer;                    /* -1 outside of layers */
    int encoder;
    int rank;
    int64_t dims[3];
} mx_arch_tensor;
int64_t mx_arch_count(const mxw_dims *dims);
mx_arch_tensor mx_arch_get(const mxw_dims *dims, int64_t index);
/* Pattern with the layer's number for '#'. */
void mx_arch_name(const char *pattern, int layer, char *out, size_t n);

/* Where a canonical tensor is stored: rows part/parts of a tensor of the file. */
typedef struct mx_tensor_source {
    char name[160];
    int part, parts;
} mx_tensor_source;

/* Whose names the tensors of a file have, and what follows from that. */
typedef struct mx_naming {
    const char *encoder_layer;    /* prefix of the file's names of layers: "encoder.blocks." */
    const char *decoder_layer;
    int folder;                   /* configuration and vocabulary lie beside the file */
    void (*source)(const char *pattern, int layer, mx_tensor_source *source);
    mxw_status (*settle)(mx_weights *w);                  /* called once raws are sorted; may be NULL */
    mxw_status (*check)(mx_weights *w);                   /* called once every tensor is resolved; may be NULL */
} mx_naming;

/* OpenAI's (the canonical ones), Hugging Face's with "model." and without, CTranslate2's, transcribe.cpp's, MLX's. */
extern const mx_naming mx_names_openai, mx_names_hf, mx_names_hf_bare, mx_names_ct2, mx_names_gguf, mx_names_mlx;
#endif
