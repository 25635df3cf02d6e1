/* cli/transcribe/interrupt.h - Ctrl-C and SIGTERM while recordings are transcribed: all signal state is here.
 *
 * The first signal asks for a clean stop: every window being decoded is finished. The second one ends the process at
 * once, and so does the first if all that is left is a read from standard input that may never return.
 * Invariants: one batch at a time; a signal that was ignored when the program started (nohup) stays ignored.
 */
#ifndef CLI_TRANSCRIBE_INTERRUPT_H
#define CLI_TRANSCRIBE_INTERRUPT_H

/* Starts to catch both signals. announce: the first one is acknowledged with a line on standard error. */
void interrupt_catch(int announce);
/* The number of the signal that came; 0: none. */
int interrupt_signal(void);

/* Standard input is being read, possibly forever; between these two calls. */
void interrupt_input_begin(void);
void interrupt_input_end(void);
int interrupt_waits_for_input(void);

/* With worker threads, a signal wakes interrupt_wait(), and the caller decides whether the process must end; without, a
 * signal during a read from standard input ends it. */
void interrupt_use_workers(int several_threads);
/* Blocks until a signal comes or interrupt_wake() is called; each call of interrupt_wake() counts. */
void interrupt_wait(void);
void interrupt_wake(void);

#endif
