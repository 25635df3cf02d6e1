/* gen_silero.h - random weights in the two containers of Silero VAD, in memory. The shapes are the real ones; the same
 * seed gives the same values in both. */
#ifndef GEN_SILERO_H
#define GEN_SILERO_H
#include "base/str.h"

typedef struct gen_silero {
    uint64_t seed;
    int dft;               /* the STFT is a windowed cosine and sine, as in the real files; else it is random, too */
    const char *without;   /* leave this tensor out, by canonical name; NULL: none */
    const char *cut;       /* give this one a row less */
    int only_16k;          /* .jit: no module for 8 kHz */
    int itself;            /* .jit: the module holds itself */
} gen_silero;

/* The pickle alone, and the whole .jit around a pickle (NULL: its own; else the storages are those of the first
 * call). */
void gen_silero_pickle(mx_str *out, const gen_silero *options);
void gen_silero_jit(mx_str *out, const gen_silero *options, const mx_str *pickle);
void gen_silero_safetensors(mx_str *out, const gen_silero *options);
/* The values of a tensor; the number of them. out may be NULL. */
int64_t gen_silero_values(const gen_silero *options, int sample_rate, const char *canonical, float *out);
#endif
