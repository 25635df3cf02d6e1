/* base/core.h - which core a thread runs on, and how a thread that lost its core to another process gets a new one.
 *
 * The kernel moves a waiting thread to an idle core only after some milliseconds, which is a whole decoding step. These
 * functions request it at once. Invariants: no thread is pinned to a core; a thread's affinity mask is narrowed for the
 * duration of a system call, never widened, and restored. All of this is best effort: failure changes nothing. */
#ifndef MX_CORE_H
#define MX_CORE_H
#include <pthread.h>

int mx_core_now(void);                     /* the calling thread's; -1 if not known */
int mx_core_count(void);                   /* the number that the process may use */
int mx_core_is_waiting(pthread_t thread);  /* 1 if it used no CPU time for some microseconds */
void mx_core_move_here(pthread_t thread);       /* moves it to the caller's core, if allowed; the caller sleeps next */
void mx_core_leave(void);             /* moves the caller to any other core that it may use */
#endif
