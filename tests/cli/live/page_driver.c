/* page_driver.c FILE CALLS ANSWERS - drives the page of `live` without a model, for test_live_page.py.
 *
 * In: on descriptor CALLS a line for each call: "final START END TEXT", "partial END TEXT", "break", "note",
 * "log TEXT", "close". Out: the page on standard output; on descriptor ANSWERS a byte after each call, so that the test
 * knows what it sees. FILE is the sound whose level the meter shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "live/page.h"

static void obey(char *line) {
    char *text = line;
    double a = 0, b = 0;
    if (!strncmp(line, "final ", 6)) {
        a = strtod(line + 6, &text);
        b = strtod(text, &text);
        page_final(text, a, b);
    } else if (!strncmp(line, "partial ", 8)) {
        a = strtod(line + 8, &text);
        page_partial(text, a);
    } else if (!strcmp(line, "break")) {
        page_break();
    } else if (!strcmp(line, "note")) {
        page_note("listening; Ctrl-C ends");
    } else if (!strncmp(line, "log ", 4)) {
        log_say(MXW_LOG_WARN, "%s", line + 4);
    }
}

int main(int argc, char **argv) {
    char line[8192];
    source_options options = {.kind = SOURCE_FILE, .name = argc > 1 ? argv[1] : "", .pace = 1};
    sound_source *source = source_open(&options);
    FILE *calls = argc == 4 ? fdopen(atoi(argv[2]), "r") : NULL;
    if (!calls || !source || source_wait(source) != SOURCE_OPEN || !page_possible() || !page_open(source, 1))
        return 1;
    log_start(MXW_LOG_WARN, 0);
    source_begin(source);
    while (fgets(line, sizeof(line), calls) && strncmp(line, "close", 5) != 0) {
        line[strcspn(line, "\n")] = 0;
        obey(line);
        if (write(atoi(argv[3]), ".", 1) != 1)
            return 1;
    }
    page_close();
    source_close(source);
    fclose(calls);
    return 0;
}
