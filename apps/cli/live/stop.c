/* cli/live/stop.c - the handler and its two flags. */
#include "live/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static atomic_int wanted, on_terminal;

/* A terminal that closes hangs up twice, by its shell and by itself; and who could still press Ctrl-C? */
static void on_signal(int number) {
    static const char clear[] = "\r\033[K";
    if (!wanted || number == SIGHUP) {
        wanted = 1;
        return;
    }
    if (on_terminal && write(STDOUT_FILENO, clear, sizeof(clear) - 1) < 0)
        _exit(128 + number); /* the terminal is gone as well */
    _exit(128 + number);
}

static void catch_signal(int number) {
    struct sigaction action = {.sa_flags = SA_RESTART}, before;
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    if (!sigaction(number, NULL, &before) && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void stop_catch(int terminal) {
    on_terminal = terminal;
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    catch_signal(SIGHUP);
}

int stop_wanted(void) { return wanted; }
