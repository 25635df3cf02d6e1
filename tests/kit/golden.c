/* tests/kit/golden.c - golden files, clips and models for the golden tests; see golden.h. */
#include "kit/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audio/audio.h"
#include "base/sha256.h"

static void die(const char *what, const char *name) {
    printf("golden: %s: %s\n", name, what);
    exit(1);
}

static const char *source_root(void) {
    const char *root = getenv("MXW_SOURCE_ROOT");
    if (!root) {
        printf("SKIP: golden: MXW_SOURCE_ROOT is not set\n");
        exit(GOLDEN_SKIP);
    }
    return root;
}

/* ---- golden files -------------------------------------------------------------------------------- */

char *golden_text(const char *name) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/tests/golden/data/%s", source_root(), name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *text = NULL;
    size_t n = 0, capacity = 0;
    for (;;) {
        if (capacity - n < 65537) {
            capacity = 2 * capacity + 131072;
            text = realloc(text, capacity);
            if (!text)
                die("out of memory", name);
        }
        size_t got = fread(text + n, 1, 65536, file);
        n += got;
        if (got == 0)
            break;
    }
    fclose(file);
    text[n] = 0;
    return text;
}

json_t *golden_rows(const char *name) {
    char *text = golden_text(name);
    if (!text)
        die("no such golden file", name);
    json_t *rows = json_array();
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        if (!end)
            die("its last line is cut off", name);
        *end = 0;
        json_error_t error;
        json_t *row = json_loads(line, JSON_ALLOW_NUL, &error);
        if (!row || !json_is_object(row))
            die(row ? "a row is not an object" : error.text, name);
        json_array_append_new(rows, row);
        line = end + 1;
    }
    free(text);
    if (json_array_size(rows) == 0)
        die("empty", name);
    return rows;
}

static const json_t *field(const json_t *row, const char *key, int ok_type) {
    const json_t *value = json_object_get(row, key);
    int type = value ? (int)json_typeof(value) : -1;
    if (type == JSON_INTEGER && ok_type == JSON_REAL)
        type = JSON_REAL;
    if (type != ok_type)
        die("missing in a golden row, or of another type", key);
    return value;
}

double golden_number(const json_t *row, const char *key) { return json_number_value(field(row, key, JSON_REAL)); }

int64_t golden_integer(const json_t *row, const char *key) { return json_integer_value(field(row, key, JSON_INTEGER)); }

const char *golden_string(const json_t *row, const char *key) {
    return json_string_value(field(row, key, JSON_STRING));
}

const json_t *golden_array(const json_t *row, const char *key) { return field(row, key, JSON_ARRAY); }

int32_t *golden_tokens(const json_t *row, const char *key, size_t *n) {
    const json_t *array = golden_array(row, key);
    *n = json_array_size(array);
    int32_t *tokens = malloc((*n + 1) * sizeof(*tokens));
    if (!tokens)
        die("out of memory", key);
    for (size_t i = 0; i < *n; i++)
        tokens[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return tokens;
}

/* ---- clips --------------------------------------------------------------------------------------- */

static const char *existing(char *path) { return access(path, R_OK) == 0 ? path : NULL; }

const char *golden_clip_path(const char *clip, char *path, size_t n) {
    const char *kept = "package:pocketsphinx-", *package = "package:";
    if (strncmp(clip, kept, strlen(kept)) == 0) {
        snprintf(path, n, "%s/tests/data/%s.wav", source_root(), clip + strlen(kept));
        if (existing(path))
            return path;
    }
    if (strncmp(clip, package, strlen(package)) != 0) {
        snprintf(path, n, "%s/../shared/data/%s", source_root(), clip);
        return existing(path);
    }
    const char *folder = getenv("MAX_WHISPER_SPEECH"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *name = clip + strlen(package);
    if (folder && *folder)
        snprintf(path, n, "%s/%s.wav", folder, name);
    else if (cache && *cache)
        snprintf(path, n, "%s/max-whisper/speech/%s.wav", cache, name);
    else
        snprintf(path, n, "%s/.cache/max-whisper/speech/%s.wav", home ? home : "", name);
    return existing(path);
}

static void take_sha256(golden_clip *clip) {
    mx_sha256 state;
    mx_sha256_start(&state);
    for (size_t i = 0; i < clip->n; i++) {
        uint16_t bits = (uint16_t)(int16_t)lrintf(clip->samples[i] * 32768.0f);
        uint8_t bytes[2] = {(uint8_t)(bits & 255), (uint8_t)(bits >> 8)};
        mx_sha256_add(&state, bytes, 2);
    }
    mx_sha256_hex(&state, clip->sha256);
}

int golden_clip_read(const char *path, golden_clip *clip) {
    mx_audio *audio = NULL;
    size_t capacity = 0, got = 0;
    memset(clip, 0, sizeof(*clip));
    mxw_status status = mx_audio_open(&(mx_audio_source){.path = path}, &audio);
    while (status >= 0) {
        if (capacity - clip->n < 65536) {
            capacity = 2 * capacity + 1048576;
            clip->samples = realloc(clip->samples, capacity * sizeof(float));
            if (!clip->samples)
                die("out of memory", path);
        }
        status = mx_audio_read(audio, clip->samples + clip->n, 65536, &got);
        if (status < 0 || got == 0)
            break;
        clip->n += got;
    }
    mx_audio_close(audio);
    if (status < 0) {
        printf("    cannot be read: %s\n", mxw_last_error());
        golden_clip_free(clip);
        return -1;
    }
    take_sha256(clip);
    return 0;
}

void golden_clip_free(golden_clip *clip) {
    free(clip->samples);
    memset(clip, 0, sizeof(*clip));
}

int golden_clip_matches(const golden_clip *clip, const json_t *row) {
    int64_t n = golden_integer(row, "samples");
    if ((int64_t)clip->n == n && strcmp(clip->sha256, golden_string(row, "sha256")) == 0)
        return 1;
    printf("    %zu samples, the reference had %lld; the bytes differ (another FFmpeg?)\n", clip->n, (long long)n);
    return 0;
}

uint8_t *golden_bytes(const json_t *row, const char *key, size_t *n) {
    const char *text = golden_string(row, key);
    *n = strlen(text) / 2;
    uint8_t *bytes = malloc(*n + 1);
    if (!bytes)
        die("no memory", key);
    for (size_t i = 0; i < *n; i++) {
        unsigned value = 0;
        if (sscanf(text + 2 * i, "%2x", &value) != 1)
            die("not hexadecimal", key);
        bytes[i] = (uint8_t)value;
    }
    return bytes;
}
