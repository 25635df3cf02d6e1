/* cli/transcribe/interrupt.c - the signal handler and its globals. It uses only what a handler may: atomics, a
 * semaphore and write(). */
#include "transcribe/interrupt.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "common/progress.h"

static atomic_int caught_signal;
static atomic_int waits_for_input;
static atomic_int has_workers;
static atomic_int announces;
static sem_t events; /* a worker ended, or a signal came */

int interrupt_signal(void) { return caught_signal; }

void interrupt_input_begin(void) { waits_for_input = 1; }

void interrupt_input_end(void) { waits_for_input = 0; }

int interrupt_waits_for_input(void) { return waits_for_input; }

void interrupt_use_workers(int several_threads) { has_workers = several_threads; }

void interrupt_wait(void) {
    while (sem_wait(&events) && errno == EINTR)
        ;
}

void interrupt_wake(void) { sem_post(&events); }

/* A single recording read from a pipe loses nothing by leaving at once; with workers, others may still have output. */
static void on_signal(int number) {
    static const char line[] = "max-whisper: stopping after the current window; press Ctrl-C again to stop now\n";
    int saved = errno;
    if (caught_signal || (!has_workers && waits_for_input)) {
        progress_abandon();
        _exit(128 + number);
    }
    caught_signal = number;
    if (announces) {
        progress_abandon();
        if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
            announces = 0;
    }
    if (has_workers)
        sem_post(&events);
    errno = saved;
}

static void catch_signal(int number) {
    struct sigaction action = {.sa_flags = SA_RESTART}, before;
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    if (!sigaction(number, NULL, &before) && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void interrupt_catch(int announce) {
    sem_init(&events, 0, 0);
    announces = announce;
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
}
