/* cli/common/json_writer.h - JSON for this program's own reports, straight to a stream.
 *
 * In: calls in the order of the document; key NULL inside a list or at the top. Out: valid JSON, indented or one line.
 * Invariants: any byte string becomes valid JSON text (what is not UTF-8 turns into U+FFFD); a number that is not
 * finite becomes null. The document ends with a newline. At most 16 levels.
 */
#ifndef CLI_COMMON_JSON_WRITER_H
#define CLI_COMMON_JSON_WRITER_H

#include <stdint.h>
#include <stdio.h>

typedef struct json_writer {
    FILE *file;
    int pretty;
    int depth;
    char closer[16]; /* '}' or ']' of each open level */
    int filled[16];  /* whether the level has a member yet */
} json_writer;

void json_start(json_writer *json, FILE *file, int pretty);
void json_begin(json_writer *json, const char *key);
void json_list(json_writer *json, const char *key);
/* Closes the innermost object or list; a newline follows the outermost. */
void json_end(json_writer *json);
void json_text(json_writer *json, const char *key, const char *value); /* NULL: null */
void json_whole(json_writer *json, const char *key, int64_t value);
void json_number(json_writer *json, const char *key, double value, int decimals);
void json_wholes(json_writer *json, const char *key, const int64_t *values, int n); /* a list on one line */
void json_bool(json_writer *json, const char *key, int value);

#endif
