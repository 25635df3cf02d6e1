/* cli/transcribe/journal.h - a recording's finished windows on disk, so that a killed run can be resumed.
 *
 * In: records, in order. Out: the same, after whatever happened to the process: a record that was not written whole is
 * recognised by its checksum and dropped with all behind it.
 * Invariants: one process at a time has a journal; a record that was added is on the disk when the call returns.
 */
#ifndef CLI_TRANSCRIBE_JOURNAL_H
#define CLI_TRANSCRIBE_JOURNAL_H

#include "transcribe/inputs.h"
#include "transcribe/transcribe_options.h"

typedef struct journal journal;

/* Where the journal of a recording lies: beside its files, "DIR/stem.journal", or without --output-dir in
 * $XDG_STATE_HOME/max-whisper (~/.local/state/max-whisper); channel: 0, or which one of a split recording. 0: message
 * says why there is no such place. */
int journal_path(const transcribe_options *options, const input *in, int channel, char *path, size_t size,
                 char *message, size_t message_size);
/* Opens it, or makes it; NULL: message says why not. */
journal *journal_open(const char *path, char *message, size_t size);
/* The next record; 0 at the end. Valid until the journal is written to. */
int journal_next(journal *j, const void **record, size_t *n);
/* Forgets the record that was read last, and all behind it. */
void journal_refuse(journal *j);
/* Behind the records that were read; 0: errno says why not, and nothing more can be added. */
int journal_add(journal *j, const void *record, size_t n);
/* remove: it is not needed any more. One that never had a record is removed in any case. NULL is fine. */
void journal_close(journal *j, int remove);
const char *journal_name(const journal *j);

#endif
