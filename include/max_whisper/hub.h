/* max_whisper/hub.h - where models are on this machine, and models from the Hugging Face hub. */
#ifndef MXW_HUB_H
#define MXW_HUB_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The model folder: option (may be NULL), else $MAX_WHISPER_MODELS, else $XDG_CACHE_HOME/max-whisper/models, else
 * ~/.cache/max-whisper/models. The string is valid until the next call on this thread. */
MXW_API const char *mxw_model_dir(const char *option);
/* The released models, in order of size; NULL past the end. *path (may be NULL): where it was found, or NULL if it is
 * not on this machine. */
MXW_API const char *mxw_model_name(int index, const char *model_dir, const char **path);
/* Every copy of a released model on this machine, in search order: which = 0, 1, ...; NULL past the last. *source (may
 * be NULL): whose cache it is in, "max-whisper", "openai-whisper", "Hugging Face", "MLX", ... Valid until the thread's
 * next call. */
MXW_API const char *mxw_model_location(int index, const char *model_dir, int which, const char **source);

typedef struct mxw_fetch_options {
    size_t struct_size;
    const char *model_dir;   /* where to put it; NULL: mxw_model_dir() */
    const char *revision;    /* branch, tag or commit; NULL: main */
    const char *hub;         /* address of the hub or a mirror; NULL: $MAX_WHISPER_HUB, $HF_ENDPOINT, huggingface.co */
    int faster_whisper;      /* 1: CTranslate2's format instead of safetensors */
    int again;               /* 1: even if the model was found on this machine */
    int stall_s;             /* a transfer that delivers nothing for so many seconds is restarted; 0: 30 */
    /* May be NULL. Bytes are of all files together; file is NULL while the list of files is requested. Non-zero stops
     * the transfer: E_ABORTED. */
    int (*progress)(void *user, const char *file, uint64_t bytes_done, uint64_t bytes_total);
    void *user;
} mxw_fetch_options;

MXW_API void mxw_fetch_options_default(mxw_fetch_options *options, size_t struct_size);
#define mxw_fetch_options_default(options) mxw_fetch_options_default(options, sizeof(*(options)))
/* Downloads a released model, OWNER/NAME of any Whisper on the hub, or MXW_VAD_MODEL (one file, from GitHub: revision
 * and format do not apply, `hub` is a mirror with GitHub's paths) into the model folder. The files are checked
 * against the hub's sizes and SHA-256 and opened once before they appear under their names; an interrupted transfer is
 * resumed by the next call. path (may be NULL) receives the path of the weights, n is its size in bytes. */
MXW_API mxw_status mxw_model_fetch(const char *name, const mxw_fetch_options *options, char *path, size_t n);

#ifdef __cplusplus
}
#endif
#endif
