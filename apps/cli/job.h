/* cli/job.h - all the recordings of a command line: several at once, each as if it were alone.
 *
 * In: the options and the paths. Out: what each recording gives, in the order of the paths; the exit status.
 * What holds: one recording's failure leaves the others; a signal ends all of them soon, and what was finished by then
 * is printed.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "transcribe_options.h"

/* Runs until the last is done; returns the exit status. */
int job_run(const transcribe_options *options, char **paths, int n);

#endif
