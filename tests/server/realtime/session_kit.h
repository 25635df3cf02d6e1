/* session_kit.h - what the tests of the protocol share: a session on the fake engine, audio as a client sends it, and
 * its events as lines that a test can compare: the type's last parts, the item as #1, #2, ..., and what matters. */
#ifndef SESSION_KIT_H
#define SESSION_KIT_H
#include "fake_engine.h"
#include "realtime/protocol.h"

typedef struct kit_session {
    rt_session *session;
    fake_engine fake;
    rt_engine engine;
    json_t *events;              /* all of them */
    char lines[1 << 16];         /* since the last kit_lines */
    char items[64][40];          /* ids by number */
    int n_items;
    double phase;                /* of the sound that it makes */
    int rate;
} kit_session;

void kit_open(kit_session *k, rt_dialect dialect, const rt_config *config);
/* 0: something was not freed. */
int kit_close(kit_session *k);
/* A message, with ' for ". */
void kit_send(kit_session *k, const char *message);
/* Speech, or silence, in pieces of 100 ms, as PCM at k->rate (24000). */
void kit_speak(kit_session *k, double seconds);
void kit_be_silent(kit_session *k, double seconds);
/* The lines since the last call. */
const char *kit_lines(kit_session *k);
/* The last event. */
json_t *kit_last(const kit_session *k);
/* A value of it by path, "error.code", as text; "" if it is not there. Valid until the next call. */
const char *kit_get(const kit_session *k, const char *path);
#endif
