/* cli/transcribe/stats.c - a recording's figures as one line of JSON. */
#include "transcribe/stats.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/json_writer.h"
#include "common/model.h"

char *stats_line(const mxw_model *model, const char *path, const mxw_result *result, int n_resumed, size_t *length) {
    mxw_model_info info = {.struct_size = sizeof(info)};
    char *line = NULL;
    FILE *stream = open_memstream(&line, length);
    if (!stream || mxw_model_get_info(model, &info) < 0)
        return NULL;
    const mxw_stage_times *t = result->times;
    json_writer json;
    json_start(&json, stream, 0);
    json_begin(&json, NULL);
    json_text(&json, "file", path);
    json_text(&json, "model", info.checkpoint->size_name);
    json_text(&json, "engine", engine_names[info.engine]);
    json_text(&json, "device", info.device);
    json_text(&json, "precision", precision_names[info.precision]);
    json_whole(&json, "threads", info.threads);
    json_text(&json, "language", result->language);
    json_number(&json, "audio_s", result->duration_s, 3);
    json_whole(&json, "windows", result->n_windows);
    if (n_resumed >= 0)
        json_whole(&json, "windows_resumed", n_resumed);
    json_whole(&json, "segments", (int64_t)result->n_segments);
    json_whole(&json, "temperature_fallbacks", result->n_temperature_fallbacks);
    json_whole(&json, "fallbacks", 0);
    json_number(&json, "load_ms", t->load_ms, 3);
    json_number(&json, "compile_ms", t->compile_ms, 3);
    json_number(&json, "audio_ms", t->audio_ms, 3);
    json_number(&json, "mel_ms", t->mel_ms, 3);
    json_number(&json, "encode_ms", t->encode_ms, 3);
    json_number(&json, "decode_ms", t->decode_ms, 3);
    json_number(&json, "words_ms", t->words_ms, 3);
    if (result->regions) {
        json_number(&json, "vad_ms", t->vad_ms, 3);
        json_whole(&json, "regions", (int64_t)result->n_regions);
        json_number(&json, "skipped_s", result->skipped_s, 3);
        json_whole(&json, "words_suspected", result->n_words_suspected);
    }
    json_number(&json, "total_ms", t->total_ms, 3);
    json_whole(&json, "first_encode_ns", t->first_encode_ns);
    if (result->duration_s > 0)
        json_number(&json, "real_time_factor", t->total_ms / 1000 / result->duration_s, 5);
    json_end(&json);
    if (!fclose(stream))
        return line;
    free(line);
    return NULL;
}
