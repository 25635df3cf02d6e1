/* cli/docs/docs.h - what the program's own tables say about it, for files that are made while it is built.
 *
 * In: commands.def and the option tables. Out: the bash completion and the manual pages.
 * Invariants: nothing here is written twice: a subcommand or an option that is in its table is in all of these files.
 */
#ifndef CLI_DOCS_DOCS_H
#define CLI_DOCS_DOCS_H

#include <stdio.h>

/* The functions of the completion that list subcommands, options and values; the rest is in completion.bash. */
void docs_completion(FILE *out);
/* The manual page of the subcommands that begin with this word. 0: there are none. */
int docs_page(FILE *out, const char *group);
/* The list of all subcommands for the manual's main page. */
void docs_list(FILE *out);

#endif
