/* base/core.h - which core a thread is on, and how one that lost its core to another process gets another.
 *
 * The kernel moves a waiting thread to an idle core only after some milliseconds, which is a whole decoding step. These
 * functions ask for it at once. What holds: no thread is bound to a core; a thread's mask is narrowed for the length of
 * a system call, never beyond what it was, and put back. All of it is advice: failure changes nothing. */
#ifndef MX_CORE_H
#define MX_CORE_H
#include <pthread.h>

int mx_core_now(void);                     /* the calling thread's; -1 if not known */
int mx_core_count(void);                   /* how many the process may use */
int mx_core_is_waiting(pthread_t thread);  /* 1 if it used no CPU time for some microseconds */
void mx_core_give(pthread_t thread);       /* to the caller's core, if it may run there; the caller sleeps next */
void mx_core_step_aside(void);             /* the caller, to any other core that it may use */
#endif
