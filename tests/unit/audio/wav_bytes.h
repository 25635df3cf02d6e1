/* wav_bytes.h - WAV files of every kind for tests, built in memory by a writer that shares no code with audio/. */
#ifndef WAV_BYTES_H
#define WAV_BYTES_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wav_spec {
    const char *riff;        /* "RIFF" unless set */
    int tag, channels, rate, bits;
    int extensible;          /* the tag goes into a sub-format */
    uint32_t mask;
    int junk_before;         /* bytes of a chunk before the format's */
    int list_after;          /* bytes of a chunk after the samples */
    int ds64;                /* the true size lies in a ds64 chunk */
    int size_given;          /* size_value is what the data chunk says */
    uint32_t size_value;
} wav_spec;

typedef struct bytes {
    uint8_t *data;
    size_t n;
} bytes;

static void put(bytes *b, const void *data, size_t n) {
    b->data = realloc(b->data, b->n + n + 1);
    if (n)
        memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_le(bytes *b, uint64_t value, int n) {
    for (int i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)(value >> (8 * i));
        put(b, &byte, 1);
    }
}

static void put_chunk(bytes *b, const char *id, int n) {
    put(b, id, 4);
    put_le(b, (uint64_t)n, 4);
    for (int i = 0; i < n + (n & 1); i++)
        put_le(b, (uint64_t)i, 1);
}

static void put_format(bytes *b, const wav_spec *spec) {
    static const uint8_t guid_tail[] = {0, 0, 0, 0, 16, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};
    int block = spec->channels * ((spec->bits + 7) / 8);
    put(b, "fmt ", 4);
    put_le(b, spec->extensible ? 40 : 16, 4);
    put_le(b, spec->extensible ? 0xFFFE : (uint64_t)spec->tag, 2);
    put_le(b, (uint64_t)spec->channels, 2);
    put_le(b, (uint64_t)spec->rate, 4);
    put_le(b, (uint64_t)spec->rate * (uint64_t)block, 4);
    put_le(b, (uint64_t)block, 2);
    put_le(b, (uint64_t)spec->bits, 2);
    if (spec->extensible) {
        put_le(b, 22, 2);
        put_le(b, (uint64_t)spec->bits, 2);
        put_le(b, spec->mask, 4);
        put_le(b, (uint64_t)spec->tag, 2);
        put(b, guid_tail, sizeof(guid_tail));
    }
}

static bytes make_wav(wav_spec spec, const void *samples, size_t n) {
    bytes b = {NULL, 0};
    put(&b, spec.riff ? spec.riff : "RIFF", 4);
    put_le(&b, spec.ds64 ? 0xFFFFFFFF : 36 + n, 4);
    put(&b, "WAVE", 4);
    if (spec.ds64) {
        put(&b, "ds64", 4);
        put_le(&b, 28, 4);
        put_le(&b, 36 + n, 8);
        put_le(&b, n, 8);
        put_le(&b, 0, 8);
        put_le(&b, 0, 4);
    }
    if (spec.junk_before)
        put_chunk(&b, "JUNK", spec.junk_before);
    put_format(&b, &spec);
    put(&b, "data", 4);
    put_le(&b, spec.size_given ? spec.size_value : spec.ds64 ? 0xFFFFFFFF : n, 4);
    put(&b, samples, n);
    if (spec.list_after) {
        if (n & 1)
            put_le(&b, 0, 1);
        put_chunk(&b, "LIST", spec.list_after);
    }
    return b;
}

static void save(const char *path, bytes b) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(b.data, 1, b.n, file) != b.n || fclose(file) != 0) {
        printf("cannot write %s\n", path);
        exit(1);
    }
}
#endif
