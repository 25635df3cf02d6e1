/* cli/docs/generate.c - a build tool: writes a completion or a manual page to standard output.
 *
 *     generate page WORD        the page of the subcommands that begin with WORD
 *     generate fill FILE        FILE, with each line "@NAME@" (after a comment sign) replaced: COMPLETION, SUBCOMMANDS
 */
#include <stdio.h>
#include <string.h>

#include "docs/docs.h"

static int fill(const char *path) {
    char line[4096];
    FILE *file = fopen(path, "r");
    if (!file)
        return 1;
    while (fgets(line, sizeof(line), file)) {
        if (strstr(line, "@COMPLETION@"))
            docs_completion(stdout);
        else if (strstr(line, "@SUBCOMMANDS@"))
            docs_list(stdout);
        else
            fputs(line, stdout);
    }
    return fclose(file) != 0;
}

int main(int argc, char **argv) {
    int failed = 1;
    if (argc == 3 && !strcmp(argv[1], "page"))
        failed = !docs_page(stdout, argv[2]);
    else if (argc == 3 && !strcmp(argv[1], "fill"))
        failed = fill(argv[2]);
    if (failed)
        fprintf(stderr, "generate: wrong arguments, or a file that cannot be read\n");
    return failed || fflush(stdout) ? 1 : 0;
}
