/* guard/score.c - evidence to suspicion: a logistic function, and which evidence speaks most for it. */
#include <math.h>

#include "base/base.h"
#include "base/arrays.h"
#include "guard/guard.h"

#define REASON_SHARE 0.2   /* of what speaks against a word: from here on it is named as a reason */

typedef struct coefficient {
    double typical;   /* of speech */
    double weight;    /* of the difference to it; not against its sign; 0: the fit left this evidence out */
} coefficient;

static const coefficient coefficients[MX_N_EVIDENCE] = {
#define COEFFICIENT(identifier, typical, weight) [MX_EVIDENCE_##identifier] = {typical, weight},
#define BIAS(value)
#include "guard/coefficients.def"
#undef COEFFICIENT
#undef BIAS
};

static const double bias =
#define COEFFICIENT(identifier, typical, weight)
#define BIAS(value) value;
#include "guard/coefficients.def"
#undef COEFFICIENT
#undef BIAS

static const struct {
    const char *name;
    mx_reason reason;
    int sign;
} evidence_table[MX_N_EVIDENCE] = {
#define EVIDENCE(identifier, name, reason, sign) {name, MX_REASON_##reason, sign},
#include "guard/evidence.def"
#undef EVIDENCE
};

const char *mx_evidence_name(int index) {
    return index >= 0 && index < MX_N_EVIDENCE ? evidence_table[index].name : NULL;
}

int mx_evidence_sign(int index) { return index >= 0 && index < MX_N_EVIDENCE ? evidence_table[index].sign : 0; }

double mx_guard_score(const double *evidence, uint32_t *reasons) {
    double against[MX_N_REASONS] = {0}, total = 0, logit = bias;
    for (int i = 0; i < MX_N_EVIDENCE; i++) {
        double part = coefficients[i].weight * (evidence[i] - coefficients[i].typical);
        logit += part;
        against[evidence_table[i].reason] += part;
    }
    double suspicion = 1 / (1 + exp(-logit));
    *reasons = 0;
    if (suspicion < MX_GUARD_SUSPECTED)
        return suspicion;
    for (int i = 0; i < MX_N_REASONS; i++)
        total += fmax(against[i], 0);
    for (int i = 0; i < MX_N_REASONS; i++)
        if (against[i] > 0 && against[i] >= REASON_SHARE * total)
            *reasons |= 1u << i;
    return suspicion;
}
