/* max_whisper.h - the public API of max-whisper: speech to text with Whisper models, and the graph API below it.
 *
 * This header includes all stable ones in max_whisper/; each can also be included by itself, in C99 and in C++.
 * In: audio (any file, memory or callbacks through mxw_audio, or 16 kHz mono samples) and a Whisper checkpoint.
 * Out: segments of text with times, or the outputs of a graph of your own.
 *
 * Rules that hold for all of it:
 * - The library never prints and never exits. Every failure is a negative mxw_status, and mxw_last_error() then has one
 *   line that names the file, option or tensor.
 * - A struct that the caller allocates begins with struct_size. Options are filled by their _default(), which sets it:
 *   a macro that passes the size of the caller's struct to the function of that name. For the others write
 *   `mxw_device_info info = {.struct_size = sizeof(info)};`. The library reads and writes only the fields that the
 *   caller's header has, so structs can grow at their end without breaking a program.
 * - Structs that the library allocates may grow as well. They are read through pointers, and the elements of arrays
 *   through functions (mxw_result_segment, mxw_segment_word, ...). Do not pass copies of them back to the library,
 *   except to mxw_draft_segment and its like, which take their size.
 * - Threads: an mxw_model, mxw_checkpoint or mxw_tokenizer is immutable and may be shared; an mxw_session, mxw_audio,
 *   mxw_vad, mxw_live, mxw_window, mxw_merge, mxw_draft, mxw_graph or mxw_program belongs to one thread at a time.
 *
 * max_whisper/lab.h, for looking inside a model and for testing the library itself, is unstable and not included here.
 */
#ifndef MAX_WHISPER_H
#define MAX_WHISPER_H

#include "max_whisper/version.h"
#include "max_whisper/status.h"
#include "max_whisper/log.h"
#include "max_whisper/tensor.h"
#include "max_whisper/device.h"
#include "max_whisper/checkpoint.h"
#include "max_whisper/convert.h"
#include "max_whisper/hub.h"
#include "max_whisper/model.h"
#include "max_whisper/tokenizer.h"
#include "max_whisper/audio.h"
#include "max_whisper/vad.h"
#include "max_whisper/result.h"
#include "max_whisper/draft.h"
#include "max_whisper/session.h"
#include "max_whisper/window.h"
#include "max_whisper/live.h"
#include "max_whisper/graph.h"

#endif
