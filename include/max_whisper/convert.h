/* max_whisper/convert.h - a checkpoint written in another program's format.
 *
 * Every value is the checkpoint's, rounded to the type that is asked for; tensors that are quantized in that type
 * already are copied as they are. Files and folders appear complete or not at all, and memory is that of one tensor
 * (beside a deflated .npz, which is in memory as a whole). */
#ifndef MXW_CONVERT_H
#define MXW_CONVERT_H

#include "checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxw_convert_options {
    size_t struct_size;
    /* "ggml" (one file, whisper.cpp), "gguf" (one file, transcribe.cpp), "ct2" (a folder, CTranslate2 and
     * faster-whisper), "safetensors" (a folder, Hugging Face transformers), "npz" (one file, numpy). */
    const char *format;
    /* Of the matrices: "f32", "f16", "bf16", "q8_0", "q5_0", "q5_1", "q4_0", "q4_1", "int8"; NULL or "auto": that of
     * the checkpoint where the format has it, else f16. E_ARGUMENT, with those that it has, if the format has no such
     * type. */
    const char *type;
    /* May be NULL. Called after each tensor; counts are of weights. Non-zero stops: E_ABORTED, and nothing is left. */
    int (*progress)(void *user, const char *tensor, uint64_t done, uint64_t total);
    void *user;
} mxw_convert_options;

MXW_API void mxw_convert_options_default(mxw_convert_options *options, size_t struct_size);
#define mxw_convert_options_default(options) mxw_convert_options_default(options, sizeof(*(options)))

/* Writes the checkpoint to `path`. A file that is there is replaced; a folder must be new or empty. What the other
 * program needs besides the weights (configuration, vocabulary, merges) is written, too: as it lies beside the
 * checkpoint, else from the library, which is logged, a line for each piece. E_STATE: the checkpoint's own file was
 * changed meanwhile; nothing is written. */
MXW_API mxw_status mxw_checkpoint_convert(const mxw_checkpoint *checkpoint, const char *path,
                                          const mxw_convert_options *options);
/* The formats, and the types of one in its order, beginning with "auto"; NULL past the end or for another format. */
MXW_API const char *mxw_convert_format(int index);
MXW_API const char *mxw_convert_type(const char *format, int index);

#ifdef __cplusplus
}
#endif
#endif
