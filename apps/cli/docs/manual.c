/* cli/docs/manual.c - manual pages in roff: one for each first word of a subcommand, and the list of them all. */
#include <ctype.h>
#include <string.h>

#include "common/cli.h"
#include "docs/docs.h"

/* A character past ASCII, UTF-8, by its number; returns its last byte. */
static const char *put_wide(FILE *out, const char *text) {
    unsigned char first = (unsigned char)*text;
    int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    unsigned code = first & (0x3fu >> more);
    for (; more > 0 && ((unsigned char)text[1] & 0xc0) == 0x80; more--)
        code = code << 6 | ((unsigned char)*++text & 0x3fu);
    fprintf(out, "\\[u%04X]", code);
    return text;
}

/* Text as roff needs it: dashes that are typed stay dashes, and no line begins with a control character. */
static void put_text(FILE *out, const char *text) {
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        if ((unsigned char)*text >= 0x80)
            text = put_wide(out, text);
        else if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '"')
            fputs("\\(dq", out);
        else
            fputc(*text, out);
    }
}

static void put_line(FILE *out, const char *text) {
    put_text(out, text);
    fputc('\n', out);
}

static int is_in_group(const subcommand *c, const char *group) {
    size_t n = strlen(group);
    return !strncmp(c->words, group, n) && (!c->words[n] || c->words[n] == ' ');
}

/* ---- one page ------------------------------------------------------------------------------------------- */

static void put_option(FILE *out, const option_row *row) {
    fputs(".TP\n\\fB", out);
    if (row->letter)
        fprintf(out, "\\-%c\\fR, \\fB", row->letter);
    fputs("\\-\\-", out);
    put_text(out, row->name);
    if (row->alias) {
        fputs("\\fR, \\fB\\-\\-", out);
        put_text(out, row->alias);
    }
    fputs("\\fR", out);
    if (row->placeholder) {
        fputs(" \\fI", out);
        put_text(out, row->placeholder);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_line(out, row->help);
    if (row->fallback && row->kind != OPTION_REFUSED && row->kind != OPTION_IGNORED) {
        fputs("Default: ", out);
        put_text(out, row->fallback[0] ? row->fallback : "\"\"");
        fputs(".\n", out);
    }
}

/* By group, in the order of the first option of each; those that all subcommands share are in max-whisper(1). */
static void put_options(FILE *out, const option_row *table) {
    for (const option_row *first = table; first->name; first++) {
        int seen = !strcmp(first->group, MESSAGES_GROUP);
        for (const option_row *row = table; row < first; row++)
            seen |= !strcmp(row->group, first->group);
        if (seen)
            continue;
        fprintf(out, ".PP\n%s:\n", first->group);
        for (const option_row *row = first; row->name; row++)
            if (!strcmp(row->group, first->group))
                put_option(out, row);
    }
}

static void put_synopsis(FILE *out, const subcommand *c) {
    fputs(".B max\\-whisper ", out);
    put_line(out, c->words);
    fputs(".I ", out);
    put_text(out, c->command->arguments);
    fputs("\n.RI [ OPTION ...]\n.br\n", out);
}

static void put_subcommand(FILE *out, const subcommand *c, int several) {
    if (several) {
        fputs(".SH \"", out);
        for (const char *p = c->words; *p; p++)
            fputc(toupper((unsigned char)*p), out);
        fputs("\"\n", out);
    } else {
        fputs(".SH DESCRIPTION\n", out);
    }
    put_line(out, c->command->summary);
    if (c->command->details) {
        fputs(".PP\n", out);
        put_line(out, c->command->details);
    }
    if (!several)
        fputs(".SH OPTIONS\n", out);
    put_options(out, c->command->options);
}

int docs_page(FILE *out, const char *group) {
    int n = 0, several = command_is_group(group);
    fputs(".TH MAX\\-WHISPER\\-", out);
    for (const char *p = group; *p; p++)
        fprintf(out, *p == '-' ? "\\-" : "%c", toupper((unsigned char)*p));
    fprintf(out, " 1 \"\" \"max\\-whisper %s\" \"User commands\"\n.SH NAME\nmax\\-whisper\\-", mxw_version());
    put_text(out, group);
    fputs(" \\- ", out);
    for (const subcommand *c = commands; c->words; c++)
        if (is_in_group(c, group)) {
            put_text(out, several ? strchr(c->words, ' ') + 1 : c->command->summary);
            fputs(several && c[1].words && is_in_group(c + 1, group) ? ", " : "\n", out);
            n++;
        }
    fputs(".SH SYNOPSIS\n.nh\n", out);
    for (const subcommand *c = commands; c->words; c++)
        if (is_in_group(c, group))
            put_synopsis(out, c);
    fputs(".hy\n", out);
    for (const subcommand *c = commands; c->words; c++)
        if (is_in_group(c, group))
            put_subcommand(out, c, several);
    fputs(".PP\nThe options\n.BR \\-\\-quiet ,\n.BR \\-\\-log\\-level ,\n.B \\-\\-log\\-format\nand\n.B \\-\\-help\n"
          "of every subcommand are described in\n.BR max\\-whisper (1).\n", out);
    fputs(".SH SEE ALSO\n.BR max\\-whisper (1)\n", out);
    return n;
}

/* ---- the list ------------------------------------------------------------------------------------------- */

void docs_list(FILE *out) {
    for (const subcommand *c = commands; c->words; c++) {
        fputs(".TP\n\\fB", out);
        put_text(out, c->words);
        fputs("\\fR \\fI", out);
        put_text(out, c->command->arguments);
        fputs("\\fR\n", out);
        put_line(out, c->command->summary);
    }
}
