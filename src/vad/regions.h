/* vad/regions.h - internal to vad/: probabilities of chunks -> regions of speech, as they become certain.
 *
 * The state machine of get_speech_timestamps in silero-vad 6.2.3, one chunk at a time: the regions are those that it
 * gives for the whole recording. A region is given when nothing that may follow can change it: its end depends on where
 * the next one begins, if that is near. Memory: the regions that were not taken yet. */
#ifndef MX_VAD_REGIONS_H
#define MX_VAD_REGIONS_H
#include <stdint.h>

#include "base/status.h"

typedef struct mx_region {
    int64_t first, end;      /* samples */
} mx_region;

typedef struct mx_regions {
    /* what is asked for, in samples */
    int64_t chunk;
    double threshold, neg_threshold, min_speech, max_speech, min_silence, pad, min_cut_silence;
    int longest;             /* cut at the longest pause, not at the last one */

    /* the speech that is being heard; positions of chunks, 0 where Silero's variables of these names are 0 */
    int speaking;
    int64_t position;        /* of the next chunk */
    int64_t known;           /* samples that are known to be there */
    int ended;
    int64_t start;           /* of this speech */
    int64_t quiet;           /* temp_end: where it may have ended */
    int64_t cut_end, cut_start;           /* prev_end, next_start: where the last pause began, and speech went on */
    int64_t longest_end, longest_pause;   /* of possible_ends, the first of the longest; no pause: 0 */
    int64_t padded_start;    /* of this speech, if it is known; else -1 */

    int held;                /* a region that was kept but whose end is not certain: */
    mx_region last;            /* its first is padded, its end is not */

    mx_region *ready;          /* ready[at .. n) were not taken yet */
    size_t n, at, room;
} mx_regions;

/* Options complete and in range. Keeps the memory of an earlier use; zero-initialise before the first one. */
void mx_regions_start(mx_regions *r, const mxw_vad_options *options);
/* One chunk; known: the samples that are known to be there, of the recording, this chunk included. */
mxw_status mx_regions_add(mx_regions *r, float probability, int64_t known);
/* No more chunks; length: of the recording, in samples. */
mxw_status mx_regions_end(mx_regions *r, int64_t length);
/* 0: there is none. */
int mx_regions_take(mx_regions *r, mx_region *span);
/* As mx_vad_ahead. */
int mx_regions_ahead(const mx_regions *r, mx_region *span);
void mx_regions_free(mx_regions *r);
#endif
