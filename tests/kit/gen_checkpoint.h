/* gen_checkpoint.h - random but valid checkpoints for tests: any dimensions, as OpenAI .pt, CTranslate2 or Hugging
 * Face folder, ggml or GGUF file.
 * The same seed and dimensions give the same values in every format, up to the rounding of the type asked for. Weights
 * are scaled by their fan-in and norms are near 1, so that activations stay finite at any depth. Every function returns
 * 0, or non-zero after printing why. */
#ifndef GEN_CHECKPOINT_H
#define GEN_CHECKPOINT_H
#include "weights/weights.h"

typedef struct gen_options {
    mxw_dims dims;
    mxw_dtype dtype;            /* MXW_F32 (0), MXW_F16, MXW_BF16; CTranslate2 only, matrices in int8 (MXW_I8) or
                                 * int16 (MXW_I32); .pt with hub_names, too, in int8, as compressed-tensors has it */
    mxw_dtype rest;             /* of a quantized one: MXW_F32 (0), MXW_F16, MXW_BF16 */
    int float_kernels;          /* of a quantized one: convolutions as the rest, as converters before 4.2 left them */
    uint64_t seed;
    const char *without;        /* leave this tensor out (canonical name, or the file's own); NULL: none */
    const char *cut;            /* give this one a row less */
    const char *extra;          /* add a tensor of this name */
    int plain;                  /* .pt: the state dict alone, without dims */
    int key_bias;               /* CTranslate2: a key bias that is not 0; Hugging Face: 1 zeros, 2 not */
    int no_config;              /* folders: nothing beside the weights */
    int shards;                 /* Hugging Face: as so many files and an index; 0: one file */
    int bare;                   /* Hugging Face's names: without "model.", as a WhisperModel alone has */
    int hub_names;              /* .pt: the names of Hugging Face; GGUF: no settings either, as candle writes it; or,
                                 * with 2, MLX's names */
    const char *blocks;         /* ggml, GGUF: matrices in this block type, "q5_0", of random bytes; NULL: dtype */
    int kernel_blocks;          /* GGUF: and kernels, over the ends of rows, as candle may write them */
    int projection;             /* Hugging Face, .pt: 1 an output matrix that is the embedding, 2 one that differs */
    const char *last_alone;     /* .pt: the tensor of this name in the file has strides of 0 at its last element */
} gen_options;

/* Small dimensions: one layer each, state 8 (2 heads), 80 mel bins, 16 frames, 8 tokens of context, vocabulary 32. */
mxw_dims gen_small_dims(void);
/* The least that is a model: every size 1 or 2. For fuzz seeds. */
mxw_dims gen_least_dims(void);
/* A released model's, with at most `layers` layers a side. */
mxw_dims gen_released_dims(const char *name, int layers);

int gen_pt(const char *path, const gen_options *options);
int gen_ct2(const char *folder, const gen_options *options);   /* a folder: model.bin, config.json, vocabulary.txt */

int gen_safetensors(const char *folder, const gen_options *options);   /* a folder: model.safetensors, config.json */

int gen_ggml(const char *path, const gen_options *options);
int gen_gguf(const char *path, const gen_options *options);   /* dtype also MXW_BF16 */
/* The bytes of a tensor in options->blocks: scales are finite, all else is random. */
void gen_blocks(const gen_options *options, const char *canonical, size_t n, uint8_t *out);

/* CTranslate2: whether a tensor is int8 or int16, not the rest's type. */
int gen_is_quantized(const gen_options *options, const char *canonical, int rank);
/* The values of a tensor before they are rounded to the type: n of them. */
void gen_values(const gen_options *options, const char *canonical, const mx_tensor *shape, float *out);

/* A fresh folder under $TMPDIR; removed with what is in it by gen_remove. */
int gen_temp(char *path, size_t n);
void gen_remove(const char *path);
#endif
