/* cli/common/suggest.c - Damerau-Levenshtein distance (neighbours swapped count once), and what counts as near. */
#include "common/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

enum { MAX_WORD = 64 };

static unsigned char fold(char c) { return (unsigned char)(c == '_' ? '-' : tolower((unsigned char)c)); }

static int min_int(int a, int b) { return a < b ? a : b; }

int edit_distance(const char *a, const char *b) {
    int rows[3][MAX_WORD + 1]; /* the last three rows of the table: i - 2, i - 1, i */
    int n = (int)strnlen(a, MAX_WORD), m = (int)strnlen(b, MAX_WORD);
    for (int j = 0; j <= m; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int same = fold(a[i - 1]) == fold(b[j - 1]);
            row[j] = min_int(min_int(above[j] + 1, row[j - 1] + 1), above[j - 1] + !same);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]))
                row[j] = min_int(row[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

/* How far a word is that holds the other from a word boundary on: 1 at its start ("lang" in "language"), 2 later
 * ("prompt" in "initial-prompt"); a large number if it does not. whole_words: it must end at a boundary too. */
static int containment(const char *whole, const char *part, int whole_words) {
    size_t n = strlen(part);
    for (const char *p = whole; n >= 3 && *p; p++) {
        size_t i = 0;
        while (i < n && p[i] && fold(p[i]) == fold(part[i]))
            i++;
        if (i == n && (p == whole || fold(p[-1]) == '-') && (!whole_words || !p[n] || fold(p[n]) == '-'))
            return p == whole ? 1 : 2;
    }
    return INT_MAX;
}

void suggestion_start(suggestion *s, const char *typed) {
    s->typed = typed;
    s->best = NULL;
    s->distance = INT_MAX;
}

void suggestion_offer(suggestion *s, const char *candidate) {
    size_t length = strlen(s->typed);
    if (!length || length > MAX_WORD)
        return;
    /* Up to a third of the letters wrong, and always one: further off is more likely another word. */
    int allowed = length < 4 ? 1 : length < 7 ? 2 : (int)(length / 3);
    int distance = edit_distance(s->typed, candidate);
    if (distance > allowed || (size_t)distance >= strlen(candidate))
        distance = INT_MAX;
    distance = min_int(distance, containment(candidate, s->typed, 0));
    if (distance > 2 && containment(s->typed, candidate, 1) < INT_MAX)
        distance = 2; /* less telling than a letter that is wrong: "tiny-en" is rather "tiny.en" than "tiny" */
    int shorter = s->best && distance == s->distance && strlen(candidate) < strlen(s->best);
    if (distance < s->distance || (shorter && distance < INT_MAX)) {
        s->best = candidate;
        s->distance = distance;
    }
}
