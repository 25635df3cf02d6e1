/* pipeline/speech/languages.h - which language is spoken when, in a session that has several to choose among.
 *
 * In: a list of languages, the log-mel and the speech of a whole recording. Out: spans, each in one language, that
 * cover the recording without gaps; clips and regions are split where they change. How it is decided:
 * language_path.h and docs/decoding.md.
 *
 * Invariant: a recording that is all in one language keeps its clips as they are. */
#ifndef MX_LANGUAGES_H
#define MX_LANGUAGES_H
#include "pipeline/pipeline.h"

#define MX_MAX_LANGUAGES 100

typedef struct mx_language_span {
    int64_t start, end;           /* mel frames; the first starts at 0, the last ends at INT64_MAX */
    const char *language;
    double probability;
} mx_language_span;

typedef struct mx_languages {
    const char *codes[MX_MAX_LANGUAGES];   /* to choose among, in the order of their tokens; n 0: the option is off */
    int n;
    int known;                    /* the spans are; what follows is valid */
    mx_language_span *spans;
    size_t n_spans;
    const struct mx_clip *wanted; /* the clips before they were split */
    int n_wanted;
    const char *most;             /* the language with the most speech, ... */
    double probability;           /* ... and its mean probability over that */
} mx_languages;

/* "en,de" or "any" as the option `languages`; E_ARGUMENT names what the model cannot transcribe. */
mxw_status mx_languages_read(const mxw_checkpoint_info *model, const mx_text *text, const char *list,
                             mx_languages *out);
/* Of a session with that option, after finish: decides the spans, unless they are known, and splits the clips. */
mxw_status mx_session_decide_languages(mx_session *s);
/* The same with spans that are known from elsewhere; they are copied. E_FORMAT if they are not a recording's. */
mxw_status mx_session_take_languages(mx_session *s, const mx_language_span *spans, size_t n);
/* As before it was decided. */
void mx_session_forget_languages(mx_session *s);
/* The window that is chosen belongs to a clip: its language is the session's from now on, without the text before it
 * if that was in another one. */
void mx_session_enter_language(mx_session *s);
#endif
