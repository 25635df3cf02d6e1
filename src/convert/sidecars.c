/* convert/sidecars.c - the files that other programs need beside the weights. Each is copied from beside the checkpoint
 * where it has one, else made from its dimensions and the library's vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "convert/internal.h"

/* Adds to an object or a list; a failure is found once, at the end: jansson takes NULL and says so. */
#define SET(object, key, value) (bad |= json_object_set_new(object, key, value))
#define ADD(list, value) (bad |= json_array_append_new(list, value))

static int compare_ids(const void *a, const void *b) {
    return *(const int32_t *)a < *(const int32_t *)b ? -1 : *(const int32_t *)a > *(const int32_t *)b;
}

/* NULL instead of an object that lacks something. */
static json_t *checked(json_t *root, int bad) {
    if (bad)
        json_decref(root);
    return bad ? NULL : root;
}

json_t *mx_suppressed(const mx_conversion *c) {
    const mx_text_special *s = mx_text_specials(c->text);
    const int32_t special[] = {s->sot, s->translate, s->transcribe, s->sot_lm, s->sot_prev, s->no_speech};
    const int32_t *ids;
    size_t n;
    int bad = 0;
    mx_text_non_speech(c->text, &ids, &n);
    int32_t *all = mx_alloc_array(n + MX_COUNT(special), sizeof(*all));
    json_t *list = json_array();
    if (!all || !list) {
        mx_free(all);
        json_decref(list);
        return NULL;
    }
    memcpy(all, ids, n * sizeof(*all));
    memcpy(all + n, special, sizeof(special));
    qsort(all, n + MX_COUNT(special), sizeof(*all), compare_ids);
    for (size_t i = 0; i < n + MX_COUNT(special); i++)
        ADD(list, json_integer(all[i]));
    mx_free(all);
    return checked(list, bad);
}

static json_t *alignment_heads(const mx_conversion *c) {
    size_t n;
    int bad = 0;
    const int32_t(*heads)[2] = mx_weights_alignment_heads(c->w, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        ADD(list, json_pack("[i,i]", (int)heads[i][0], (int)heads[i][1]));
    return checked(list, bad);
}

/* A token as JSON; never fails on its text, which is UTF-8 by construction. */
static json_t *token_text(const mx_conversion *c, int32_t id) {
    mx_str text = {0};
    mx_text_byte_level(c->text, id, &text);
    json_t *value = mx_str_status(&text) < 0 ? NULL : json_stringn(mx_str_get(&text), text.n);
    mx_str_free(&text);
    return value;
}

/* ---- the tokenizer --------------------------------------------------------------------------------------- */

/* {token: id} of the texts; special tokens are added ones, but for the end of text. */
static json_t *vocabulary_object(const mx_conversion *c) {
    const mx_text_special *s = mx_text_specials(c->text);
    json_t *object = json_object();
    mx_str text = {0};
    int bad = 0;
    for (int32_t id = 0; id <= s->eot; id++) {
        mx_str_clear(&text);
        mx_text_byte_level(c->text, id, &text);
        SET(object, mx_str_get(&text), json_integer(id));
    }
    bad |= mx_str_status(&text) < 0;
    mx_str_free(&text);
    return checked(object, bad);
}

/* Lines "left right", or a list of such texts. */
static int add_merges(const mx_conversion *c, json_t *list, mx_str *lines) {
    const mx_text_special *s = mx_text_specials(c->text);
    mx_str text = {0};
    int bad = 0;
    for (int32_t id = 0, left, right; id < s->eot; id++) {
        if (!mx_text_merge(c->text, id, &left, &right))
            continue;
        mx_str_clear(&text);
        mx_text_byte_level(c->text, left, &text);
        mx_str_text(&text, " ");
        mx_text_byte_level(c->text, right, &text);
        if (list)
            ADD(list, json_stringn(mx_str_get(&text), text.n));
        else
            mx_str_print(lines, "%s\n", mx_str_get(&text));
    }
    bad |= mx_str_status(&text) < 0;
    mx_str_free(&text);
    return bad;
}

static json_t *added_tokens(const mx_conversion *c) {
    const mx_text_special *s = mx_text_specials(c->text);
    json_t *list = json_array();
    int bad = 0;
    for (int32_t id = s->eot; id < s->n_vocab; id++)
        ADD(list, json_pack("{s:i,s:o,s:b,s:b,s:b,s:b,s:b}", "id", (int)id, "content", token_text(c, id), "single_word",
                            0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", id < s->timestamp_begin));
    return checked(list, bad);
}

/* What a text is wrapped in: <|startoftranscript|><|notimestamps|> ... <|endoftext|>. */
static json_t *post_processor(const mx_conversion *c) {
    const mx_text_special *s = mx_text_specials(c->text);
    const struct {
        const char *name;
        int32_t id;
    } used[] = {{"<|startoftranscript|>", s->sot}, {"<|notimestamps|>", s->no_timestamps}, {"<|endoftext|>", s->eot}};
    json_t *special = json_object(), *root = NULL;
    int bad = special == NULL;
    for (size_t i = 0; i < MX_COUNT(used); i++)
        SET(special, used[i].name,
            json_pack("{s:s,s:[i],s:[s]}", "id", used[i].name, "ids", (int)used[i].id, "tokens", used[i].name));
#define SPECIAL(i) "SpecialToken", "id", used[i].name, "type_id", 0
    root =
        json_pack("{s:s,s:[{s:{s:s,s:i}},{s:{s:s,s:i}},{s:{s:s,s:i}},{s:{s:s,s:i}}],"
                  "s:[{s:{s:s,s:i}},{s:{s:s,s:i}},{s:{s:s,s:i}},{s:{s:s,s:i}},{s:{s:s,s:i}}],s:o}",
                  "type", "TemplateProcessing", "single", SPECIAL(0), SPECIAL(1), "Sequence", "id", "A", "type_id", 0,
                  SPECIAL(2), "pair", SPECIAL(0), SPECIAL(1), "Sequence", "id", "A", "type_id", 0, "Sequence", "id",
                  "B", "type_id", 1, "SpecialToken", "id", used[2].name, "type_id", 1, "special_tokens", special);
#undef SPECIAL
    return checked(root, bad);
}

static mxw_status make_tokenizer(mx_conversion *c, const char *folder) {
    json_t *merges = json_array();
    if (add_merges(c, merges, NULL)) {
        json_decref(merges);
        return mx_fail(MXW_E_MEMORY, "out of memory (merges)");
    }
    json_t *root = json_pack(
        "{s:s,s:n,s:n,s:o,s:n,s:{s:s,s:b,s:b,s:b},s:o,s:{s:s,s:b,s:b,s:b},s:{s:s,s:n,s:n,s:s,s:s,s:b,s:o,s:o}}",
        "version", "1.0", "truncation", "padding", "added_tokens", added_tokens(c), "normalizer", "pre_tokenizer",
        "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "post_processor",
        post_processor(c), "decoder", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1,
        "model", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix", "", "end_of_word_suffix", "",
        "fuse_unk", 0, "vocab", vocabulary_object(c), "merges", merges);
    return mx_save_json(folder, "tokenizer.json", root);
}

static mxw_status make_vocab(mx_conversion *c, const char *folder) {
    return mx_save_json(folder, "vocab.json", vocabulary_object(c));
}

static mxw_status make_merges(mx_conversion *c, const char *folder) {
    mx_str lines = {0};
    mx_str_text(&lines, "#version: 0.2\n");
    int bad = add_merges(c, NULL, &lines);
    mxw_status status = bad ? MXW_E_MEMORY : mx_str_status(&lines);
    if (status == MXW_OK)
        status = mx_save_text(folder, "merges.txt", lines.data, lines.n);
    mx_str_free(&lines);
    return status;
}

static mxw_status make_tokenizer_config(mx_conversion *c, const char *folder) {
    static const char eot[] = "<|endoftext|>";
    (void)c;
    return mx_save_json(folder, "tokenizer_config.json",
                        json_pack("{s:s,s:s,s:s,s:s,s:s,s:b,s:b,s:s,s:i,s:s}", "tokenizer_class", "WhisperTokenizer",
                                  "bos_token", eot, "eos_token", eot, "unk_token", eot, "pad_token", eot,
                                  "add_prefix_space", 0, "add_bos_token", 0, "errors", "replace", "model_max_length",
                                  1024, "processor_class", "WhisperProcessor"));
}

/* ---- configurations -------------------------------------------------------------------------------------- */

static mxw_status make_preprocessor(mx_conversion *c, const char *folder) {
    return mx_save_json(folder, "preprocessor_config.json",
                        json_pack("{s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:s,s:b,s:s}", "feature_extractor_type",
                                  "WhisperFeatureExtractor", "feature_size", (int)c->dims->n_mels, "sampling_rate",
                                  16000, "chunk_length", 30, "hop_length", 160, "n_fft", 400, "n_samples", 480000,
                                  "nb_max_frames", 3000, "padding_value", 0.0, "padding_side", "right",
                                  "return_attention_mask", 0, "processor_class", "WhisperProcessor"));
}

static mxw_status make_generation(mx_conversion *c, const char *folder) {
    const mx_text_special *s = mx_text_specials(c->text);
    json_t *languages = json_object();
    json_t *root =
        json_pack("{s:o,s:o,s:[i,i],s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:b}", "alignment_heads", alignment_heads(c),
                  "suppress_tokens", mx_suppressed(c), "begin_suppress_tokens", MX_TEXT_BLANK, (int)s->eot,
                  "bos_token_id", (int)s->eot, "eos_token_id", (int)s->eot, "pad_token_id", (int)s->eot,
                  "decoder_start_token_id", (int)s->sot, "prev_sot_token_id", (int)s->sot_prev,
                  "no_timestamps_token_id", (int)s->no_timestamps, "max_initial_timestamp_index", 50, "max_length",
                  (int)c->dims->n_text_ctx, "is_multilingual", (int)s->multilingual, "return_timestamps", 0);
    int bad = !root || !languages;
    for (int i = 0; s->multilingual && i < s->n_languages; i++) {
        char name[32];
        snprintf(name, sizeof(name), "<|%s|>", mx_language_code(i));
        SET(languages, name, json_integer(s->first_language + i));
    }
    if (s->multilingual) {
        SET(root, "lang_to_id", json_incref(languages));
        SET(root, "task_to_id",
            json_pack("{s:i,s:i}", "transcribe", (int)s->transcribe, "translate", (int)s->translate));
    }
    json_decref(languages);
    return mx_save_json(folder, "generation_config.json", checked(root, bad));
}

/* How vLLM and transformers are to read int8: codes for each row of a weight, activations as they come. */
static json_t *quantization(void) {
    return json_pack("{s:s,s:s,s:s,s:[s],s:{s:{s:[s],s:{s:i,s:s,s:s,s:b,s:b},s:{s:i,s:s,s:s,s:b,s:b}}}}",
                     "quant_method", "compressed-tensors", "format", "int-quantized", "quantization_status",
                     "compressed", "ignore", "proj_out", "config_groups", "group_0", "targets", "Linear", "weights",
                     "num_bits", 8, "type", "int", "strategy", "channel", "symmetric", 1, "dynamic", 0,
                     "input_activations", "num_bits", 8, "type", "int", "strategy", "token", "symmetric", 1, "dynamic",
                     1);
}

static mxw_status write_hf_config(mx_conversion *c, const char *folder) {
    const mxw_dims *d = c->dims;
    const mx_text_special *s = mx_text_specials(c->text);
    const char *type = c->rest.dtype == MXW_F32 ? "float32" : c->rest.dtype == MXW_F16 ? "float16" : "bfloat16";
    const struct {
        const char *name;
        int value;
    } wholes[] = {
        {"d_model", d->n_text_state},
        {"encoder_layers", d->n_audio_layer},
        {"encoder_attention_heads", d->n_audio_head},
        {"encoder_ffn_dim", 4 * d->n_audio_state},
        {"decoder_layers", d->n_text_layer},
        {"decoder_attention_heads", d->n_text_head},
        {"decoder_ffn_dim", 4 * d->n_text_state},
        {"num_hidden_layers", d->n_audio_layer},
        {"num_mel_bins", d->n_mels},
        {"vocab_size", d->n_vocab},
        {"max_source_positions", d->n_audio_ctx},
        {"max_target_positions", d->n_text_ctx},
        {"bos_token_id", s->eot},
        {"eos_token_id", s->eot},
        {"pad_token_id", s->eot},
        {"decoder_start_token_id", s->sot},
    };
    json_t *root =
        json_pack("{s:[s],s:s,s:s,s:b,s:b,s:b,s:b,s:f,s:s}", "architectures", "WhisperForConditionalGeneration",
                  "model_type", "whisper", "activation_function", "gelu", "scale_embedding", 0, "is_encoder_decoder", 1,
                  "use_cache", 1, "tie_word_embeddings", 1, "init_std", 0.02, "torch_dtype", type);
    int bad = !root;
    for (size_t i = 0; i < MX_COUNT(wholes); i++)
        SET(root, wholes[i].name, json_integer(wholes[i].value));
    if (c->matrices.int8)
        SET(root, "quantization_config", quantization());
    return mx_save_json(folder, "config.json", checked(root, bad));
}

static mxw_status write_ct2_config(mx_conversion *c, const char *folder) {
    const mx_text_special *s = mx_text_specials(c->text);
    json_t *languages = json_array();
    int bad = !languages;
    for (int i = 0; i < s->n_languages; i++)
        ADD(languages, json_integer(s->first_language + i));
    json_t *root =
        json_pack("{s:o,s:o,s:o,s:[i,i]}", "alignment_heads", alignment_heads(c), "lang_ids", checked(languages, bad),
                  "suppress_ids", mx_suppressed(c), "suppress_ids_begin", MX_TEXT_BLANK, (int)s->eot);
    return mx_save_json(folder, "config.json", root);
}

static mxw_status make_vocabulary(mx_conversion *c, const char *folder) {
    json_t *list = json_array();
    int bad = !list;
    for (int32_t id = 0; id < c->dims->n_vocab; id++)
        ADD(list, token_text(c, id));
    return mx_save_json(folder, "vocabulary.json", checked(list, bad));
}

/* ---- the folders ----------------------------------------------------------------------------------------- */

typedef struct piece {
    const char *leaf;
    mxw_status (*make)(mx_conversion *c, const char *folder); /* NULL: optional, only copied */
} piece;

static mxw_status write_pieces(mx_conversion *c, const char *folder, const piece *pieces, size_t n) {
    for (size_t i = 0; i < n; i++) {
        mxw_status status = mx_copy_beside(c, folder, pieces[i].leaf);
        if (status == MXW_E_NOT_FOUND && pieces[i].make) {
            mx_str_print(&c->made, "%s%s", c->made.n ? ", " : "", pieces[i].leaf);
            status = pieces[i].make(c, folder);
        }
        if (status < 0 && status != MXW_E_NOT_FOUND)
            return status;
    }
    return MXW_OK;
}

mxw_status mx_write_ct2_beside(mx_conversion *c, const char *folder) {
    static const piece pieces[] = {{"vocabulary.json", make_vocabulary},
                                   {"tokenizer.json", make_tokenizer},
                                   {"preprocessor_config.json", make_preprocessor}};
    mxw_status status = write_ct2_config(c, folder);
    return status < 0 ? status : write_pieces(c, folder, pieces, MX_COUNT(pieces));
}

mxw_status mx_write_hf_beside(mx_conversion *c, const char *folder) {
    static const piece pieces[] = {{"generation_config.json", make_generation},
                                   {"preprocessor_config.json", make_preprocessor},
                                   {"tokenizer.json", make_tokenizer},
                                   {"tokenizer_config.json", make_tokenizer_config},
                                   {"vocab.json", make_vocab},
                                   {"merges.txt", make_merges},
                                   {"normalizer.json", NULL},
                                   {"added_tokens.json", NULL},
                                   {"special_tokens_map.json", NULL}};
    mxw_status status = write_hf_config(c, folder);
    return status < 0 ? status : write_pieces(c, folder, pieces, MX_COUNT(pieces));
}
