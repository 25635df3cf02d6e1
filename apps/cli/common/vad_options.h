/* cli/common/vad_options.h - the rows of Silero's parameters, which `transcribe` and `vad` have with other defaults.
 *
 * The struct has vad_model, vad_threshold, vad_min_silence_ms, vad_min_speech_ms, vad_max_speech_s and vad_pad_ms. The
 * names besides are those of other command lines (whisper-ctranslate2, whisper.cpp, whisperX); `short_` is VAD_SHORT
 * where those of Silero's own function are clear, without "vad" in front, and VAD_LONG where they are not.
 */
#ifndef CLI_COMMON_VAD_OPTIONS_H
#define CLI_COMMON_VAD_OPTIONS_H

#include "common/cli.h"

#define VAD_GROUP "Speech detection and invented text"

/* A table reads by rows. */
/* clang-format off */
#define VAD_SHORT(names) " " names
#define VAD_LONG(names) ""

#define VAD_NUMBER(type, member, name_, peers_, default_, unit_, low_, high_)                                          \
    .name = name_, .peers = peers_, .kind = OPTION_NUMBER, .fallback = default_, .placeholder = unit_,                 \
    .target = offsetof(type, member), .low = low_, .high = high_

#define VAD_ROWS(type, group_, short_, min_silence, min_speech, pad)                                                   \
    {VAD_NUMBER(type, vad_threshold, "vad-threshold", "vad-onset" short_("threshold"), "0.5", "X", 0.01, 1),           \
     .group = group_,                                                                                                  \
     .help = "Probability at which speech begins; it ends at 0.15 less."},                                             \
    {VAD_NUMBER(type, vad_min_silence_ms, "vad-min-silence-ms",                                                        \
                "vad-min-silence-duration-ms" short_("min-silence-duration-ms min-silence-ms"), min_silence, "MS", 0,  \
                1e6),                                                                                                  \
     .group = group_, .help = "A shorter pause does not end a region of speech."},                                     \
    {VAD_NUMBER(type, vad_min_speech_ms, "vad-min-speech-ms",                                                          \
                "vad-min-speech-duration-ms" short_("min-speech-duration-ms min-speech-ms"), min_speech, "MS", 0, 1e6),\
     .group = group_, .help = "Shorter speech is dropped."},                                                           \
    {VAD_NUMBER(type, vad_max_speech_s, "vad-max-speech-s",                                                            \
                "vad-max-speech-duration-s" short_("max-speech-duration-s max-speech-s"), "none", "SECONDS", 0.1, 1e6),\
     .none = 1, .none_value = MXW_NONE, .group = group_,                                                               \
     .help = "Longer speech is cut, at its longest pause if it has one."},                                             \
    {VAD_NUMBER(type, vad_pad_ms, "vad-pad-ms", "vad-speech-pad-ms" short_("speech-pad-ms pad-ms"), pad, "MS", 0, 1e5),\
     .group = group_, .help = "Added before and after each region."},                                                  \
    {.name = "vad-model", .kind = OPTION_NAME, .placeholder = "NAME|PATH", .group = group_,                            \
     .target = offsetof(type, vad_model),                                                                              \
     .help = "Weights of the detector (default: silero-vad in the model folder)."}
/* clang-format on */

#endif
