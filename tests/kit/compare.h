/* tests/kit/compare.h - a transcription against a golden row.
 *
 * Verdicts: 1 identical; 0 they part, and in the window of the first difference a margin of the reference's own is
 * under the tolerance; -1 wrong. For the last two, line says where and how. */
#ifndef GOLDEN_COMPARE_H
#define GOLDEN_COMPARE_H
#include "kit/golden.h"

int compare_result(const json_t *row, const mxw_result *result, double tolerance, char *line, size_t n);
/* Whether the same window is the first to fall back. */
int compare_fallback(const json_t *row, const mxw_result *result, double tolerance, char *line, size_t n);
/* The clip's files of golden/writers/MODEL against ours: 1 if each is equal byte for byte, but for the two
 * probabilities of json, within the tolerance; 1 too if the golden has no files of it. *files counts. */
int compare_written(const char *model, const json_t *row, const mxw_result *result, double tolerance, int *files);
#endif
