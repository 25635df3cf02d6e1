/* transcribe.c - the smallest transcription: one recording in, its text out.
 *
 *   transcribe FILE [MODEL]
 *
 * Any audio or video file; the model by name (tiny.en) or path. Segments are printed as they are found. */
#include <max_whisper.h>
#include <stdio.h>

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, mxw_last_error());
    return 1;
}

int main(int argc, char **argv) {
    mxw_model_options model_options;
    mxw_audio_options audio_options;
    mxw_model *model = NULL;
    mxw_audio *audio = NULL;
    mxw_session *session = NULL;
    const mxw_segment *segment;
    mxw_status status;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: transcribe FILE [MODEL]\n");
        return 2;
    }
    mxw_model_options_default(&model_options);
    if (argc == 3)
        model_options.model = argv[2];
    mxw_audio_options_default(&audio_options);
    audio_options.path = argv[1];

    status = mxw_audio_open(&audio_options, &audio);
    if (status >= 0)
        status = mxw_model_open(&model_options, &model);
    if (status >= 0)
        status = mxw_session_open(model, NULL, &session); /* NULL: every option as openai-whisper has it */
    if (status >= 0)
        status = mxw_session_feed_audio(session, audio);
    if (status >= 0)
        status = mxw_session_finish(session);
    while (status >= 0 && (status = mxw_session_next(session, &segment)) == MXW_OK)
        printf("[%7.2f to %7.2f]%s\n", segment->start, segment->end, segment->text);

    mxw_session_close(session); /* closing what was never opened is fine */
    mxw_audio_close(audio);
    mxw_model_close(model);
    return status < 0 ? fail(argv[1]) : 0;
}
