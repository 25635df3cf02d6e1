/* tests/fuzz/fuzz_cli.c - the command line's parser on any words.
 *
 * In: the first byte chooses a subcommand's table, the rest are words, each ended by a 0. Nothing is opened.
 * Invariants: it returns; the words it hands back are among those it got; a complaint is one line of its own.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

enum { MAX_WORDS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth) {
    if (!truth)
        abort();
}

/* Cuts the text at its zeros. */
static int split(char *text, size_t size, char **words) {
    int n = 0;
    for (size_t i = 0; i < size && n < MAX_WORDS; i += strlen(text + i) + 1)
        words[n++] = text + i;
    return n;
}

static void check_outcome(const options_outcome *o, const char *text, size_t size, int n) {
    require(o->n_words >= 0 && o->n_words <= n);
    for (int i = 0; i < o->n_words; i++)
        require(o->words[i] >= text && o->words[i] < text + size);
    if (o->status != OPTIONS_WRONG)
        return;
    size_t length = strnlen(o->message, sizeof(o->message));
    require(length > 0 && length < sizeof(o->message));
    for (size_t i = 0; i < length; i++)
        require((unsigned char)o->message[i] >= ' ' && o->message[i] != 127);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    int n_commands = 0;
    while (commands[n_commands].words)
        n_commands++;
    const command *c = commands[data[0] % n_commands].command;
    char *text = malloc(size), *words[MAX_WORDS];
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    int n = split(text, size, words);
    void *target = calloc(1, c->options_size); /* exactly its size: a row that points outside is seen */
    options_outcome outcome;
    if (target) {
        options_parse(c->options, target, n, words, &outcome);
        check_outcome(&outcome, text, size, n);
    }
    free(target);
    free(text);
    return 0;
}
