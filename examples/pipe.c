/* pipe.c - a recording from a pipe, each segment printed as soon as its window of 30 s is full; live.c is for speech
 * that is to be read while it is spoken.
 *
 *   ffmpeg -v quiet -i talk.mkv -f s16le -ac 1 -ar 16000 - | pipe [MODEL]
 *
 * Standard input is raw sound: 16-bit little-endian samples, one channel, 16 kHz, without a header. Whisper measures
 * loudness against the whole recording; a pipe has no end in sight, so the reference here is what was heard so far
 * (MXW_MEL_RUNNING), and the text may differ a little from that of the same sound in a file. */
#include <max_whisper.h>
#include <stdio.h>

enum { CHUNK = MXW_SAMPLE_RATE / 4 }; /* a quarter of a second */

static void print_segment(const mxw_segment *segment) {
    printf("[%7.2f to %7.2f]%s\n", segment->start, segment->end, segment->text);
    fflush(stdout); /* the reader wants it now */
}

/* All segments that the sound fed so far makes possible: MORE or END, or a failure. */
static mxw_status print_ready(mxw_session *session) {
    const mxw_segment *segment;
    mxw_status status;
    while ((status = mxw_session_next(session, &segment)) == MXW_OK)
        print_segment(segment);
    return status;
}

static mxw_status listen(mxw_session *session) {
    unsigned char bytes[2 * CHUNK];
    float samples[CHUNK];
    mxw_status status = MXW_OK;
    size_t n;
    while (status >= 0 && (n = fread(bytes, 2, CHUNK, stdin)) > 0) {
        for (size_t i = 0; i < n; i++) {
            int value = bytes[2 * i] | bytes[2 * i + 1] << 8;
            samples[i] = (float)(value < 32768 ? value : value - 65536) / 32768.0f;
        }
        status = mxw_session_feed(session, samples, n);
        if (status >= 0)
            status = print_ready(session);
    }
    if (status >= 0)
        status = mxw_session_finish(session); /* no more will come: what is left is a window, too */
    return status < 0 ? status : print_ready(session);
}

int main(int argc, char **argv) {
    mxw_model_options model_options;
    mxw_session_options options;
    mxw_model *model = NULL;
    mxw_session *session = NULL;
    mxw_model_options_default(&model_options);
    if (argc > 1)
        model_options.model = argv[1];
    mxw_session_options_default(&options);
    options.mel_reference = MXW_MEL_RUNNING;

    mxw_status status = mxw_model_open(&model_options, &model);
    if (status >= 0)
        status = mxw_session_open(model, &options, &session);
    if (status >= 0)
        status = listen(session);
    if (status < 0)
        fprintf(stderr, "pipe: %s\n", mxw_last_error());
    mxw_session_close(session);
    mxw_model_close(model);
    return status < 0;
}
