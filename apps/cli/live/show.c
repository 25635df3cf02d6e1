/* cli/live/show.c - which form an event takes, and the two that are not a page. */
#include "live/show.h"

#include <stdio.h>
#include <string.h>

#include "common/json_writer.h"
#include "common/stdout.h"
#include "live/page.h"
#include "transcribe/output/screen.h"

show_form show_choose(const live_options *o) {
    if (o->format && !o->output_dir)
        return !strcmp(o->format, "jsonl") ? SHOW_JSON : SHOW_LINES;
    if (o->output_dir && o->common.quiet)
        return SHOW_NOTHING;
    return page_possible() && !o->common.quiet ? SHOW_PAGE : SHOW_LINES;
}

void show_open(show *s, show_form form, sound_source *from, int real_time) {
    *s = (show){.form = form};
    if (form == SHOW_PAGE && !page_open(from, real_time))
        s->form = SHOW_LINES;
    if (s->form == SHOW_PAGE)
        page_note("listening; Ctrl-C ends");
}

/* ---- lines ---------------------------------------------------------------------------------------------- */

static void add_to_lines(show *s, const mxw_live_event *event) {
    if (event->kind == MXW_LIVE_FINAL)
        lines_add(&s->lines, event->text);
    if (event->kind == MXW_LIVE_SPEECH_STOPPED || event->kind == MXW_LIVE_END)
        lines_end(&s->lines);
}

/* ---- JSON ----------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"speech_started", "partial", "final", "speech_stopped",
                                         "slower",         "gap",     "end"};

static void print_word(json_writer *json, const mxw_word *word) {
    json_begin(json, NULL);
    json_text(json, "word", word->word);
    json_number(json, "start", word->start, 3);
    json_number(json, "end", word->end, 3);
    json_number(json, "probability", word->probability, 4);
    if (word->reasons) {
        json_number(json, "suspicion", word->suspicion, 4);
        json_list(json, "reasons");
        for (int bit = 0; bit < 32; bit++)
            if (word->reasons >> bit & 1 && mxw_suspicion_reason(bit))
                json_text(json, NULL, mxw_suspicion_reason(bit));
        json_end(json);
    }
    json_end(json);
}

static void print_words(json_writer *json, const mxw_live_event *event) {
    json_text(json, "text", event->text);
    json_number(json, "probability", event->probability, 4);
    json_text(json, "language", event->language);
    if (event->language_probability >= 0)
        json_number(json, "language_probability", event->language_probability, 4);
    json_list(json, "words");
    for (size_t i = 0; i < event->n_words; i++)
        print_word(json, mxw_live_event_word(event, i));
    json_end(json);
}

static void print_json(const show *s, const mxw_live_event *event) {
    json_writer json;
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_text(&json, "kind", (size_t)event->kind < sizeof(kind_names) / sizeof(*kind_names) ? kind_names[event->kind]
                                                                                          : "unknown");
    json_whole(&json, "utterance", event->utterance);
    json_number(&json, "start", event->start, 3);
    json_number(&json, "end", event->end, 3);
    if (event->kind == MXW_LIVE_PARTIAL || event->kind == MXW_LIVE_FINAL)
        print_words(&json, event);
    if (event->kind == MXW_LIVE_SLOWER)
        json_number(&json, "step_s", event->step_s, 3);
    if (event->kind == MXW_LIVE_GAP)
        json_text(&json, "cause", s->slow ? "slow" : "source");
    json_number(&json, "heard_s", event->heard_s, 3);
    json_number(&json, "ready_s", event->ready_s, 3);
    json_end(&json);
    out_flush();
}

/* ---- the page and the log ------------------------------------------------------------------------------- */

static void show_on_page(const mxw_live_event *event) {
    switch (event->kind) {
    case MXW_LIVE_PARTIAL:
        page_partial(event->text, event->end);
        break;
    case MXW_LIVE_FINAL:
        page_final(event->text, event->start, event->end);
        break;
    case MXW_LIVE_SPEECH_STOPPED:
    case MXW_LIVE_END:
        page_break();
        break;
    default:
        break;
    }
}

static void log_event(show *s, const mxw_live_event *event) {
    char time[40];
    screen_timestamp(time, sizeof(time), event->start);
    if (event->kind == MXW_LIVE_SLOWER)
        log_say(MXW_LOG_WARN, "this machine is too slow: text now comes every %.1f s", event->step_s);
    if (event->kind == MXW_LIVE_GAP)
        log_say(MXW_LOG_WARN, "%.1f s of sound are missing at %s: %s", event->end - event->start, time,
                s->slow ? "this machine is too slow" : "the source left them out");
    if (event->kind != MXW_LIVE_FINAL || s->language_told || !event->language || event->language_probability < 0)
        return;
    s->language_told = 1;
    for (int i = 0; mxw_language_code(i); i++)
        if (!strcmp(mxw_language_code(i), event->language))
            log_note("language detected: %s (probability %.2f)", mxw_language_name(i), event->language_probability);
}

void show_event(show *s, const mxw_live_event *event) {
    log_event(s, event);
    if (s->form == SHOW_PAGE)
        show_on_page(event);
    if (s->form == SHOW_LINES)
        add_to_lines(s, event);
    if (s->form == SHOW_JSON)
        print_json(s, event);
}

void show_rate(show *s, double at_s, int rate) {
    char time[40];
    screen_timestamp(time, sizeof(time), at_s);
    log_note("the source has another rate from %s on: %d Hz", time, rate);
    if (s->form != SHOW_JSON)
        return;
    json_writer json;
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_text(&json, "kind", "rate_changed");
    json_number(&json, "start", at_s, 3);
    json_number(&json, "end", at_s, 3);
    json_whole(&json, "rate", rate);
    json_end(&json);
    out_flush();
}

void show_close(show *s) {
    if (s->form == SHOW_PAGE)
        page_close();
    lines_end(&s->lines);
    lines_free(&s->lines);
    *s = (show){.form = SHOW_NOTHING};
}
