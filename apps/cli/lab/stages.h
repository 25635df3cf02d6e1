/* cli/lab/stages.h - what `features` and `verify` share: what is listened to, the model, and tables of stages.
 *
 * Invariants: a report made with a fault on purpose says so in its first line and under "injected" in its JSON. */
#ifndef CLI_LAB_STAGES_H
#define CLI_LAB_STAGES_H

#include "common/json_writer.h"
#include "common/model.h"
#include "max_whisper/lab.h"

typedef struct lab_samples {
    float *data;
    size_t n;
} lab_samples;

/* A recording, or with NULL 35 seconds of buzz with pauses in it; 0 after a line. Free data. */
int lab_read(const char *path, lab_samples *samples);
/* names: every stage can be seen, for which engine max fuses less. Exit status. */
int lab_open(const model_choice *choice, int names, const char *inject, mxw_model **model);
/* Decoding at temperature 0 alone: a draw would hide what the numbers say. */
void lab_session_options(mxw_session_options *options);
/* What a session takes for --language: NULL for auto. */
const char *lab_language(const char *option);
const char *fault_value(int index); /* for completion */
int check_fault(const char *value, char *message, size_t size);

/* A line of statistics, and of two runs, for each stage; bad ones are marked. */
void lab_print_stages(const mxw_features *features);
void lab_write_stages(json_writer *json, const mxw_features *features);
void lab_print_rows(const mxw_comparison *comparison, int bad_only);
void lab_write_rows(json_writer *json, const mxw_comparison *comparison);
void lab_write_notes(json_writer *json, const char *key, const mxw_features *features);
size_t lab_count_bad(const mxw_comparison *comparison);
void lab_write_finding(json_writer *json, const mxw_finding *finding);
/* A number in few characters: 0, 1.2e-07, 0.998. */
const char *lab_short(double x, char text[32]);

#define INJECT_ROW(type, member)                                                                                       \
    {.name = "inject", .kind = OPTION_TEXT, .placeholder = "FAULT", .group = "Faults", .check = check_fault,           \
     .values = fault_value,                                                                                            \
     .target = offsetof(type, member),                                                                                 \
     .help = "Inject a fault, to see it found: db-mel, no-ln-post, averaged-conv, conv-stride, tanh-gelu, "            \
             "wrong-scale, scaled-features, transposed-weight, random-weight, first-window-only."}

#endif
