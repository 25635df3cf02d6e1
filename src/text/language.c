/* text/language.c - the table of languages, and lookup by code, name or alias. */
#include "text/text.h"

#include <string.h>

#define LANGUAGE(code, name) {code, name},
static const char *const languages[][2] = {
#include "text/languages.def"
};
#define ALIAS(name, code) {code, name},
static const char *const aliases[][2] = {
#include "text/languages.def"
};

const char *mx_language_code(int index) {
    return index >= 0 && (size_t)index < MX_COUNT(languages) ? languages[index][0] : NULL;
}

const char *mx_language_name(int index) {
    return index >= 0 && (size_t)index < MX_COUNT(languages) ? languages[index][1] : NULL;
}

/* ASCII only, independent of the locale ("I" in Turkish). */
static int same_but_for_case(const char *given, const char *lower) {
    for (; *given && *lower; given++, lower++) {
        char c = *given >= 'A' && *given <= 'Z' ? (char)(*given - 'A' + 'a') : *given;
        if (c != *lower)
            return 0;
    }
    return *given == *lower;
}

const char *mx_language_find(const char *code_or_name) {
    if (!code_or_name)
        return NULL;
    for (size_t column = 0; column < 2; column++)
        for (size_t i = 0; i < MX_COUNT(languages); i++)
            if (same_but_for_case(code_or_name, languages[i][column]))
                return languages[i][0];
    for (size_t i = 0; i < MX_COUNT(aliases); i++)
        if (same_but_for_case(code_or_name, aliases[i][1]))
            return aliases[i][0];
    return NULL;
}
