/* cli/live/stop.h - Ctrl-C, SIGTERM and SIGHUP (the terminal was closed) while a stream is heard.
 *
 * The first asks for an end: the utterance is finished and everything is written. The second ends the process at once,
 * with 128 + its number, unless it is SIGHUP; files are whole then too, as they are at any moment. A signal that was
 * ignored when the program started (nohup) stays ignored.
 */
#ifndef CLI_LIVE_STOP_H
#define CLI_LIVE_STOP_H

/* Starts to catch them. terminal: the last line is taken off the screen before an end at once. */
void stop_catch(int terminal);
/* 1 once a signal came. */
int stop_wanted(void);

#endif
