/* pipeline/speech/clips.c - regions of speech to clips: see the header. */
#include "pipeline/speech/clips.h"

#include "base/status.h"
#include "feature/feature.h"

#define LONGEST_PAUSE (3 * MX_MEL_RATE)   /* frames between two regions of one clip: silence beyond that is skipped */

/* The first region that has frames in the wanted clip. MX_REGION_UNKNOWN: none is known; *none: none will be. */
static mx_region_state find_region(mx_clip_plan *plan, const mx_speech *speech, const mx_clip *wanted, mx_span *region,
                                   int *none) {
    for (;; plan->region++) {
        mx_region_state state = mx_speech_region(speech, plan->region, region);
        *none = region->start >= wanted->end || wanted->start >= wanted->end;
        if (*none || state == MX_REGION_UNKNOWN)
            return MX_REGION_UNKNOWN;
        if (region->end > wanted->start)
            return state;
        if (state != MX_REGION_KNOWN)   /* it may yet reach into the clip */
            return MX_REGION_UNKNOWN;
    }
}

/* Whether a region belongs to the clip before it, of the same wanted clip. MX_CLIP_UNKNOWN: that is not certain yet. */
static mx_clip_state joins(const mx_clip *clip, const mx_clip *wanted, mx_region_state state, const mx_span *region) {
    int64_t end = MX_MIN(region->end, wanted->end);
    if (region->start >= wanted->end || region->start - clip->end > LONGEST_PAUSE)
        return MX_CLIP_NONE;
    if (state != MX_REGION_UNKNOWN && end - clip->start > MX_MEL_WINDOW)
        return MX_CLIP_NONE;
    return state == MX_REGION_KNOWN || (state == MX_REGION_BEGUN && end == wanted->end) ? MX_CLIP_KNOWN
                                                                                        : MX_CLIP_UNKNOWN;
}

/* Adds the regions after number i to the clip, as long as they join it. */
static mx_clip_state join(const mx_speech *speech, const mx_clip *wanted, size_t *i, mx_clip *clip) {
    while (clip->end < wanted->end && clip->end - clip->start <= MX_MEL_WINDOW) {
        mx_span region;
        mx_region_state state = mx_speech_region(speech, *i + 1, &region);
        mx_clip_state joined = joins(clip, wanted, state, &region);
        if (joined == MX_CLIP_UNKNOWN)
            return MX_CLIP_UNKNOWN;
        if (joined == MX_CLIP_NONE)
            break;
        clip->end = MX_MIN(region.end, wanted->end);
        ++*i;
    }
    return MX_CLIP_KNOWN;
}

mx_clip_state mx_clip_next(mx_clip_plan *plan, const mx_speech *speech, mx_clip *clip) {
    for (; plan->at < plan->n_wanted; plan->at++, plan->region = 0) {
        const mx_clip *wanted = &plan->wanted[plan->at];
        mx_span region;
        int none;
        mx_region_state state = find_region(plan, speech, wanted, &region, &none);
        if (none)
            continue;
        if (state == MX_REGION_UNKNOWN)
            return MX_CLIP_UNKNOWN;
        *clip = *wanted;
        clip->start = MX_MAX(region.start, wanted->start);
        clip->end = MX_MIN(region.end, wanted->end);
        size_t i = plan->region;
        int ends = state == MX_REGION_KNOWN || clip->end == wanted->end;
        if (!ends)
            return clip->end - clip->start > MX_MEL_WINDOW ? MX_CLIP_GROWING : MX_CLIP_UNKNOWN;
        if (join(speech, wanted, &i, clip) == MX_CLIP_UNKNOWN)
            return MX_CLIP_UNKNOWN;
        int last = clip->end == wanted->end;
        plan->at += last;
        plan->region = last ? 0 : i + 1;
        return MX_CLIP_KNOWN;
    }
    return MX_CLIP_NONE;
}
