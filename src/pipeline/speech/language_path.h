/* pipeline/speech/language_path.h - the arithmetic of deciding languages: units of speech out of the probabilities of a
 * detector, and the best sequence of languages for units out of what the model says about each. No model in sight.
 *
 * A unit is a few seconds of speech that ends at a pause, where there is one: enough to recognise a language by, short
 * enough to be in one. Evidence for a unit: the log probability of each language given its audio (`single`), and given
 * its audio together with the next unit's (`pair`). The score of a sequence of languages is the sum over its units of
 * single and over its edges of pair, where the language stays, or of the cost of a switch, where it does not. */
#ifndef MX_LANGUAGE_PATH_H
#define MX_LANGUAGE_PATH_H
#include "pipeline/speech/speech.h"

#define MX_LANGUAGE_FLOOR (-6.0f)     /* log probability: less is not believed */
#define MX_LANGUAGE_SWITCH 3.0        /* what a switch costs, in log probability */

/* The units of a recording in mel frames, in order, apart by the pauses between them; *units is owned by the caller
 * (mx_free). probabilities: of chunks of MX_SPEECH_CHUNK samples. */
mxw_status mx_language_units(const float *probabilities, size_t n, double threshold, mx_span **units, size_t *n_units);

/* The language of each of n units, n at least 1, in the sequence with the highest score, as an index below k; and the
 * share of all sequences, each counted by the exponential of its score, that have it there. single [n][k],
 * pair [n - 1][k]. */
mxw_status mx_language_path(const float *single, const float *pair, size_t n, int k, int *path, double *probability);
#endif
