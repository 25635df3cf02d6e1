/* live.c - text while somebody speaks: samples from a pipe, words as soon as they are known.
 *
 *   ffmpeg -v quiet -f pulse -i default -f s16le -ac 1 -ar 16000 - | live [MODEL]
 *
 * Standard input is raw sound: 16-bit little-endian samples, one channel, 16 kHz, without a header. A line that begins
 * with ~ is what was said after the last final words; it may still change, and the next line replaces it. Other lines
 * are final. An empty one is a pause. Speech detection needs its weights: max-whisper model fetch silero-vad. */
#include <max_whisper.h>
#include <stdio.h>

enum { CHUNK = MXW_SAMPLE_RATE / 10 }; /* a tenth of a second */

static void print_event(const mxw_live_event *event) {
    if (event->kind == MXW_LIVE_PARTIAL && event->n_words > 0)
        printf("~ %7.2f%s\n", event->start, event->text);
    else if (event->kind == MXW_LIVE_FINAL)
        printf("  %7.2f%s\n", event->start, event->text);
    else if (event->kind == MXW_LIVE_SPEECH_STOPPED)
        printf("\n");
    fflush(stdout); /* the reader wants it now */
}

/* All events that are ready; the model works in here. MORE or END, or a failure. */
static mxw_status print_ready(mxw_live *live) {
    const mxw_live_event *event;
    mxw_status status;
    while ((status = mxw_live_next(live, &event)) == MXW_OK)
        print_event(event);
    return status;
}

static mxw_status listen(mxw_live *live) {
    unsigned char bytes[2 * CHUNK];
    float samples[CHUNK];
    mxw_status status = MXW_OK;
    size_t n;
    while (status >= 0 && (n = fread(bytes, 2, CHUNK, stdin)) > 0) {
        for (size_t i = 0; i < n; i++) {
            int value = bytes[2 * i] | bytes[2 * i + 1] << 8;
            samples[i] = (float)(value < 32768 ? value : value - 65536) / 32768.0f;
        }
        status = mxw_live_feed(live, samples, n);
        if (status >= 0)
            status = print_ready(live);
    }
    if (status >= 0)
        status = mxw_live_finish(live); /* the last words, too */
    return status < 0 ? status : print_ready(live);
}

int main(int argc, char **argv) {
    mxw_model_options options;
    mxw_model *model = NULL;
    mxw_live *live = NULL;
    mxw_model_options_default(&options);
    if (argc > 1)
        options.model = argv[1];

    mxw_status status = mxw_model_open(&options, &model);
    if (status >= 0)
        status = mxw_live_open(model, NULL, &live);
    if (status >= 0)
        status = listen(live);
    if (status < 0)
        fprintf(stderr, "live: %s\n", mxw_last_error());
    mxw_live_close(live);
    mxw_model_close(model);
    return status < 0;
}
