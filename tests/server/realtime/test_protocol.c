/* test_protocol.c - a session of the realtime protocol on an engine without a model: the order of events, what each
 * says, both dialects, every client event, errors after which the session goes on, an engine that fails. */
#include "kit/check.h"
#include "session_kit.h"

#define ERROR_AFTER(k, message, code_, param_)                                                                         \
    do {                                                                                                               \
        kit_send(k, message);                                                                                          \
        CHECK_STR(kit_get(k, "type"), "error");                                                                        \
        CHECK_STR(kit_get(k, "error.type"), "invalid_request_error");                                                  \
        CHECK_STR(kit_get(k, "error.code"), code_);                                                                    \
        CHECK_STR(kit_get(k, "error.param"), param_);                                                                  \
    } while (0)

#define UPDATE_INPUT(members) \
    "{'type':'session.update','session':{'type':'transcription','audio':{'input':{" members "}}}}"
#define MANUAL UPDATE_INPUT("'turn_detection':null")

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static void test_detected_turns(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    CHECK_STR(kit_lines(&k), "session.created\n");
    kit_be_silent(&k, 1);
    kit_speak(&k, 2.5);
    CHECK_STR(kit_lines(&k), "speech_started #1 700\n"
                             "delta #1 'word0'\n"
                             "delta #1 ' word1'\n");
    kit_be_silent(&k, 1);
    CHECK_STR(kit_lines(&k), "speech_stopped #1 4000\n"
                             "committed #1 after null\n"
                             "item.added #1 after null\n"
                             "item.done #1 after null\n"
                             "delta #1 ' end.'\n"
                             "completed #1 'word0 word1 end.'\n");
    CHECK_STR(kit_get(&k, "usage"), "{\"type\":\"duration\",\"seconds\":3.3}");
    CHECK_STR(kit_get(&k, "languages.0.code"), "en");
    CHECK_STR(kit_get(&k, "content_index"), "0");
    CHECK_STR(kit_get(&k, "logprobs"), "");
    kit_speak(&k, 0.5);
    kit_be_silent(&k, 1);
    CHECK_STR(kit_lines(&k), "speech_started #2 4200\n"
                             "speech_stopped #2 5500\n"
                             "committed #2 after #1\n"
                             "item.added #2 after #1\n"
                             "item.done #2 after #1\n"
                             "delta #2 'end.'\n"
                             "completed #2 'end.'\n");
    kit_speak(&k, 0.5);
    rt_session_finish(k.session);   /* the server ends */
    CHECK(strstr(kit_lines(&k), "completed #3 'end.'\n") != NULL);
    CHECK(kit_close(&k));
}

static void test_item(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_speak(&k, 0.5);
    kit_be_silent(&k, 1);
    size_t n = json_array_size(k.events);
    json_t *done = json_array_get(k.events, n - 3);
    json_t *want = json_pack("{s:s, s:s, s:s, s:s, s:s, s:[{s:s, s:n}]}", "id", k.items[0], "object", "realtime.item",
                             "type", "message", "status", "completed", "role", "user", "content", "type",
                             "input_audio", "transcript");
    CHECK(json_equal(json_object_get(done, "item"), want));
    json_decref(want);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            CHECK(!json_equal(json_object_get(json_array_get(k.events, i), "event_id"),
                              json_object_get(json_array_get(k.events, j), "event_id")));
    CHECK(kit_close(&k));
}

static void test_manual(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_send(&k, MANUAL);
    CHECK_STR(kit_lines(&k), "session.created\nsession.updated\n");
    kit_send(&k, "{'type':'input_audio_buffer.commit','event_id':'mine'}");
    CHECK_STR(kit_lines(&k), "error input_audio_buffer_commit_empty\n");
    CHECK_STR(kit_get(&k, "error.event_id"), "mine");
    kit_speak(&k, 1.5);   /* two utterances, one item; text comes while it is spoken */
    kit_be_silent(&k, 1);
    kit_speak(&k, 0.5);
    CHECK_STR(kit_lines(&k), "delta #1 'word0'\ndelta #1 ' end.'\n");
    kit_send(&k, "{'type':'input_audio_buffer.commit'}");
    CHECK_STR(kit_lines(&k), "committed #1 after null\n"
                             "item.added #1 after null\n"
                             "item.done #1 after null\n"
                             "delta #1 ' end.'\n"
                             "completed #1 'word0 end. end.'\n");
    CHECK_STR(kit_get(&k, "usage.seconds"), "3.0");
    kit_be_silent(&k, 0.1);   /* the least that there may be, and nothing in it */
    kit_send(&k, "{'type':'input_audio_buffer.commit'}");
    CHECK_STR(kit_lines(&k), "committed #2 after #1\n"
                             "item.added #2 after #1\n"
                             "item.done #2 after #1\n"
                             "completed #2 ''\n");
    CHECK_STR(kit_get(&k, "usage.seconds"), "0.1");
    CHECK(kit_close(&k));
}

static void test_commit_while_detecting(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_speak(&k, 0.4);
    kit_lines(&k);
    kit_send(&k, "{'type':'input_audio_buffer.commit'}");
    CHECK_STR(kit_lines(&k), "speech_stopped #1 400\n"
                             "committed #1 after null\n"
                             "item.added #1 after null\n"
                             "item.done #1 after null\n"
                             "delta #1 'end.'\n"
                             "completed #1 'end.'\n");
    kit_send(&k, "{'type':'input_audio_buffer.commit'}");
    CHECK_STR(kit_lines(&k), "error input_audio_buffer_commit_empty\n");
    kit_be_silent(&k, 0.3);
    kit_send(&k, "{'type':'input_audio_buffer.commit'}");
    CHECK_STR(kit_lines(&k), "committed #2 after #1\nitem.added #2 after #1\nitem.done #2 after #1\ncompleted #2 ''\n");
    CHECK(kit_close(&k));
}

static void test_clear(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_speak(&k, 1.2);
    kit_lines(&k);
    kit_send(&k, "{'type':'input_audio_buffer.clear'}");
    CHECK_STR(kit_lines(&k), "cleared\n");
    kit_send(&k, "{'type':'input_audio_buffer.commit'}");
    CHECK_STR(kit_lines(&k), "error input_audio_buffer_commit_empty\n");
    kit_be_silent(&k, 0.8);
    kit_speak(&k, 0.5);   /* another item, on the same clock */
    CHECK_STR(kit_lines(&k), "speech_started #2 1700\n");
    CHECK(kit_close(&k));
}

static void test_idle(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_send(&k, UPDATE_INPUT("'turn_detection':{'type':'server_vad','idle_timeout_ms':5000}"));
    kit_lines(&k);
    kit_be_silent(&k, 12);   /* once in a silence */
    CHECK_STR(kit_lines(&k), "timeout_triggered #1 0 5000\n"
                             "committed #1 after null\n"
                             "item.added #1 after null\n"
                             "item.done #1 after null\n"
                             "completed #1 ''\n");
    kit_speak(&k, 0.5);
    kit_be_silent(&k, 5);
    CHECK(strstr(kit_lines(&k), "timeout_triggered") == NULL);
    kit_be_silent(&k, 1);
    CHECK(strstr(kit_lines(&k), "timeout_triggered #3 13000 18000\n") != NULL);
    CHECK(kit_close(&k));
}

/* A whole sentence ends a turn after a short pause, half a one after a long one. */
static void test_semantic(void) {
    static const struct {
        const char *update;
        double enough_s, most_s;
    } cases[] = {{UPDATE_INPUT("'turn_detection':{'type':'semantic_vad','eagerness':'low'}"), 1.2, 8},
                 {UPDATE_INPUT("'turn_detection':{'type':'semantic_vad'}"), 0.7, 4},
                 {UPDATE_INPUT("'turn_detection':{'type':'semantic_vad','eagerness':'high'}"), 0.4, 2}};
    for (int unfinished = 0; unfinished < 2; unfinished++)
        for (int i = 0; i < 3; i++) {
            kit_session k;
            kit_open(&k, RT_GA, NULL);
            k.fake.quiet_word_s = unfinished;
            kit_send(&k, cases[i].update);
            kit_speak(&k, 0.5);
            kit_lines(&k);
            double wait_s = unfinished ? cases[i].most_s : cases[i].enough_s;
            kit_be_silent(&k, wait_s - 0.1);
            CHECK_STR(kit_lines(&k), "");
            kit_be_silent(&k, 0.3);
            CHECK(strstr(kit_lines(&k), "completed #1 'end.'\n") != NULL);
            CHECK(kit_close(&k));
        }
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void test_held_back(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_send(&k, UPDATE_INPUT("'transcription':{'delay':'xhigh'}"));
    CHECK_STR(kit_get(&k, "session.audio.input.transcription.delay"), "xhigh");
    kit_lines(&k);
    kit_speak(&k, 2.5);
    kit_be_silent(&k, 1);
    CHECK_STR(kit_lines(&k), "speech_started #1 0\n"
                             "speech_stopped #1 3000\n"
                             "committed #1 after null\n"
                             "item.added #1 after null\n"
                             "item.done #1 after null\n"
                             "delta #1 'word0 word1'\n"
                             "delta #1 ' end.'\n"
                             "completed #1 'word0 word1 end.'\n");
    CHECK(kit_close(&k));
}

static void test_logprobs(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_send(&k, "{'type':'session.update','session':{'include':['item.input_audio_transcription.logprobs']}}");
    CHECK_STR(kit_get(&k, "session.include.0"), "item.input_audio_transcription.logprobs");
    kit_speak(&k, 1.2);
    CHECK_STR(kit_get(&k, "logprobs"),
              "[{\"token\":\"word0\",\"logprob\":-0.693147,\"bytes\":[119,111,114,100,48]}]");
    kit_be_silent(&k, 1);
    CHECK_STR(kit_get(&k, "logprobs.1.token"), " end.");
    CHECK_STR(kit_get(&k, "logprobs.2"), "");
    CHECK(kit_close(&k));
}

/* Our own: what may still change, and words with the times of all audio. */
static void test_partials_and_words(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_speak(&k, 1.2);
    kit_be_silent(&k, 1);
    CHECK_STR(kit_get(&k, "words"), "");
    CHECK(!strstr(kit_lines(&k), "partial"));
    kit_send(&k, "{'type':'session.update','session':{'include':['max_whisper.words','max_whisper.partials']}}");
    CHECK_STR(kit_get(&k, "session.include"), "[\"max_whisper.partials\",\"max_whisper.words\"]");
    kit_speak(&k, 1.2);
    kit_be_silent(&k, 0.3);
    CHECK(strstr(kit_lines(&k), "max_whisper.partial #2"));
    CHECK_STR(kit_get(&k, "text"), " so.");
    kit_be_silent(&k, 1);
    CHECK_STR(kit_get(&k, "transcript"), "word0 end.");
    CHECK_STR(kit_get(&k, "words.0.word"), " word0");
    CHECK_STR(kit_get(&k, "words.1.word"), " end.");
    double start = atof(kit_get(&k, "words.0.start"));
    CHECK(start > 2 && start < 2.5);
    kit_send(&k, "{'type':'session.update','session':{'include':['max_whisper.nothing']}}");
    CHECK_STR(kit_get(&k, "error.param"), "session.include");
    CHECK(kit_close(&k));
}

static void test_no_transcription(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_send(&k, UPDATE_INPUT("'transcription':null"));
    CHECK_STR(kit_get(&k, "session.audio.input.transcription"), "null");
    kit_lines(&k);
    kit_speak(&k, 1.2);
    kit_be_silent(&k, 1);
    CHECK_STR(kit_lines(&k), "speech_started #1 0\n"
                             "speech_stopped #1 1700\n"
                             "committed #1 after null\n"
                             "item.added #1 after null\n"
                             "item.done #1 after null\n");
    CHECK(kit_close(&k));
}

/* ---- configuration ----------------------------------------------------------------------------------------------- */

static void test_created(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    CHECK_STR(kit_get(&k, "session.type"), "transcription");
    CHECK_STR(kit_get(&k, "session.object"), "realtime.transcription_session");
    CHECK(!strncmp(kit_get(&k, "session.id"), "sess_", 5));
    CHECK_STR(kit_get(&k, "session.audio"),
              "{\"input\":{\"format\":{\"type\":\"audio/pcm\",\"rate\":24000},\"transcription\":{\"model\":\"tiny\","
              "\"language\":null,\"prompt\":null},\"noise_reduction\":null,\"turn_detection\":{\"type\":\"server_vad\","
              "\"threshold\":0.5,\"prefix_padding_ms\":300,\"silence_duration_ms\":500,\"idle_timeout_ms\":null}}}");
    CHECK(kit_close(&k));
}

/* Absent: as it was. null: cleared. */
static void test_merge(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_send(&k, UPDATE_INPUT("'transcription':{'model':'whisper-1','language':'German','prompt':'Names: Ada.'},"
                              "'noise_reduction':{'type':'near_field','strength':0.5}"));
    CHECK_STR(kit_get(&k, "session.audio.input.transcription"),
              "{\"model\":\"whisper-1\",\"language\":\"de\",\"prompt\":\"Names: Ada.\"}");
    CHECK_STR(kit_get(&k, "session.audio.input.noise_reduction"), "null");   /* there is none */
    kit_send(&k, UPDATE_INPUT("'turn_detection':{'threshold':0.25}"));
    CHECK_STR(kit_get(&k, "session.audio.input.turn_detection.threshold"), "0.25");
    CHECK_STR(kit_get(&k, "session.audio.input.turn_detection.silence_duration_ms"), "500");
    CHECK_STR(kit_get(&k, "session.audio.input.transcription.language"), "de");
    kit_send(&k, UPDATE_INPUT("'turn_detection':{'silence_duration_ms':200},'transcription':{'language':null}"));
    CHECK_STR(kit_get(&k, "session.audio.input.turn_detection.threshold"), "0.25");
    CHECK_STR(kit_get(&k, "session.audio.input.transcription"),
              "{\"model\":\"whisper-1\",\"language\":null,\"prompt\":\"Names: Ada.\"}");
    kit_speak(&k, 0.2);   /* it is what the engine is opened with */
    CHECK(k.fake.opened.threshold == 0.25 && k.fake.opened.pause_ms == 200 && k.fake.opened.start_pad_ms == 300);
    CHECK_STR(k.fake.model, "whisper-1");
    CHECK_STR(k.fake.prompt, "Names: Ada.");
    kit_lines(&k);
    kit_send(&k, UPDATE_INPUT("'transcription':{'languages':['en','fr']}"));   /* ends what was being said */
    CHECK(strstr(kit_lines(&k), "completed #1 'end.'\nsession.updated\n") != NULL);
    CHECK_STR(kit_get(&k, "session.audio.input.transcription.languages"), "[\"en\",\"fr\"]");
    kit_send(&k, UPDATE_INPUT("'turn_detection':null,'transcription':{'language':'en'}"));
    CHECK_STR(kit_get(&k, "session.audio.input.turn_detection"), "null");
    CHECK_STR(kit_get(&k, "session.audio.input.transcription.languages"), "");
    kit_send(&k, UPDATE_INPUT("'turn_detection':{'type':'server_vad'}"));   /* starts with its defaults */
    CHECK_STR(kit_get(&k, "session.audio.input.turn_detection.threshold"), "0.5");
    CHECK(kit_close(&k));
}

/* Our own: a session that translates. Off by default, and then not even mentioned. */
static void test_task(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_speak(&k, 0.2);
    CHECK(!k.fake.opened.translates);
    kit_send(&k, UPDATE_INPUT("'transcription':{'language':'de','task':'translate'}"));   /* ends what was being said */
    CHECK_STR(kit_get(&k, "session.audio.input.transcription.task"), "translate");
    kit_speak(&k, 0.2);
    CHECK(k.fake.opened.translates);
    kit_send(&k, UPDATE_INPUT("'transcription':{'language':'fr'}"));   /* absent: as it was */
    CHECK_STR(kit_get(&k, "session.audio.input.transcription.task"), "translate");
    kit_send(&k, UPDATE_INPUT("'transcription':{'task':null}"));
    CHECK_STR(kit_get(&k, "session.audio.input.transcription.task"), "");
    kit_speak(&k, 0.2);
    CHECK(!k.fake.opened.translates);
    kit_send(&k, UPDATE_INPUT("'transcription':{'task':'translate'}"));
    kit_send(&k, UPDATE_INPUT("'transcription':{'task':'transcribe'}"));
    kit_speak(&k, 0.2);
    CHECK(!k.fake.opened.translates);
    CHECK(kit_close(&k));
}

static void test_refused_settings(void) {
#define IN "session.audio.input."
    static const struct {
        const char *members, *code, *param;
    } cases[] = {
        {"'format':{'type':'audio/mp3'}", "invalid_value", IN "format.type"},
        {"'format':{'type':'audio/pcm','rate':96000}", "invalid_value", IN "format.rate"},
        {"'format':{'rate':16001}", "invalid_value", IN "format.rate"},
        {"'format':{'type':'audio/pcmu','rate':16000}", "invalid_value", IN "format.rate"},
        {"'format':'pcm16'", "invalid_value", IN "format"},
        {"'transcription':{'model':'no-such-model'}", "model_not_found", IN "transcription.model"},
        {"'transcription':{'model':7}", "invalid_value", IN "transcription.model"},
        {"'transcription':{'language':'klingon'}", "invalid_value", IN "transcription.language"},
        {"'transcription':{'task':'summarize'}", "invalid_value", IN "transcription.task"},
        {"'transcription':{'languages':[]}", "invalid_value", IN "transcription.languages"},
        {"'transcription':{'languages':['en',5]}", "invalid_value", IN "transcription.languages"},
        {"'transcription':{'language':'en','languages':['de']}", "invalid_value", IN "transcription"},
        {"'transcription':{'keywords':['Ada']}", "unsupported_parameter", IN "transcription.keywords"},
        {"'transcription':{'delay':'long'}", "invalid_value", IN "transcription.delay"},
        {"'transcription':{'langage':'en'}", "unknown_parameter", IN "transcription.langage"},
        {"'transcription':[]", "invalid_value", IN "transcription"},
        {"'turn_detection':{'type':'none'}", "invalid_value", IN "turn_detection.type"},
        {"'turn_detection':{'threshold':1.5}", "invalid_value", IN "turn_detection.threshold"},
        {"'turn_detection':{'threshold':'0.5'}", "invalid_value", IN "turn_detection.threshold"},
        {"'turn_detection':{'prefix_padding_ms':-1}", "invalid_value", IN "turn_detection.prefix_padding_ms"},
        {"'turn_detection':{'silence_duration_ms':1e9}", "invalid_value", IN "turn_detection.silence_duration_ms"},
        {"'turn_detection':{'idle_timeout_ms':100}", "invalid_value", IN "turn_detection.idle_timeout_ms"},
        {"'turn_detection':{'eagerness':'low'}", "unknown_parameter", IN "turn_detection.eagerness"},
        {"'turn_detection':{'type':'semantic_vad','eagerness':'keen'}", "invalid_value", IN "turn_detection.eagerness"},
        {"'turn_detection':{'create_response':1}", "invalid_value", IN "turn_detection.create_response"},
        {"'turn_detection':true", "invalid_value", IN "turn_detection"},
        {"'noise_reduction':{'type':'hiss'}", "invalid_value", IN "noise_reduction.type"},
        {"'noise_reduction':{'typ':'far_field'}", "missing_required_parameter", IN "noise_reduction.type"},
        {"'noise_reduction':{'type':'far_field','strenght':0.5}", "unknown_parameter", IN "noise_reduction.strenght"},
        {"'noise_reduction':{'type':'far_field','strength':'much'}", "invalid_value", IN "noise_reduction.strength"},
        {"'voice':'alloy'", "unknown_parameter", IN "voice"},
    };
#undef IN
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char message[1000];
        snprintf(message, sizeof(message),
                 "{'type':'session.update','event_id':'e%zu','session':{'audio':{'input':{'turn_detection':null,%s}}}}",
                 i, cases[i].members);
        if (strstr(cases[i].members, "'turn_detection'"))
            snprintf(message, sizeof(message),
                     "{'type':'session.update','event_id':'e%zu','session':{'audio':{'input':{%s}}}}", i,
                     cases[i].members);
        ERROR_AFTER(&k, message, cases[i].code, cases[i].param);
        char event_id[20];
        snprintf(event_id, sizeof(event_id), "e%zu", i);
        CHECK_STR(kit_get(&k, "error.event_id"), event_id);
    }
    ERROR_AFTER(&k, "{'type':'session.update','session':{'type':'realtime'}}", "invalid_value", "session.type");
    ERROR_AFTER(&k, "{'type':'session.update','session':{'include':['x']}}", "invalid_value", "session.include");
    ERROR_AFTER(&k, "{'type':'session.update','session':{'model':'x'}}", "unknown_parameter", "session.model");
    ERROR_AFTER(&k, "{'type':'session.update','session':5}", "invalid_value", "session");
    ERROR_AFTER(&k, "{'type':'session.update'}", "missing_required_parameter", "session");
    kit_send(&k, "{'type':'session.update','session':{}}");   /* nothing of all that was taken */
    CHECK_STR(kit_get(&k, "session.audio.input.turn_detection.type"), "server_vad");
    kit_send(&k, MANUAL);
    ERROR_AFTER(&k, UPDATE_INPUT("'turn_detection':{'threshold':0.5}"), "missing_required_parameter",
                "session.audio.input.turn_detection.type");
    CHECK(kit_close(&k));
}

static void test_beta(void) {
    kit_session k;
    kit_open(&k, RT_BETA, NULL);
    CHECK_STR(kit_lines(&k), "transcription_session.created\n");
    CHECK_STR(kit_get(&k, "session.input_audio_format"), "pcm16");
    kit_send(&k, "{'type':'transcription_session.update','session':{'input_audio_format':'pcm16',"
                 "'input_audio_transcription':{'model':'whisper-1','language':'en'},'input_audio_noise_reduction':null,"
                 "'turn_detection':{'type':'server_vad','silence_duration_ms':300}}}");
    CHECK_STR(kit_lines(&k), "transcription_session.updated\n");
    CHECK_STR(kit_get(&k, "session.input_audio_transcription.language"), "en");
    CHECK_STR(kit_get(&k, "session.turn_detection.silence_duration_ms"), "300");
    kit_speak(&k, 0.5);
    kit_be_silent(&k, 1);
    CHECK_STR(kit_lines(&k), "speech_started #1 0\n"
                             "speech_stopped #1 800\n"
                             "committed #1 after null\n"
                             "item.created #1 after null\n"
                             "delta #1 'end.'\n"
                             "completed #1 'end.'\n");
    ERROR_AFTER(&k, "{'type':'transcription_session.update','session':{'input_audio_format':'opus'}}", "invalid_value",
                "session.input_audio_format");
    CHECK(kit_close(&k));
    kit_open(&k, RT_GA, NULL);   /* a client that speaks the old dialect without having said so */
    kit_send(&k, "{'type':'transcription_session.update','session':{'input_audio_format':'g711_ulaw'}}");
    CHECK_STR(kit_lines(&k), "session.created\ntranscription_session.updated\n");
    CHECK_STR(kit_get(&k, "session.input_audio_format"), "g711_ulaw");
    CHECK(kit_close(&k));
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

static void test_bad_messages(void) {
    static const char *const unsupported[] = {"response.create", "response.cancel", "conversation.item.create",
                                              "conversation.item.delete", "conversation.item.retrieve",
                                              "conversation.item.truncate", "output_audio_buffer.clear"};
    kit_session k;
    char message[400];
    kit_open(&k, RT_GA, NULL);
    ERROR_AFTER(&k, "", "invalid_json", "null");
    ERROR_AFTER(&k, "{", "invalid_json", "null");
    ERROR_AFTER(&k, "{'type':'a','type':'b'}", "invalid_json", "null");
    ERROR_AFTER(&k, "\xc3\xa9\xff{", "invalid_json", "null");
    ERROR_AFTER(&k, "[]", "missing_required_parameter", "type");
    ERROR_AFTER(&k, "{'type':5}", "missing_required_parameter", "type");
    ERROR_AFTER(&k, "{'type':'hello','event_id':'x'}", "invalid_value", "type");
    CHECK_STR(kit_get(&k, "error.event_id"), "x");
    for (size_t i = 0; i < sizeof(unsupported) / sizeof(*unsupported); i++) {
        snprintf(message, sizeof(message), "{'type':'%s'}", unsupported[i]);
        ERROR_AFTER(&k, message, "unsupported_event", "type");
        CHECK_STR(kit_get(&k, "error.event_id"), "null");
    }
    ERROR_AFTER(&k, "{'type':'input_audio_buffer.append'}", "missing_required_parameter", "audio");
    ERROR_AFTER(&k, "{'type':'input_audio_buffer.append','audio':[1]}", "invalid_type", "audio");
    ERROR_AFTER(&k, "{'type':'input_audio_buffer.append','audio':'abc'}", "invalid_value", "audio");
    ERROR_AFTER(&k, "{'type':'input_audio_buffer.append','audio':'ab!='}", "invalid_value", "audio");
    kit_lines(&k);
    kit_send(&k, "{'type':'input_audio_buffer.append','audio':''}");
    CHECK_STR(kit_lines(&k), "");
    kit_speak(&k, 1.2);   /* it goes on */
    CHECK_STR(kit_lines(&k), "speech_started #1 0\ndelta #1 'word0'\n");
    CHECK(kit_close(&k));
}

static void test_too_much(void) {
    static const char head[] = "{\"type\":\"input_audio_buffer.append\",\"audio\":\"";
    size_t n = (size_t)(RT_AUDIO_MOST / 3 + 2) * 4;
    char *message = malloc(sizeof(head) + n + 3);
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    memcpy(message, head, sizeof(head));
    memset(message + sizeof(head) - 1, 'A', n);
    memcpy(message + sizeof(head) - 1 + n, "\"}", 3);
    rt_session_take(k.session, message, strlen(message));
    CHECK_STR(kit_get(&k, "error.code"), "string_above_max_length");
    memcpy(message + sizeof(head) - 1 + n - 8, "\"}", 3);   /* 15 MiB: more than five minutes of silence */
    rt_session_take(k.session, message, strlen(message));
    rt_session_work(k.session);
    CHECK(rt_session_audio_s(k.session) > 327 && k.fake.n_opened == 1);
    free(message);
    CHECK(kit_close(&k));
}

static void test_failures(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    k.fake.fail_open = MXW_E_ARGUMENT;   /* a language that the model does not have */
    kit_lines(&k);
    kit_speak(&k, 1);
    CHECK_STR(kit_lines(&k), "error invalid_value\n");   /* said once */
    CHECK_STR(kit_get(&k, "error.param"), "session.audio.input.transcription");
    kit_send(&k, "{'type':'input_audio_buffer.commit'}");
    CHECK_STR(kit_lines(&k), "committed #1 after null\nitem.added #1 after null\nitem.done #1 after null\n"
                             "failed #1 invalid_value\n");
    k.fake.fail_open = MXW_OK;
    kit_send(&k, UPDATE_INPUT("'transcription':{'language':'en'}"));
    kit_speak(&k, 0.5);
    CHECK_STR(kit_lines(&k), "session.updated\nspeech_started #2 1000\n");
    k.fake.fail_feed = MXW_E_MEMORY;
    kit_speak(&k, 0.1);
    CHECK_STR(kit_lines(&k), "error transcription_failed\n");
    CHECK_STR(kit_get(&k, "error.type"), "server_error");
    k.fake.fail_feed = MXW_OK;
    kit_send(&k, MANUAL);
    kit_speak(&k, 0.5);
    k.fake.fail_next = MXW_E_DEVICE;
    kit_lines(&k);
    kit_send(&k, "{'type':'input_audio_buffer.commit'}");
    CHECK_STR(kit_lines(&k), "error transcription_failed\n"
                             "committed #3 after #1\nitem.added #3 after #1\nitem.done #3 after #1\n"
                             "failed #3 transcription_failed\n");
    k.fake.fail_next = MXW_E_ABORTED;   /* the socket is gone: nobody is told */
    kit_speak(&k, 0.2);
    CHECK_STR(kit_lines(&k), "");
    CHECK(rt_session_is_broken(k.session));
    CHECK(kit_close(&k));
}

/* What was ready when a stream failed is told before that. */
static void test_ready_before_failure(void) {
    kit_session k;
    kit_open(&k, RT_GA, NULL);
    kit_speak(&k, 0.5);
    kit_be_silent(&k, 0.49);
    kit_lines(&k);
    k.fake.fail_feed = MXW_E_MEMORY;
    kit_be_silent(&k, 0.1);   /* the pause is long enough in the samples that fail */
    CHECK_STR(kit_lines(&k), "speech_stopped #1 1000\ncommitted #1 after null\nitem.added #1 after null\n"
                             "item.done #1 after null\ndelta #1 'end.'\ncompleted #1 'end.'\n"
                             "error transcription_failed\n");
    CHECK(kit_close(&k));
}

int main(void) {
    test_detected_turns();
    test_item();
    test_manual();
    test_commit_while_detecting();
    test_clear();
    test_idle();
    test_semantic();
    test_held_back();
    test_logprobs();
    test_partials_and_words();
    test_no_transcription();
    test_created();
    test_merge();
    test_task();
    test_refused_settings();
    test_beta();
    test_bad_messages();
    test_too_much();
    test_failures();
    test_ready_before_failure();
    return check_done();
}
