/* The tokenizer against openai-whisper's: every case of the two golden files, then what they cannot hold. */
#include "text/text.h"

#include <jansson.h>
#include <zlib.h>

#include "kit/check.h"
#include "max_whisper/tokenizer.h"
#include "text/pretokenize.h"

static json_t *load(const char *name) {
    char path[4096];
    json_error_t error;
    json_t *root = json_load_file(check_path(name, path, sizeof(path)), JSON_ALLOW_NUL, &error);
    if (!root) {
        printf("%s:%d: %s\n", path, error.line, error.text);
        exit(1);
    }
    return root;
}

static int same_ids(const json_t *want, const int32_t *got, size_t n) {
    if (json_array_size(want) != n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (json_integer_value(json_array_get(want, i)) != got[i])
            return 0;
    return 1;
}

static void check_encode(const mx_text *text, const json_t *cases) {
    size_t i;
    const json_t *item;
    json_array_foreach(cases, i, item) {
        const json_t *string = json_object_get(item, "text");
        int32_t *ids;
        size_t n;
        if (!CHECK(mx_text_encode(text, json_string_value(string), json_string_length(string), &ids, &n) >= 0))
            continue;
        if (!CHECK(same_ids(json_object_get(item, "ids"), ids, n)))
            printf("    text \"%s\"\n", json_string_value(string));
        mx_free(ids);
    }
}

static void check_decode(const mx_text *text, const json_t *cases) {
    size_t i, k;
    const json_t *item, *id;
    json_array_foreach(cases, i, item) {
        int32_t ids[256];
        size_t n = json_array_size(json_object_get(item, "ids"));
        if (!CHECK(n <= MX_COUNT(ids)))
            continue;
        json_array_foreach(json_object_get(item, "ids"), k, id) ids[k] = (int32_t)json_integer_value(id);
        for (int stamps = 0; stamps < 2; stamps++) {
            const json_t *want = json_object_get(item, stamps ? "with_timestamps" : "text");
            mx_str got = {0};
            mxw_status status =
                stamps ? mx_text_decode_with_timestamps(text, ids, n, &got) : mx_text_decode(text, ids, n, &got);
            CHECK_EQ_INT(status, MXW_OK);
            CHECK(got.n == json_string_length(want) && memcmp(mx_str_get(&got), json_string_value(want), got.n) == 0);
            mx_str_free(&got);
        }
    }
}

static void check_refused(const mx_text *text, const json_t *cases) {
    size_t i;
    const json_t *item;
    json_array_foreach(cases, i, item) {
        int32_t *ids = NULL;
        size_t n;
        CHECK_EQ_INT(mx_text_encode(text, json_string_value(item), json_string_length(item), &ids, &n), MXW_E_ARGUMENT);
        CHECK(ids == NULL && strstr(mx_error(), "<|"));
    }
}

static void check_specials(const mx_text *text, const json_t *vocabulary) {
    const mx_text_special *s = mx_text_specials(text);
    const struct {
        const char *name;
        int32_t id;
    } rows[] = {{"eot", s->eot},
                {"sot", s->sot},
                {"translate", s->translate},
                {"transcribe", s->transcribe},
                {"sot_lm", s->sot_lm},
                {"sot_prev", s->sot_prev},
                {"no_speech", s->no_speech},
                {"no_timestamps", s->no_timestamps},
                {"timestamp_begin", s->timestamp_begin}};
    const json_t *special = json_object_get(vocabulary, "special");
    CHECK_EQ_INT(json_object_size(special), MX_COUNT(rows));
    for (size_t i = 0; i < MX_COUNT(rows); i++)
        CHECK_EQ_INT(rows[i].id, json_integer_value(json_object_get(special, rows[i].name)));
    CHECK_EQ_INT(s->n_vocab, json_integer_value(json_object_get(vocabulary, "n_vocab")));
    CHECK_EQ_INT(s->multilingual, json_is_true(json_object_get(vocabulary, "multilingual")));
    CHECK_EQ_INT(s->n_languages, json_integer_value(json_object_get(vocabulary, "num_languages")));
    for (int i = 0; i < s->n_languages; i++) {
        const char *code = json_string_value(json_array_get(json_object_get(vocabulary, "language_codes"), (size_t)i));
        int64_t id = json_integer_value(json_array_get(json_object_get(vocabulary, "language_tokens"), (size_t)i));
        CHECK_EQ_INT(mx_text_language_token(text, code), id);
        CHECK_STR(mx_text_language_of(text, (int32_t)id), code);
    }
    CHECK_EQ_INT(mx_text_language_token(text, "yue") >= 0, s->n_languages == 100);
    CHECK_EQ_INT(mx_text_language_token(text, "xx"), -1);
    CHECK_EQ_INT(mx_text_language_token(text, NULL), -1);
    CHECK(mx_text_language_of(text, s->sot) == NULL && mx_text_language_of(text, s->translate) == NULL);
    const int32_t *ids;
    size_t n;
    mx_text_non_speech(text, &ids, &n);
    CHECK(same_ids(json_object_get(vocabulary, "non_speech_tokens"), ids, n));
}

static void check_languages(const json_t *golden) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(golden, "languages"), i, row) {
        CHECK_STR(mx_language_code((int)i), json_string_value(json_array_get(row, 0)));
        CHECK_STR(mx_language_name((int)i), json_string_value(json_array_get(row, 1)));
        CHECK_STR(mx_language_find(mx_language_code((int)i)), mx_language_code((int)i));
    }
    CHECK(mx_language_code((int)i) == NULL && mx_language_name((int)i) == NULL && mx_language_code(-1) == NULL);
    json_array_foreach(json_object_get(golden, "aliases"), i, row) CHECK_STR(
        mx_language_find(json_string_value(json_array_get(row, 0))), json_string_value(json_array_get(row, 1)));
    CHECK_STR(mx_language_find("Haitian Creole"), "ht");
    CHECK_STR(mx_language_find("CASTILIAN"), "es");
    CHECK_STR(mx_language_find("EN"), "en");
    CHECK(mx_language_find("") == NULL && mx_language_find(NULL) == NULL && mx_language_find("englis") == NULL);
    CHECK(mx_language_find("englishh") == NULL);
}

static size_t put_utf8(uint32_t c, char *out) {
    if (c < 0x80)
        return out[0] = (char)c, 1;
    if (c < 0x800)
        return out[0] = (char)(0xC0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000)
        return out[0] = (char)(0xE0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)), out[2] = (char)(0x80 | (c & 63)),
               3;
    out[0] = (char)(0xF0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63)), out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* CRC of the ids of "a?1? ?? !?  " for each code point of a block, as golden/make/tokenizer_random.py makes it. */
static uint32_t block_crc(const mx_text *text, uint32_t first) {
    uLong crc = crc32(0, NULL, 0);
    for (uint32_t c = first; c < first + 0x1000; c++) {
        if (c >= 0xD800 && c < 0xE000)
            continue;
        char probe[64], *p = probe;
        for (const char *shape = "a?1? ?? !?  "; *shape; shape++)
            p += *shape == '?' ? put_utf8(c, p) : put_utf8((uint32_t)*shape, p);
        int32_t *ids;
        size_t n;
        if (mx_text_encode(text, probe, (size_t)(p - probe), &ids, &n) < 0)
            return 0;
        for (size_t i = 0; i < n; i++) {
            uint8_t b[4] = {(uint8_t)ids[i], (uint8_t)(ids[i] >> 8), 0, 0};
            crc = crc32(crc, b, 4);
        }
        mx_free(ids);
    }
    return (uint32_t)crc;
}

/* L, N, S or O: the kind of neighbour that a code point makes one piece with. */
static char class_of(uint32_t point) {
    static const char neighbours[] = "a1\n!", names[] = "LNSO";
    char class_name = 0;
    for (size_t i = 0; i < 4; i++) {
        char pair[8] = {neighbours[i]};
        size_t n = 1 + put_utf8(point, pair + 1);
        if (mx_text_piece((const uint8_t *)pair, n) == n)
            class_name = class_name ? '?' : names[i];
    }
    return class_name;
}

static void check_classes(const json_t *golden) {
    size_t i;
    const json_t *block;
    json_array_foreach(json_object_get(golden, "classes"), i, block) {
        uint32_t first = (uint32_t)json_integer_value(json_object_get(block, "first"));
        uLong crc = crc32(0, NULL, 0);
        for (uint32_t c = first; c < first + 0x1000; c++) {
            char class_name = class_of(c);
            if (c < 0xD800 || c >= 0xE000)
                crc = crc32(crc, (const Bytef *)&class_name, 1);
        }
        if (!CHECK_EQ_INT(crc, json_integer_value(json_object_get(block, "crc"))))
            printf("    code points from U+%04X\n", (unsigned)first);
    }
    CHECK(i > 60);
}

static void check_random(const json_t *golden) {
    size_t i, k;
    const json_t *vocabulary, *block;
    json_array_foreach(json_object_get(golden, "vocabularies"), i, vocabulary) {
        mx_text *text;
        CHECK_EQ_INT(mx_text_open((int)json_integer_value(json_object_get(vocabulary, "n_vocab")), &text), MXW_OK);
        check_encode(text, json_object_get(vocabulary, "strings"));
        json_array_foreach(json_object_get(vocabulary, "blocks"), k, block) {
            uint32_t first = (uint32_t)json_integer_value(json_object_get(block, "first"));
            if (!CHECK_EQ_INT(block_crc(text, first), json_integer_value(json_object_get(block, "crc"))))
                printf("    code points from U+%04X\n", (unsigned)first);
        }
        mx_text_close(text);
    }
}

/* Every id stands for something, and ids that do not exist are refused by name. */
static void check_ids(const mx_text *text) {
    const mx_text_special *s = mx_text_specials(text);
    size_t n, empty = 0;
    for (int32_t id = 0; id < s->n_vocab; id++) {
        const char *bytes = mx_text_token_bytes(text, id, &n);
        if (!bytes)
            CHECK_EQ_INT(id, -1);
        empty += n == 0;
        if (id >= s->eot && (n < 4 || memcmp(bytes, "<|", 2) != 0 || memcmp(bytes + n - 2, "|>", 2) != 0))
            CHECK_EQ_INT(id, -1);
        int32_t *again = NULL;
        size_t n_again;
        if (id >= s->eot) {
            CHECK_EQ_INT(mx_text_encode(text, bytes, n, &again, &n_again), MXW_E_ARGUMENT);
            CHECK_EQ_INT(mx_text_encode(text, bytes, n - 1, &again, &n_again), MXW_OK);
            mx_free(again);
        }
    }
    CHECK_EQ_INT(empty, s->multilingual); /* the odd last line of multilingual.tiktoken */
    const char *last = mx_text_token_bytes(text, s->n_vocab - 1, &n);
    CHECK(n == 9 && memcmp(last, "<|30.00|>", 9) == 0);
    CHECK(mx_text_token_bytes(text, -1, &n) == NULL && mx_text_token_bytes(text, s->n_vocab, &n) == NULL);
    const int32_t bad[] = {INT32_MIN, -1, s->n_vocab, INT32_MAX};
    for (size_t i = 0; i < MX_COUNT(bad); i++) {
        mx_str out = {0};
        char number[16];
        snprintf(number, sizeof(number), "token %d ", (int)bad[i]);
        CHECK_EQ_INT(mx_text_decode_with_timestamps(text, &bad[i], 1, &out), MXW_E_ARGUMENT);
        CHECK(strstr(mx_error(), number));
        /* Plain decoding skips whatever lies behind the first timestamp, as the reference does. */
        CHECK_EQ_INT(mx_text_decode(text, &bad[i], 1, &out), bad[i] < 0 ? MXW_E_ARGUMENT : MXW_OK);
        mx_str_free(&out);
    }
}

static void check_bad_utf8(const mx_text *text) {
    const char *const bad[] = {"\x80",
                               "ab\xff",
                               "\xC0\x80",
                               "\xE0\x9F\xBF",
                               "\xED\xA0\x80",
                               "\xF0\x8F\xBF\xBF",
                               "\xF4\x90\x80\x80",
                               "\xF5\x80\x80\x80",
                               "ok\xE2\x82",
                               "\xC3(",
                               "\xF0\x9F\x98"};
    for (size_t i = 0; i < MX_COUNT(bad); i++) {
        int32_t *ids = NULL;
        size_t n;
        CHECK_EQ_INT(mx_text_encode(text, bad[i], strlen(bad[i]), &ids, &n), MXW_E_ARGUMENT);
        CHECK(strstr(mx_error(), "not UTF-8"));
    }
    int32_t *ids = NULL;
    size_t n;
    CHECK_EQ_INT(mx_text_encode(text, "a", 0, &ids, &n), MXW_OK);
    CHECK_EQ_INT(n, 0);
    mx_free(ids);
}

/* A long text without a boundary: n log n, or the suite would time out. And back again. */
static void check_long_word(const mx_text *text) {
    const size_t n = 300000;
    char *word = mx_alloc(n);
    for (size_t i = 0; i < n; i++)
        word[i] = (char)('a' + (i * i / 7 + i / 3) % 23);
    int32_t *ids = NULL;
    size_t count = 0;
    mx_str back = {0};
    CHECK_EQ_INT(mx_text_encode(text, word, n, &ids, &count), MXW_OK);
    CHECK(count > n / 8 && count < n);
    CHECK_EQ_INT(mx_text_decode(text, ids, count, &back), MXW_OK);
    CHECK(back.n == n && memcmp(back.data, word, n) == 0);
    mx_str_free(&back);
    mx_free(ids);
    mx_free(word);
}

/* The public functions: the same vocabularies, arrays of the caller. */
static void check_public(void) {
    mxw_tokenizer *tokenizer = NULL;
    int32_t tokens[16] = {0};
    char text[64];
    size_t n = 1, bytes = 0;
    CHECK_EQ_INT(mxw_tokenizer_open(51863, &tokenizer), MXW_E_UNSUPPORTED);
    CHECK_EQ_INT(mxw_tokenizer_open(51864, NULL), MXW_E_ARGUMENT);
    if (!CHECK_EQ_INT(mxw_tokenizer_open(51864, &tokenizer), MXW_OK))
        return;
    CHECK_EQ_INT(mxw_tokenizer_encode(tokenizer, " Hello world", 12, tokens, &n), MXW_E_ARGUMENT);
    CHECK_EQ_INT(n, 2);   /* what it takes */
    CHECK_EQ_INT(mxw_tokenizer_encode(tokenizer, " Hello world", 12, tokens, &n), MXW_OK);
    const char *world = mxw_tokenizer_token(tokenizer, tokens[1], &bytes);
    CHECK(world && bytes == 6 && memcmp(world, " world", 6) == 0);
    tokens[2] = 50363 + 54;
    n = 12;
    CHECK_EQ_INT(mxw_tokenizer_decode(tokenizer, tokens, 3, 0, text, &n), MXW_E_ARGUMENT);
    CHECK_EQ_INT(n, 13);
    CHECK_EQ_INT(mxw_tokenizer_decode(tokenizer, tokens, 3, 0, text, &n), MXW_OK);
    CHECK_STR(text, " Hello world");
    n = sizeof(text);
    CHECK_EQ_INT(mxw_tokenizer_decode(tokenizer, tokens, 3, 1, text, &n), MXW_OK);
    CHECK_STR(text, " Hello world<|1.08|>");
    CHECK(!mxw_tokenizer_token(tokenizer, 51864, &bytes) && !mxw_tokenizer_token(tokenizer, -1, &bytes));
    mxw_tokenizer_close(tokenizer);
    mxw_tokenizer_close(NULL);
}

static void check_memory(void) {
    int64_t live = mx_mem_live();
    for (int64_t k = 0;; k++) {
        mx_text *text = NULL;
        int32_t *ids = NULL;
        size_t n = 0;
        mx_str out = {0};
        mx_mem_fail_after(k);
        mxw_status status = mx_text_open(51865, &text);
        if (status >= 0)
            status = mx_text_encode(text, " unverständlich", 16, &ids, &n);
        if (status >= 0)
            status = mx_text_decode(text, ids, n, &out);
        int64_t asked = mx_mem_count();
        mx_mem_fail_after(-1);
        CHECK(status >= 0 || status == MXW_E_MEMORY);
        if (status >= 0)
            CHECK_STR(mx_str_get(&out), " unverständlich");
        mx_str_free(&out);
        mx_free(ids);
        mx_text_close(text);
        CHECK_EQ_INT(mx_mem_live(), live);
        if (status >= 0 && asked <= k)
            break;
    }
}

int main(void) {
    json_t *golden = load("tests/golden/data/tokenizer.json");
    json_t *random_golden = load("tests/golden/data/tokenizer-random.json");
    size_t i;
    const json_t *vocabulary;
    json_array_foreach(json_object_get(golden, "vocabularies"), i, vocabulary) {
        mx_text *text = NULL;
        if (!CHECK_EQ_INT(mx_text_open((int)json_integer_value(json_object_get(vocabulary, "n_vocab")), &text), MXW_OK))
            continue;
        check_specials(text, vocabulary);
        check_encode(text, json_object_get(vocabulary, "encode"));
        check_decode(text, json_object_get(vocabulary, "decode"));
        check_refused(text, json_object_get(vocabulary, "refused"));
        check_ids(text);
        check_bad_utf8(text);
        check_long_word(text);
        mx_text_close(text);
    }
    CHECK_EQ_INT(i, 3);
    check_languages(golden);
    check_classes(random_golden);
    check_random(random_golden);
    check_public();
    check_memory();
    mx_text *none = NULL;
    const int sizes[] = {-1, 0, 51863, 51867, INT32_MAX};
    for (i = 0; i < MX_COUNT(sizes); i++)
        CHECK_EQ_INT(mx_text_open(sizes[i], &none), MXW_E_UNSUPPORTED);
    CHECK(none == NULL && strstr(mx_error(), "2147483647"));
    json_decref(golden);
    json_decref(random_golden);
    return check_done();
}
