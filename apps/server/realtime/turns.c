/* realtime/turns.c - what the engine says, as items of the conversation: speech that starts and stops, what was
 * committed, text that grows and is complete. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "realtime/session.h"

#define TRANSCRIPTION "conversation.item.input_audio_transcription."
#define MANUAL_PAD_MS 400

static json_int_t to_ms(double seconds) { return (json_int_t)llrint(seconds * 1000); }

/* ---- the item ---------------------------------------------------------------------------------------------------- */

void rt_turn_forget(rt_session *s) {
    free(s->turn.text);
    json_decref(s->turn.logprobs);
    json_decref(s->turn.words);
    s->turn = (rt_turn){0};
}

static void open_turn(rt_session *s, double start_s) {
    if (s->turn.is_open)
        return;
    rt_turn_forget(s);
    rt_new_id(s, "item_", s->turn.id);
    s->turn.is_open = 1;
    s->turn.start_s = start_s;
}

static json_t *item_json(const rt_turn *turn) {
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:[{s:s, s:n}]}", "id", turn->id, "object", "realtime.item", "type",
                     "message", "status", "completed", "role", "user", "content", "type", "input_audio", "transcript");
}

static void send_item(rt_session *s, const char *type) {
    rt_send(s, type, json_pack("{s:s?, s:o}", "previous_item_id", *s->last_item ? s->last_item : NULL, "item",
                               item_json(&s->turn)));
}

/* From now on the item belongs to the conversation. */
static void commit_turn(rt_session *s) {
    rt_turn *turn = &s->turn;
    turn->is_committed = 1;
    rt_send(s, "input_audio_buffer.committed",
            json_pack("{s:s?, s:s}", "previous_item_id", *s->last_item ? s->last_item : NULL, "item_id", turn->id));
    if (s->dialect == RT_GA) {
        send_item(s, "conversation.item.added");
        send_item(s, "conversation.item.done");
    } else {
        send_item(s, "conversation.item.created");
    }
    memcpy(s->last_item, turn->id, sizeof(s->last_item));
    s->buffer_s = fmax(turn->end_s, s->buffer_s);
}

/* ---- its text ---------------------------------------------------------------------------------------------------- */

static json_t *logprob_of(const char *word, double probability) {
    json_t *bytes = json_array();
    for (const char *c = word; *c; c++)
        json_array_append_new(bytes, json_integer((unsigned char)*c));
    return json_pack("{s:s, s:f, s:o}", "token", word, "logprob", log(fmax(probability, 1e-9)), "bytes", bytes);
}

/* The words as the deltas have them: the first of an item without the space before it. */
static void add_logprobs(rt_session *s, const mxw_live_event *event, size_t skip) {
    rt_turn *turn = &s->turn;
    if (!s->config.logprobs)
        return;
    if (!turn->logprobs)
        turn->logprobs = json_array();
    for (size_t i = 0; i < event->n_words; i++) {
        const mxw_word *word = mxw_live_event_word(event, i);
        size_t n = strlen(word->word), skipped = skip < n ? skip : n;
        skip -= skipped;
        if (skipped < n || n == 0)
            json_array_append_new(turn->logprobs, logprob_of(word->word + skipped, word->probability));
    }
}

static double to_s(const rt_session *s, double stream_s) { return rint((s->stream_s + stream_s) * 1000) / 1000; }

/* As those of transcriptions; times count all audio, as everywhere here. */
static void add_words(rt_session *s, const mxw_live_event *event) {
    if (!s->config.words)
        return;
    if (!s->turn.words)
        s->turn.words = json_array();
    for (size_t i = 0; i < event->n_words; i++) {
        const mxw_word *word = mxw_live_event_word(event, i);
        json_array_append_new(s->turn.words, json_pack("{s:s, s:f, s:f, s:f}", "word", word->word, "start",
                                                       to_s(s, word->start), "end", to_s(s, word->end), "probability",
                                                       word->probability));
    }
}

static void add_text(rt_session *s, const mxw_live_event *event) {
    rt_turn *turn = &s->turn;
    size_t skip = turn->n == 0 ? strspn(event->text, " \t\n") : 0, n = strlen(event->text + skip);
    if (turn->n + n + 1 > turn->room) {
        size_t room = 2 * (turn->n + n) + 64;
        char *text = realloc(turn->text, room);
        if (!text) {
            s->is_broken = 1;
            return;
        }
        turn->text = text;
        turn->room = room;
    }
    memcpy(turn->text + turn->n, event->text + skip, n + 1);
    turn->n += n;
    add_logprobs(s, event, skip);
    add_words(s, event);
    if (event->language) {
        size_t length = strnlen(event->language, sizeof(turn->language) - 1);
        memcpy(turn->language, event->language, length);
        turn->language[length] = 0;
    }
}

/* What was said and not sent yet, as a delta. */
static void send_delta(rt_session *s) {
    rt_turn *turn = &s->turn;
    if (turn->n_sent == turn->n || (s->config.delay == RT_XHIGH && !turn->is_committed))
        return;
    json_t *fields = json_pack("{s:s, s:i, s:s}", "item_id", turn->id, "content_index", 0, "delta",
                               turn->text + turn->n_sent);
    if (s->config.logprobs && turn->logprobs) {
        json_t *array = json_array();
        for (; turn->n_logprobs_sent < json_array_size(turn->logprobs); turn->n_logprobs_sent++)
            json_array_append(array, json_array_get(turn->logprobs, turn->n_logprobs_sent));
        json_object_set_new(fields, "logprobs", array);
    }
    turn->n_sent = turn->n;
    rt_send(s, TRANSCRIPTION "delta", fields);
}

static void complete_turn(rt_session *s) {
    rt_turn *turn = &s->turn;
    if (s->config.transcribes) {
        send_delta(s);
        json_t *fields = json_pack("{s:s, s:i, s:s, s:{s:s, s:f}}", "item_id", turn->id, "content_index", 0,
                                   "transcript", turn->text ? turn->text : "", "usage", "type", "duration", "seconds",
                                   fmax(rint((turn->end_s - turn->start_s) * 1000) / 1000, 0));
        if (s->config.logprobs)
            json_object_set_new(fields, "logprobs", turn->logprobs ? json_incref(turn->logprobs) : json_array());
        if (s->config.words)
            json_object_set_new(fields, "words", turn->words ? json_incref(turn->words) : json_array());
        if (*turn->language)
            json_object_set_new(fields, "languages", json_pack("[{s:s}]", "code", turn->language));
        rt_send(s, TRANSCRIPTION "completed", fields);
    }
    rt_turn_forget(s);
}

/* ---- the engine's events ----------------------------------------------------------------------------------------- */

static double start_pad_s(const rt_session *s) {
    return (s->config.turns == RT_SERVER_VAD ? s->config.prefix_ms : MANUAL_PAD_MS) / 1000.0;
}

static void note_sentence(rt_session *s, const char *text) {
    static const char *const ends[] = {".", "?", "!", "。", "？", "！"};
    size_t n = strlen(text);
    if (n == 0)
        return;
    s->ends_sentence = 0;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
        if (n >= strlen(ends[i]) && !strcmp(text + n - strlen(ends[i]), ends[i]))
            s->ends_sentence = n < 2 || strcmp(text + n - 2, "..") != 0;
}

static void on_started(rt_session *s, const mxw_live_event *e) {
    double at = s->stream_s + e->start;
    s->is_speaking = 1;
    s->ends_sentence = 0;
    s->idle_since_s = -1;
    if (s->config.turns == RT_MANUAL) {
        open_turn(s, s->buffer_s);
        return;
    }
    s->is_lost = 0;
    open_turn(s, fmax(fmax(at - start_pad_s(s), s->stream_s), s->buffer_s));
    rt_send(s, "input_audio_buffer.speech_started",
            json_pack("{s:I, s:s}", "audio_start_ms", to_ms(s->turn.start_s), "item_id", s->turn.id));
}

/* The silence that ended it belongs to it, as far as it was heard. */
static void on_ended(rt_session *s, const mxw_live_event *e) {
    if (s->config.turns == RT_MANUAL)
        return;
    double silence_s = s->config.turns == RT_SERVER_VAD ? s->config.silence_ms / 1000.0 : 0;
    s->turn.end_s = s->stream_s + fmin(e->end + silence_s, e->heard_s);
    rt_send(s, "input_audio_buffer.speech_stopped",
            json_pack("{s:I, s:s}", "audio_end_ms", to_ms(s->turn.end_s), "item_id", s->turn.id));
    commit_turn(s);
    if (s->config.transcribes)
        send_delta(s);   /* what was held back */
}

static void on_final(rt_session *s, const mxw_live_event *e) {
    open_turn(s, s->buffer_s);
    note_sentence(s, e->text);
    if (!s->config.transcribes)
        return;
    add_text(s, e);
    send_delta(s);
}

/* An extension: what may have been said after the text so far, in place of the last partial. */
static void on_partial(rt_session *s, const mxw_live_event *e) {
    note_sentence(s, e->text);
    if (s->config.partials && s->config.transcribes && s->turn.is_open)
        rt_send(s, "max_whisper.partial", json_pack("{s:s, s:s}", "item_id", s->turn.id, "text", e->text));
}

static void on_stopped(rt_session *s) {
    s->is_speaking = 0;
    if (s->config.turns == RT_MANUAL)
        return;
    s->idle_since_s = s->turn.end_s;
    complete_turn(s);
}

static void take_event(rt_session *s, const mxw_live_event *e) {
    switch (e->kind) {
    case MXW_LIVE_SPEECH_STARTED: on_started(s, e); break;
    case MXW_LIVE_SPEECH_ENDED: on_ended(s, e); break;
    case MXW_LIVE_FINAL: on_final(s, e); break;
    case MXW_LIVE_PARTIAL: on_partial(s, e); break;
    case MXW_LIVE_SPEECH_STOPPED: on_stopped(s); break;
    default: break;   /* slower, gap, end: the protocol has no words for them */
    }
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void engine_problem(rt_problem *p, mxw_status status) {
    int refused = status == MXW_E_ARGUMENT || status == MXW_E_UNSUPPORTED;
    int is_missing = status == MXW_E_NOT_FOUND;
    rt_problem_set(p, refused ? "invalid_value" : is_missing ? "model_not_found" : "transcription_failed",
                   refused || is_missing ? "session.audio.input.transcription" : "", "%s", mxw_last_error());
    if (!refused && !is_missing)
        p->type = "server_error";
}

/* An item that was committed fails; without one the client hears of it all the same. */
static void tell_failure(rt_session *s, const rt_problem *problem) {
    if (s->turn.is_committed && s->config.transcribes)
        rt_send(s, TRANSCRIPTION "failed",
                json_pack("{s:s, s:i, s:o}", "item_id", s->turn.id, "content_index", 0, "error",
                          rt_problem_json(problem)));
    else
        rt_send_error(s, problem, NULL);
}

static void fail(rt_session *s, mxw_status status) {
    rt_problem problem;
    engine_problem(&problem, status);
    if (status == MXW_E_ABORTED)
        s->is_broken = 1;
    else
        tell_failure(s, &problem);
    s->failure = problem;
    s->is_lost = !s->turn.is_committed;
    rt_drop_stream(s);
}

void rt_drop_stream(rt_session *s) {
    if (s->stream)
        s->options.engine->close(s->stream);
    s->stream = NULL;
    s->is_speaking = 0;
    rt_turn_forget(s);
}

static void open_stream(rt_session *s) {
    static const double margins[] = {300, 600, 1000, 2000, 1000, 1000};
    static const double longest[] = {8000, 4000, 2000, 4000};
    const rt_config *c = &s->config;
    rt_stream_options o = {.model = c->model,
                           .language = *c->language ? c->language : NULL,
                           .languages = *c->languages ? c->languages : NULL,
                           .prompt = *c->prompt ? c->prompt : NULL,
                           .translates = c->translates,
                           .threshold = c->turns == RT_SERVER_VAD ? c->threshold : 0.5,
                           .start_pad_ms = start_pad_s(s) * 1000,
                           .pause_ms = c->turns == RT_SERVER_VAD     ? c->silence_ms
                                       : c->turns == RT_SEMANTIC_VAD ? longest[c->eagerness]
                                                                     : 500,
                           .margin_ms = margins[c->delay]};
    mxw_status status = s->options.engine->open(s->options.engine->context, &o, &s->stream);
    if (status < 0) {
        s->stream = NULL;
        s->ears = RT_DEAF;
        fail(s, status);
    }
    s->stream_s = (double)s->fed / MXW_SAMPLE_RATE;
}

/* Everything that is ready; then the failure, if the stream has one: `status`, or what its events end with. */
static void drain(rt_session *s, mxw_status status) {
    const mxw_live_event *event;
    mxw_status next = MXW_OK;
    while (s->stream && !s->is_broken && (next = s->options.engine->next(s->stream, &event)) == MXW_OK)
        take_event(s, event);
    if (s->stream && (status < 0 || next < 0))
        fail(s, status < 0 ? status : next);
}

void rt_hear(rt_session *s, const float *samples, size_t n) {
    if (!s->stream && s->ears == RT_HEARS)
        open_stream(s);
    s->fed += (int64_t)n;
    if (!s->stream)
        return;
    mxw_status status = s->options.engine->feed(s->stream, samples, n);
    if (status < 0) {
        s->ears = RT_MISSES_REST;
        drain(s, status);
    }
}

void rt_drain(rt_session *s) { drain(s, MXW_OK); }

/* Text of a buffer that is committed later stays in its turn. */
void rt_end_stream(rt_session *s) {
    if (!s->stream)
        return;
    drain(s, s->options.engine->finish(s->stream));
    if (s->stream)
        s->options.engine->close(s->stream);
    s->stream = NULL;
    s->is_speaking = 0;
}

/* ---- ends that are not the engine's ------------------------------------------------------------------------------ */

static void flush(rt_session *s) {
    drain(s, s->stream ? s->options.engine->flush(s->stream) : MXW_OK);
}

/* An item of which not everything was heard has failed. */
static void end_committed(rt_session *s) {
    if ((s->is_lost || s->ears == RT_DEAF) && s->config.transcribes) {
        tell_failure(s, &s->failure);
        rt_turn_forget(s);
    } else {
        complete_turn(s);
    }
    s->is_lost = 0;
}

/* With speech detection the utterance that goes on becomes the item; if none does, one without words. */
static void commit_detected(rt_session *s) {
    char last[RT_ID_SIZE];
    memcpy(last, s->last_item, sizeof(last));
    flush(s);
    if (strcmp(last, s->last_item) == 0 && !s->is_broken) {
        open_turn(s, s->buffer_s);
        s->turn.end_s = s->appended_s;
        commit_turn(s);
        end_committed(s);
    }
    s->buffer_s = s->appended_s;
}

void rt_commit(rt_session *s) {
    if (s->config.turns != RT_MANUAL) {
        commit_detected(s);
        return;
    }
    open_turn(s, s->buffer_s);
    s->turn.end_s = s->appended_s;
    commit_turn(s);
    s->buffer_s = s->appended_s;
    flush(s);
    if (s->turn.is_open)   /* else it has failed */
        end_committed(s);
}

void rt_check_idle(rt_session *s) {
    if (s->config.turns != RT_SERVER_VAD || !s->config.idle_ms || s->is_speaking || s->idle_since_s < 0 ||
        (s->appended_s - s->idle_since_s) * 1000 < s->config.idle_ms - 1e-6)
        return;
    open_turn(s, s->idle_since_s);
    s->turn.end_s = s->appended_s;
    rt_send(s, "input_audio_buffer.timeout_triggered",
            json_pack("{s:I, s:I, s:s}", "audio_start_ms", to_ms(s->turn.start_s), "audio_end_ms",
                      to_ms(s->turn.end_s), "item_id", s->turn.id));
    commit_turn(s);
    complete_turn(s);
    s->idle_since_s = -1;
}

/* A pause after a whole sentence ends the turn sooner than one after half of one. */
void rt_check_sentence(rt_session *s) {
    static const double enough_s[] = {1.2, 0.7, 0.4, 0.7};
    if (s->config.turns == RT_SEMANTIC_VAD && s->stream && s->is_speaking && s->ends_sentence &&
        s->options.engine->silence_s(s->stream) >= enough_s[s->config.eagerness])
        flush(s);
}
