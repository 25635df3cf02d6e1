/* server/transcriptions/fields.h - what a form asks for: OpenAI's fields, and options of the command line by name.
 *
 * In: the fields of a form. Out: a transcription_request, or the first problem, with the field that it is about.
 * Invariants: a field is honoured or refused by its name, never ignored; nothing here touches files or the model.
 */
#ifndef SERVER_TRANSCRIPTIONS_FIELDS_H
#define SERVER_TRANSCRIPTIONS_FIELDS_H

#include "server.h"
#include "transcriptions/form.h"

typedef enum answer_kind {
    ANSWER_JSON,    /* {"text"} */
    ANSWER_TEXT,
    ANSWER_VERBOSE, /* verbose_json */
    ANSWER_WRITTEN  /* by the library: srt, vtt, tsv, ... */
} answer_kind;

typedef struct transcription_request {
    const char *model;      /* as the request calls it; NULL: the default */
    mxw_task task;
    answer_kind kind;
    const char *format;     /* of ANSWER_WRITTEN: mxw_format_name */
    int stream;             /* server-sent events */
    int all_events;         /* stream_events=all: queue, progress, segments and result, too */
    int logprobs;
    int words, segments;    /* timestamp_granularities */
    char languages[1024];   /* "en,de"; "": none */
    void *options;          /* of server_host */
} transcription_request;

/* 1, or 0 with the problem. Texts point into the form. transcription_request_free in any case. */
int fields_read(const server_host *host, mxw_task task, const upload_form *form, transcription_request *request,
                form_problem *problem);
void transcription_request_free(transcription_request *request);

#endif
