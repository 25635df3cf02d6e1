/* cli/speech/hearing.c - see hearing.h. */
#include "speech/hearing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_writer.h"
#include "transcribe/output/outputs.h"
#include "transcribe/output/screen.h"

const char *const hearing_format_names[] = {"text", "json", "rttm", "audacity", NULL};

/* ---- collecting ----------------------------------------------------------------------------------------- */

int hearing_add(hearing *h, const hearing_region *region) {
    if (h->n_regions == h->region_room) {
        size_t room = 2 * h->region_room + 64;
        hearing_region *grown = realloc(h->regions, room * sizeof(*grown));
        if (!grown)
            return 0;
        h->regions = grown;
        h->region_room = room;
    }
    h->regions[h->n_regions++] = *region;
    return 1;
}

int hearing_add_probabilities(hearing *h, const float *values, size_t n) {
    if (h->n_probabilities + n > h->probability_room) {
        size_t room = 2 * (h->n_probabilities + n) + 64;
        float *grown = realloc(h->probabilities, room * sizeof(*grown));
        if (!grown)
            return 0;
        h->probabilities = grown;
        h->probability_room = room;
    }
    memcpy(h->probabilities + h->n_probabilities, values, n * sizeof(*values));
    h->n_probabilities += n;
    return 1;
}

void hearing_free(hearing *h) {
    free(h->regions);
    free(h->probabilities);
    free(h->sound);
    *h = (hearing){0};
}

double hearing_speech(const hearing *h, const char *language) {
    double seconds = 0;
    for (size_t i = 0; i < h->n_regions; i++)
        if (!language || !strcmp(language, h->regions[i].language ? h->regions[i].language : ""))
            seconds += h->regions[i].end - h->regions[i].start;
    return seconds;
}

const char *hearing_language_name(const char *code) {
    for (int i = 0; mxw_language_code(i); i++)
        if (!strcmp(mxw_language_code(i), code))
            return mxw_language_name(i);
    return code;
}

void hearing_duration(double seconds, char *out, size_t size) {
    long n = lround(seconds);
    if (seconds < 120)
        snprintf(out, size, "%.1f s", seconds);
    else if (n < 3600)
        snprintf(out, size, "%ld:%02ld", n / 60, n % 60);
    else
        snprintf(out, size, "%ld:%02ld:%02ld", n / 3600, n / 60 % 60, n % 60);
}

/* ---- text ----------------------------------------------------------------------------------------------- */

static void write_regions(const hearing *h, FILE *out) {
    char start[40], end[40];
    for (size_t i = h->n_told; i < h->n_regions; i++) {
        const hearing_region *r = &h->regions[i];
        screen_timestamp(start, sizeof(start), r->start);
        screen_timestamp(end, sizeof(end), r->end);
        fprintf(out, "[%s --> %s] ", start, end);
        if (r->language)
            fprintf(out, "%s %.2f %s\n", r->language, r->probability, hearing_language_name(r->language));
        else
            fprintf(out, "speech %.2f s\n", r->end - r->start);
    }
}

/* Seconds, the probability, and whether the middle of the chunk lies in a region. */
static void write_chunks(const hearing *h, FILE *out) {
    size_t region = 0;
    for (size_t i = 0; i < h->n_probabilities; i++) {
        double start = h->start_s + (double)i * h->chunk_s, middle = start + h->chunk_s / 2;
        while (region < h->n_regions && h->regions[region].end <= middle)
            region++;
        int inside = region < h->n_regions && h->regions[region].start <= middle;
        fprintf(out, "%.3f %.4f%s\n", start, (double)h->probabilities[i], inside ? " speech" : "");
    }
}

/* ---- other programs' formats ---------------------------------------------------------------------------- */

/* NIST's, one line a region: the file's name without blanks, the channel, start and duration; what is not known is
 * <NA>. */
static void write_rttm(const hearing *h, FILE *out) {
    size_t n;
    const char *stem = outputs_stem(h->path, &n);
    for (size_t i = 0; i < h->n_regions; i++) {
        const hearing_region *r = &h->regions[i];
        fputs("SPEAKER ", out);
        for (size_t k = 0; k < n; k++)
            fputc((unsigned char)stem[k] <= ' ' || stem[k] == 127 ? '_' : stem[k], out);
        fprintf(out, " %d %.3f %.3f <NA> <NA> %s <NA> <NA>\n", h->channel ? h->channel : 1, r->start, r->end - r->start,
                r->language ? r->language : "speech");
    }
}

static void write_labels(const hearing *h, FILE *out) {
    for (size_t i = 0; i < h->n_regions; i++) {
        const hearing_region *r = &h->regions[i];
        fprintf(out, "%.6f\t%.6f\t%s\n", r->start, r->end, r->language ? hearing_language_name(r->language) : "speech");
    }
}

static void write_json(const hearing *h, hearing_extra extra, const void *user, FILE *out) {
    json_writer json;
    json_start(&json, out, 0);
    json_begin(&json, NULL);
    json_text(&json, "file", h->path);
    json_number(&json, "duration", h->duration_s, 3);
    json_number(&json, "speech", hearing_speech(h, NULL), 3);
    if (extra)
        extra(user, &json);
    json_list(&json, "regions");
    for (size_t i = 0; i < h->n_regions; i++) {
        const hearing_region *r = &h->regions[i];
        json_begin(&json, NULL);
        json_number(&json, "start", r->start, 3);
        json_number(&json, "end", r->end, 3);
        if (r->after)
            json_wholes(&json, "samples", (int64_t[]){r->first, r->after}, 2);
        if (r->language) {
            json_text(&json, "language", r->language);
            json_number(&json, "probability", r->probability, 4);
        }
        json_end(&json);
    }
    json_end(&json);
    if (h->tells_probabilities) {
        json_number(&json, "chunk", h->chunk_s, 3);
        json_list(&json, "probabilities");
        for (size_t i = 0; i < h->n_probabilities; i++)
            json_number(&json, NULL, (double)h->probabilities[i], 6);
        json_end(&json);
    }
    json_end(&json);
}

void hearing_extension(hearing_format format, const char *kind, char *out, size_t size) {
    static const char *const endings[] = {".txt", ".json", ".rttm", ".labels.txt"};
    snprintf(out, size, ".%s%s", kind, endings[format]);
}

void hearing_write(const hearing *h, hearing_format format, hearing_extra extra, const void *user, FILE *out) {
    switch (format) {
    case HEARING_TEXT:
        if (h->tells_probabilities)
            write_chunks(h, out);
        else
            write_regions(h, out);
        break;
    case HEARING_JSON:
        write_json(h, extra, user, out);
        break;
    case HEARING_RTTM:
        write_rttm(h, out);
        break;
    case HEARING_AUDACITY:
        write_labels(h, out);
        break;
    }
}
