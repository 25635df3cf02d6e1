/* max_whisper/checkpoint.h - the contents of a model file, without running the model.
 *
 * Checkpoints of OpenAI (.pt), Hugging Face (safetensors), CTranslate2 (model.bin), whisper.cpp (ggml) and
 * transcribe.cpp (GGUF) are read alike: every tensor has one canonical name, whatever the file calls it; quantized ones
 * are widened exactly to f32. A checkpoint may be read by several threads.
 */
#ifndef MXW_CHECKPOINT_H
#define MXW_CHECKPOINT_H

#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Owned by the library; fields may be added at the end. */
typedef struct mxw_dims {
    int32_t n_mels, n_audio_ctx, n_audio_state, n_audio_head, n_audio_layer;
    int32_t n_vocab, n_text_ctx, n_text_state, n_text_head, n_text_layer;
} mxw_dims;

typedef struct mxw_checkpoint_info {
    size_t struct_size;      /* sizeof(mxw_checkpoint_info) */
    const char *path;        /* the weights file */
    const char *format;      /* "OpenAI .pt", "CTranslate2 model.bin", "whisper.cpp ggml", ... */
    const char *size_name;   /* "tiny.en", "base", ...; "custom" if no released model has these dimensions */
    const mxw_dims *dims;
    int multilingual;
    int n_languages;         /* 99 or 100; 0 if not multilingual */
    int64_t n_tensors, n_encoder_tensors, n_decoder_tensors;
    int64_t n_parameters;
    uint64_t file_bytes;
} mxw_checkpoint_info;

typedef struct mxw_tensor_info {
    size_t struct_size;      /* sizeof(mxw_tensor_info) */
    const char *name;        /* canonical: "encoder.blocks.0.attn.query.weight" */
    const char *file_name;   /* the checkpoint's own name for it, or for the fused tensor that holds it */
    mxw_dtype dtype;
    int rank;
    int64_t dims[MXW_MAX_RANK];
    uint64_t bytes;
    int mapped;              /* 1 if it is read directly from the mapped file, without a copy */
    const char *stored;      /* its type in the file: "f16", "q5_0", "int8" */
    uint64_t stored_bytes;   /* that it takes there, scales included */
} mxw_tensor_info;

typedef struct mxw_checkpoint mxw_checkpoint;

/* name_or_path: a file, its folder, a released name ("tiny.en"), or OWNER/NAME of the Hugging Face hub. Names are
 * searched for in model_dir or, if that is NULL, in mxw_model_dir() and the caches of openai-whisper, Hugging Face,
 * faster-whisper, whisper.cpp ("tiny.en-q5_1", too) and transcribe.cpp ("tiny.en-Q8_0"). */
MXW_API mxw_status mxw_checkpoint_open(const char *name_or_path, const char *model_dir, mxw_checkpoint **out);
MXW_API void mxw_checkpoint_close(mxw_checkpoint *checkpoint);
/* What the info structs point to lives as long as the checkpoint. */
MXW_API mxw_status mxw_checkpoint_get_info(const mxw_checkpoint *checkpoint, mxw_checkpoint_info *info);
MXW_API mxw_status mxw_checkpoint_tensor(const mxw_checkpoint *checkpoint, int64_t index, mxw_tensor_info *info);
/* Piece `index` that the checkpoint lacks ("alignment heads", "vocabulary", "merges"), and what stands in for it; NULL
 * past the last. Weights are never replaced: without one, opening fails. */
MXW_API const char *mxw_checkpoint_missing(const mxw_checkpoint *checkpoint, int index, const char **instead);
/* Index of a tensor by its canonical name or by the checkpoint's own; a negative status if there is none. */
MXW_API int64_t mxw_checkpoint_find(const mxw_checkpoint *checkpoint, const char *name);
/* The tensor converted to f32, row-major; n must be its element count. */
MXW_API mxw_status mxw_checkpoint_read_f32(const mxw_checkpoint *checkpoint, int64_t index, float *out, size_t n);
/* CRC-32 of the elements, row-major, in their own dtype. */
MXW_API mxw_status mxw_checkpoint_crc32(const mxw_checkpoint *checkpoint, int64_t index, uint32_t *crc);
/* SHA-256 of the weights file (of a sharded one: of its files together) as 64 hexadecimal digits. *published (may be
 * NULL): the SHA-256 that OpenAI published for a .pt of this size, or NULL. */
MXW_API mxw_status mxw_checkpoint_sha256(const mxw_checkpoint *checkpoint, char text[65], const char **published);
/* Weights and configuration as one .npz for numpy. The file appears complete or not at all. */
MXW_API mxw_status mxw_checkpoint_export_npz(const mxw_checkpoint *checkpoint, const char *path);
/* Weights, filter bank and vocabulary as one file for whisper.cpp. matrices: MXW_F16 or MXW_F32. */
MXW_API mxw_status mxw_checkpoint_export_ggml(const mxw_checkpoint *checkpoint, mxw_dtype matrices, const char *path);

#ifdef __cplusplus
}
#endif
#endif
