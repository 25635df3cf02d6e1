/* bench/vad_regions.c - regions from given probabilities, for bench/vad.py: the state machine alone, whatever network
 * the probabilities come from.
 * In, on standard input, again and again: a line "rate threshold neg_threshold min_speech_ms max_speech_s
 * min_silence_ms pad_ms min_silence_at_max_speech_ms cut_at_longest_pause samples chunks" ("none" where MXW_NONE is
 * meant), then as many f32 as there are chunks. Out: a line for each, "first-end first-end ...". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "vad/regions.h"

/* The next word of a line. */
static const char *word(void) {
    const char *text = strtok(NULL, " \n");
    if (!text) {
        fprintf(stderr, "bench-vad-regions: a word is missing\n");
        exit(2);
    }
    return text;
}

static double number(void) {
    const char *text = word();
    return strcmp(text, "none") == 0 ? MXW_NONE : mx_parse_double(text, NULL);
}

static void take_all(mx_regions *r, const char **separator) {
    mx_region region;
    for (; mx_regions_take(r, &region); *separator = " ")
        printf("%s%lld-%lld", *separator, (long long)region.first, (long long)region.end);
}

int main(void) {
    char line[1000];
    mx_regions r = {0};
    while (fgets(line, sizeof(line), stdin)) {
        mxw_vad_options o = {.struct_size = sizeof(o)};
        const char *separator = "";
        o.sample_rate = atoi(strtok(line, " "));
        o.threshold = number();
        o.neg_threshold = number();
        o.min_speech_ms = number();
        o.max_speech_s = number();
        o.min_silence_ms = number();
        o.pad_ms = number();
        o.min_silence_at_max_speech_ms = number();
        o.cut_at_longest_pause = atoi(word());
        int64_t samples = atoll(word()), chunks = atoll(word()), length = o.sample_rate == 16000 ? 512 : 256;
        mx_regions_start(&r, &o);
        for (int64_t i = 0; i < chunks; i++) {
            float p;
            int64_t known = (i + 1) * length;
            if (fread(&p, sizeof(p), 1, stdin) != 1 || mx_regions_add(&r, p, known < samples ? known : samples) < 0)
                return 1;
            take_all(&r, &separator);
        }
        if (mx_regions_end(&r, samples) < 0)
            return 1;
        take_all(&r, &separator);
        printf("\n");
        fflush(stdout);
    }
    mx_regions_free(&r);
    return 0;
}
