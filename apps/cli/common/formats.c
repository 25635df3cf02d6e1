/* cli/common/formats.c - the list is read word by word. */
#include "common/formats.h"

#include <string.h>

#include "common/options.h"
#include "common/suggest.h"
#include "max_whisper.h"

/* One word of the list: a format, or all. */
static int check_one_format(const char *word, char *message, size_t size) {
    char list[160] = "";
    suggestion near;
    suggestion_start(&near, word);
    for (int i = 0; mxw_format_name(i); i++) {
        if (!strcmp(mxw_format_name(i), word))
            return 1;
        suggestion_offer(&near, mxw_format_name(i));
        size_t used = strlen(list);
        options_say(list + used, sizeof(list) - used, "%s, ", mxw_format_name(i));
    }
    if (!strcmp(word, "all"))
        return 1;
    suggestion_offer(&near, "all");
    if (near.best)
        options_say(message, size, "unknown format '%s'; did you mean '%s'?", word, near.best);
    else
        options_say(message, size, "unknown format '%s'; available: %sall", word, list);
    return 0;
}

int check_formats(const char *value, char *message, size_t size) {
    for (const char *p = value;; p++) {
        char word[40];
        size_t n = strcspn(p, ",");
        options_say(word, sizeof(word), "%.*s", (int)(n < 39 ? n : 39), p);
        if (!check_one_format(word, message, size))
            return 0;
        p += n;
        if (!*p)
            return 1;
    }
}

const char *format_value(int index) {
    for (int i = 0; i < index; i++)
        if (!mxw_format_name(i))
            return NULL;
    return mxw_format_name(index) ? mxw_format_name(index) : "all";
}

int formats_have(const char *list, const char *format) {
    for (const char *p = list ? list : "all"; *p; p += *p == ',') {
        size_t n = strcspn(p, ",");
        if (n == strlen(format) && !strncmp(p, format, n))
            return 1;
        for (int i = 0; i < FORMATS_IN_ALL && n == 3 && !strncmp(p, "all", 3); i++)
            if (!strcmp(mxw_format_name(i), format))
                return 1;
        p += n;
    }
    return 0;
}
