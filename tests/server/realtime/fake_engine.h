/* fake_engine.h - an engine without a model, for tests of the protocol: loud samples are speech, every second of it is
 * a final word, a pause of the options' length ends the utterance with the word "end.". Failures happen where they are
 * asked for. */
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H
#include "realtime/engine.h"

typedef struct fake_engine {
    rt_stream_options opened;    /* what the last stream was opened with; its texts are gone */
    char model[64], language[64], prompt[64];
    int n_open, n_opened;
    mxw_status fail_open, fail_feed, fail_next;   /* MXW_OK: it does not; a feed fails with
                                                     what it heard before */
    double quiet_word_s;         /* 0; else a word that was cut off by so much of a pause ends with "..." */
} fake_engine;

rt_engine fake_engine_table(fake_engine *fake);
#endif
