/* pipeline/speech/detector.c - the detector of speech that sessions of a recognizer use. */
#include "base/base.h"
#include "pipeline/pipeline.h"
#include "pipeline/recognizer.h"

mxw_status mx_recognizer_detector(mx_recognizer *r, const mxw_vad_options *options, mx_detector *out) {
    if (r->open_detector)
        return r->open_detector(r->detector_context, options, out);
    return mx_fail(MXW_E_UNSUPPORTED, "vad: this build has no network that finds speech");
}
