/* weights/weights.h - public header of weights/: any checkpoint -> canonical name -> tensor view.
 *
 * In: a released name, a file or a folder. Out: the tensors of Whisper under openai-whisper's names, as views of the
 * mapped file (strided or unaligned if need be); one that is quantized is a QUANTIZED view, without data, whose values
 * are widened as they are read. Copies are made only of what is compressed in the file (.npz) or not there (MLX's
 * positions).
 * Invariant: once open, every tensor that the dimensions require is there, in a float type and of the right shape;
 * nothing is ever substituted. Immutable after opening; may be shared between threads. */
#ifndef MX_WEIGHTS_H
#define MX_WEIGHTS_H
#include "base/str.h"
#include "tensor/tensor.h"
#include "tensor/quantized.h"

typedef struct mx_weights mx_weights;

/* name_or_path: a released name ("tiny.en") under model_dir (NULL: mx_model_dir), a file, or a folder with one. */
mxw_status mx_weights_open(const char *name_or_path, const char *model_dir, mx_weights **out);
void mx_weights_close(mx_weights *w);   /* NULL is fine */
/* E_STATE: "PATH: changed while it was open ..." if its file, or one that an index names, was written to since. */
mxw_status mx_weights_check(const mx_weights *w);
/* Has the file in memory before its tensors are read. */
void mx_weights_prefetch(const mx_weights *w);
/* Drops the pages of the mapped file; views stay valid and are read again on demand. */
void mx_weights_forget(const mx_weights *w);

void mx_weights_info(const mx_weights *w, mxw_checkpoint_info *info);   /* strings live as long as w */
int64_t mx_weights_count(const mx_weights *w);
/* Tensor i in canonical order: either of info and view may be NULL. */
mxw_status mx_weights_tensor(const mx_weights *w, int64_t i, mxw_tensor_info *info, mx_tensor *view);
/* Piece i that the checkpoint lacks besides weights, and what stands in for it; NULL past the last. */
const char *mx_weights_missing(const mx_weights *w, int i, const char **instead);
/* By canonical name, or by the file's own (a fused tensor is found at its first part); negative if there is none. */
int64_t mx_weights_index(const mx_weights *w, const char *name);
/* The same as a view; by the file's own name, a fused tensor is returned as a whole. E_MISSING: "PATH: tensor NAME is
 * missing". */
mxw_status mx_weights_find(const mx_weights *w, const char *name, mx_tensor *out);
/* Tensor i as f32, row major; one that is quantized is widened from the file. */
mxw_status mx_weights_read_f32(const mx_weights *w, int64_t i, float *out);
/* How tensor i is quantized in the file, and its first row there; NULL: it is not. */
const mx_quantized *mx_weights_quantized(const mx_weights *w, int64_t i, int64_t *row);
/* CRC-32 of the elements of tensor i, row major, in their own dtype. */
mxw_status mx_weights_crc32(const mx_weights *w, int64_t i, uint32_t *crc);
/* SHA-256 of the file's bytes (of an index: of its files, concatenated), 64 digits, 0-terminated. */
void mx_weights_sha256(const mx_weights *w, char text[65]);
/* The folder of the checkpoint, with the final '/' (empty: the working folder), if the files beside it belong to it;
 * *n is its length. NULL: a file alone. */
const char *mx_weights_folder(const mx_weights *w, size_t *n);
/* The alignment heads, {layer, head} of the cross attention that follow time: from config.json, else from the table of
 * released models with these dimensions, else every head of the last half of the layers. At least one. */
const int32_t (*mx_weights_alignment_heads(const mx_weights *w, size_t *n))[2];

/* The model folder: option, $MAX_WHISPER_MODELS, $XDG_CACHE_HOME/max-whisper/models, ~/.cache/max-whisper/models. The
 * string is valid until the next call on this thread. */
const char *mx_model_dir(const char *option);
/* The weights file that a name or path means: a file, a folder, a released name, or OWNER/NAME of the Hugging Face
 * hub. Names are looked up in model_dir alone if it is given, else in mx_model_dir and in the caches of openai-whisper,
 * Hugging Face, faster-whisper, whisper.cpp, transcribe.cpp and MLX. */
mxw_status mx_model_locate(const char *name_or_path, const char *model_dir, mx_str *path);

/* ---- Silero VAD ------------------------------------------------------------------------------------------------- */

/* The weights of Silero VAD for one rate, 16000 or 8000, under the names of names/silero.def: tensors by index or name
 * as above; the rest is for Whisper's. name_or_path: NULL or MXW_VAD_MODEL in the model folder, a file (silero_vad.jit,
 * silero_vad_16k.safetensors) or a folder with one. */
mxw_status mx_silero_open(const char *name_or_path, const char *model_dir, int sample_rate, mx_weights **out);
mxw_status mx_silero_locate(const char *name_or_path, const char *model_dir, mx_str *path);
/* The file that is published, and where on GitHub. */
#define MX_SILERO_FILE "silero_vad.jit"
#define MX_SILERO_BYTES 2272526u
#define MX_SILERO_SHA256 "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720"
#define MX_SILERO_REPOSITORY "snakers4/silero-vad"
#define MX_SILERO_PATH "raw/v6.2.1/src/silero_vad/data/" MX_SILERO_FILE

/* ---- the released models ---------------------------------------------------------------------------------------- */

/* The released models, in order; NULL past the end. */
typedef struct mx_released {
    const char *name, *alias;       /* alias may be NULL */
    mxw_dims dims;
    const int32_t (*heads)[2];      /* ended by {-1, -1} */
} mx_released;
const mx_released *mx_released_get(int index);
const mx_released *mx_released_find(const char *name);   /* by name or alias; NULL if unknown */
/* The one with these dimensions, or NULL; of several (large-v1, -v2) the one that the path names, else the last. */
const mx_released *mx_released_match(const mxw_dims *dims, const char *path);
/* Copy number `which` (from 0) of a model on this machine, in the order of the search above, and which program's folder
 * it is in (may be NULL); E_NOT_FOUND, possibly without an error line, past the last. */
mxw_status mx_model_find(const mx_released *released, const char *model_dir, int which, mx_str *path,
                         const char **source);
/* The same for a repository of the hub: "OWNER--NAME" in the model folder, or Hugging Face's cache. */
mxw_status mx_model_find_repository(const char *repository, const char *model_dir, mx_str *path);
/* "OWNER/NAME", in characters that the hub allows. */
int mx_is_repository(const char *text);
/* Who publishes released models on the hub: as safetensors, CTranslate2, GGUF, MLX. */
typedef enum mx_publisher {
    MX_BY_HUGGING_FACE, MX_BY_FASTER_WHISPER, MX_BY_TRANSCRIBE_CPP, MX_BY_MLX
} mx_publisher;
/* Repository `which` of a released model by one of them; NULL past the last. */
const char *mx_released_repository(const mx_released *released, mx_publisher by, int which);
/* The SHA-256 of OpenAI's .pt, or NULL if there is none. */
const char *mx_released_sha256(const mx_released *released);
#endif
