/* cli/transcribe/batch.h - all the recordings of a command line: several at once, each as if it were alone.
 *
 * In: the options and the recordings. Out: what each gives, in their order; at the end each failure once more; the
 * exit status.
 * Invariants: one recording's failure leaves the others; a signal ends all of them once their windows are done, and
 * the way to go on is told; what was finished by then is printed.
 */
#ifndef CLI_TRANSCRIBE_BATCH_H
#define CLI_TRANSCRIBE_BATCH_H

#include "transcribe/inputs.h"
#include "transcribe/transcribe_options.h"

/* Runs until the last is done; returns the exit status. several: each that prints something gets a line with its name.
 */
int batch_run(const transcribe_options *options, const inputs *list, int several);

#endif
