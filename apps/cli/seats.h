/* cli/seats.h - the model of a job, opened when first needed, and the sessions that may be open on it at once.
 *
 * In: a device with as much memory as it has. Out: as many seats as were asked for or, said in one line, the most that
 * fit; where not one fits, the CPU if the device was left to choose, else the end.
 * What holds: no more sessions than seats are open at any time. Any thread may ask.
 */
#ifndef CLI_SEATS_H
#define CLI_SEATS_H

#include "recording.h"

/* Whether the model is open, by now; if not, why was said, and the batch's exit_status says how to leave. */
int seats_load(recording_batch *batch);
/* Waits for a free seat. 0: all recordings are to stop. */
int seats_take(recording_batch *batch);
void seats_give(recording_batch *batch);

#endif
