/* cli/transcribe/session_slots.h - a batch's model, opened when first needed, and how many sessions may use it.
 *
 * In: the requested number of sessions. Out: that many slots or, with a warning, as many as fit into the device's
 * memory; if not even one fits, the CPU where the device was chosen automatically, else failure.
 * Invariants: never more open sessions than slots. Any thread may call.
 */
#ifndef CLI_TRANSCRIBE_SESSION_SLOTS_H
#define CLI_TRANSCRIBE_SESSION_SLOTS_H

#include "transcribe/recording.h"

/* Opens the model on first use. 0: it could not be opened; the reason was logged, and batch->exit_status is set. */
int session_slots_load(recording_batch *batch);
/* Waits for a free slot. 0: all recordings must stop. */
int session_slots_acquire(recording_batch *batch);
void session_slots_release(recording_batch *batch);

#endif
