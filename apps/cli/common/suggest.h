/* cli/common/suggest.h - the nearest right word for a mistyped one.
 *
 * In: what was typed, and candidates one by one. Out: the best of them, or NULL if none is near.
 * Invariants: '-' and '_' and letter case make no difference; no allocation, any bytes are welcome.
 */
#ifndef CLI_COMMON_SUGGEST_H
#define CLI_COMMON_SUGGEST_H

typedef struct suggestion {
    const char *typed;
    const char *best; /* NULL so far */
    int distance;     /* of the best */
} suggestion;

void suggestion_start(suggestion *s, const char *typed);
/* The candidate must outlive the suggestion. Of equals the shorter wins, then the one offered first. */
void suggestion_offer(suggestion *s, const char *candidate);

/* Edits (insert, delete, replace, swap of neighbours) between two words; at most 64 bytes of each are looked at. */
int edit_distance(const char *a, const char *b);

#endif
