/* convert/gguf.c - the GGUF file of version 3 that transcribe.cpp loads: settings, the list of tensors, their bytes,
 * each at a multiple of 32 (docs/formats.md has the layout). Names are those of weights/names/gguf.def; the settings
 * are those that transcribe.cpp's own converter writes. Vectors, positions and kernels are f32, as its loader expects.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/internal.h"
#include "feature/feature.h"

#define VERSION 3
#define ALIGNMENT 32
#define N_FFT 400

enum { TYPE_U32 = 4, TYPE_I32 = 5, TYPE_F32 = 6, TYPE_BOOL = 7, TYPE_STRING = 8, TYPE_ARRAY = 9 };
enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3 };

/* The file up to its tensors, in memory: a few MB, most of it the vocabulary. */
typedef struct head {
    mx_conversion *c;
    mx_str settings, tensors;
    uint64_t n_settings, n_tensors, at; /* at: bytes of data so far */
} head;

/* ---- settings ------------------------------------------------------------------------------------------------ */

static void add_text(mx_str *s, const char *text, size_t n) {
    mx_add(s, n, 8);
    mx_str_add(s, text, n);
}

static void add_key(head *h, const char *key, int type) {
    add_text(&h->settings, key, strlen(key));
    mx_add(&h->settings, (uint64_t)type, 4);
    h->n_settings++;
}

static void add_string(head *h, const char *key, const char *value) {
    add_key(h, key, TYPE_STRING);
    add_text(&h->settings, value, strlen(value));
}

static void add_u32(head *h, const char *key, int64_t value) {
    add_key(h, key, TYPE_U32);
    mx_add(&h->settings, (uint64_t)value, 4);
}

static void add_bool(head *h, const char *key, int value) {
    add_key(h, key, TYPE_BOOL);
    mx_add(&h->settings, value != 0, 1);
}

static void add_f32(head *h, const char *key, float value) {
    add_key(h, key, TYPE_F32);
    mx_str_add(&h->settings, &value, sizeof(value));
}

static void add_array(head *h, const char *key, int type, uint64_t n) {
    add_key(h, key, TYPE_ARRAY);
    mx_add(&h->settings, (uint64_t)type, 4);
    mx_add(&h->settings, n, 8);
}

static void add_general(head *h) {
    const mx_text_special *s = mx_text_specials(h->c->text);
    const int n = s->multilingual ? s->n_languages : 1;
    char variant[64];
    snprintf(variant, sizeof(variant), "whisper-%s", h->c->info.size_name);
    add_string(h, "general.architecture", "whisper");
    add_string(h, "general.type", "model");
    add_string(h, "general.name", variant);
    add_array(h, "general.languages", TYPE_STRING, (uint64_t)n);
    for (int i = 0; i < n; i++)
        add_text(&h->settings, mx_language_code(i), strlen(mx_language_code(i)));
    add_string(h, "stt.variant", variant);
    add_bool(h, "stt.capability.lang_detect", s->multilingual);
    add_bool(h, "stt.capability.translate", s->multilingual);
    add_bool(h, "stt.capability.timestamps", 1);
    if (s->multilingual) {
        add_array(h, "stt.translation.target_languages", TYPE_STRING, 1);
        add_text(&h->settings, "en", 2);
    }
}

static void add_model(head *h) {
    const mxw_dims *d = h->c->dims;
    add_u32(h, "stt.whisper.encoder.n_layers", d->n_audio_layer);
    add_u32(h, "stt.whisper.encoder.d_model", d->n_audio_state);
    add_u32(h, "stt.whisper.encoder.n_heads", d->n_audio_head);
    add_u32(h, "stt.whisper.encoder.ffn_dim", 4 * (int64_t)d->n_audio_state);
    add_u32(h, "stt.whisper.encoder.num_mel_bins", d->n_mels);
    add_u32(h, "stt.whisper.encoder.max_source_positions", d->n_audio_ctx);
    add_string(h, "stt.whisper.encoder.activation", "gelu");
    add_u32(h, "stt.whisper.decoder.n_layers", d->n_text_layer);
    add_u32(h, "stt.whisper.decoder.d_model", d->n_text_state);
    add_u32(h, "stt.whisper.decoder.n_heads", d->n_text_head);
    add_u32(h, "stt.whisper.decoder.ffn_dim", 4 * (int64_t)d->n_text_state);
    add_u32(h, "stt.whisper.decoder.max_target_positions", d->n_text_ctx);
    add_u32(h, "stt.whisper.decoder.vocab_size", d->n_vocab);
    add_string(h, "stt.whisper.decoder.activation", "gelu");
    add_bool(h, "stt.whisper.decoder.tie_word_embeddings", 1);
    add_bool(h, "stt.whisper.decoder.scale_embedding", 0);
}

static mxw_status add_decoding(head *h) {
    const mx_text_special *s = mx_text_specials(h->c->text);
    json_t *ids = mx_suppressed(h->c), *id;
    size_t i;
    if (!ids)
        return mx_fail(MXW_E_MEMORY, "out of memory (JSON)");
    add_u32(h, "stt.whisper.decoder_start_token_id", s->sot);
    add_u32(h, "stt.whisper.no_timestamps_token_id", s->no_timestamps);
    add_u32(h, "stt.whisper.sot_token_id", s->sot);
    add_u32(h, "stt.whisper.transcribe_token_id", s->transcribe);
    add_u32(h, "stt.whisper.translate_token_id", s->translate);
    add_u32(h, "stt.whisper.prev_sot_token_id", s->sot_prev);
    add_array(h, "stt.whisper.suppress_tokens", TYPE_I32, json_array_size(ids));
    json_array_foreach(ids, i, id) mx_add(&h->settings, (uint64_t)json_integer_value(id), 4);
    json_decref(ids);
    add_array(h, "stt.whisper.begin_suppress_tokens", TYPE_I32, 2);
    mx_add(&h->settings, MX_TEXT_BLANK, 4);
    mx_add(&h->settings, (uint64_t)s->eot, 4);
    return MXW_OK;
}

static void add_frontend(head *h) {
    add_string(h, "stt.frontend.type", "mel");
    add_u32(h, "stt.frontend.num_mels", h->c->dims->n_mels);
    add_u32(h, "stt.frontend.sample_rate", 16000);
    add_u32(h, "stt.frontend.n_fft", N_FFT);
    add_u32(h, "stt.frontend.win_length", N_FFT);
    add_u32(h, "stt.frontend.hop_length", 160);
    add_string(h, "stt.frontend.window", "hann_periodic");
    add_string(h, "stt.frontend.normalize", "whisper_logmel");
    add_f32(h, "stt.frontend.dither", 0);
    add_f32(h, "stt.frontend.pre_emphasis", 0);
    add_f32(h, "stt.frontend.f_min", 0);
    add_f32(h, "stt.frontend.f_max", 8000);
    add_string(h, "stt.frontend.pad_mode", "reflect");
    add_bool(h, "stt.frontend.center", 1);
    add_string(h, "stt.frontend.mel_norm", "slaney");
    add_u32(h, "stt.frontend.chunk_length", 30);
    add_u32(h, "stt.frontend.n_samples", 480000);
    add_u32(h, "stt.frontend.nb_max_frames", 3000);
}

/* Last, so that a reader of the settings alone need not read the vocabulary. */
static void add_tokenizer(head *h) {
    const mx_text_special *s = mx_text_specials(h->c->text);
    mx_str text = {0}, merges = {0};
    uint64_t n_merges = 0;
    add_string(h, "tokenizer.ggml.model", "gpt2");
    add_string(h, "tokenizer.ggml.pre", "gpt2");
    add_u32(h, "tokenizer.ggml.bos_token_id", s->eot);
    add_u32(h, "tokenizer.ggml.eos_token_id", s->eot);
    add_u32(h, "tokenizer.ggml.padding_token_id", s->eot);
    add_bool(h, "tokenizer.ggml.add_bos_token", 0);
    add_array(h, "tokenizer.ggml.tokens", TYPE_STRING, (uint64_t)s->n_vocab);
    for (int32_t id = 0, left, right; id < s->n_vocab; id++) {
        mx_str_clear(&text);
        mx_text_byte_level(h->c->text, id, &text);
        add_text(&h->settings, mx_str_get(&text), text.n);
        if (!mx_text_merge(h->c->text, id, &left, &right))
            continue;
        mx_str_clear(&text);
        mx_text_byte_level(h->c->text, left, &text);
        mx_str_text(&text, " ");
        mx_text_byte_level(h->c->text, right, &text);
        add_text(&merges, mx_str_get(&text), text.n);
        n_merges++;
    }
    add_array(h, "tokenizer.ggml.token_type", TYPE_I32, (uint64_t)s->n_vocab);
    for (int32_t id = 0; id < s->n_vocab; id++)
        mx_add(&h->settings, id >= s->eot && id < s->timestamp_begin ? TOKEN_CONTROL : TOKEN_NORMAL, 4);
    add_array(h, "tokenizer.ggml.merges", TYPE_STRING, n_merges);
    mx_str_add(&h->settings, mx_str_get(&merges), merges.n);
    if (mx_str_status(&text) < 0 || mx_str_status(&merges) < 0)
        h->settings.status = MXW_E_MEMORY;
    mx_str_free(&text);
    mx_str_free(&merges);
}

/* ---- tensors ------------------------------------------------------------------------------------------------- */

static uint64_t aligned(uint64_t x) { return (x + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1); }

static uint32_t type_number(const mx_target *t) {
    return t->blocks ? t->blocks->id : t->dtype == MXW_F32 ? 0 : t->dtype == MXW_F16 ? 1 : 30;
}

static void list_tensor(head *h, const char *name, const mx_tensor *view, const mx_target *t) {
    add_text(&h->tensors, name, strlen(name));
    mx_add(&h->tensors, (uint64_t)view->rank, 4);
    for (int i = view->rank - 1; i >= 0; i--)
        mx_add(&h->tensors, (uint64_t)view->dims[i], 8);
    mx_add(&h->tensors, type_number(t), 4);
    mx_add(&h->tensors, h->at, 8);
    h->at = aligned(h->at + mx_target_bytes(t, view));
    h->n_tensors++;
}

static mx_target type_of(const mx_conversion *c, int64_t i, const mx_tensor *view, const char *name) {
    return mx_is_matrix(view, name) ? mx_target_of(c, i, &c->matrices) : mx_plain(MXW_F32);
}

static mxw_status list_tensors(head *h, const mx_tensor *filters, const mx_tensor *window) {
    const mx_target f32 = mx_plain(MXW_F32);
    list_tensor(h, "frontend.mel_filterbank", filters, &f32);
    list_tensor(h, "frontend.window", window, &f32);
    for (int64_t i = 0; i < mx_weights_count(h->c->w); i++) {
        mx_tensor_source source;
        mxw_tensor_info info;
        mx_tensor view;
        mxw_status status = mx_weights_tensor(h->c->w, i, &info, &view);
        if (status < 0)
            return status;
        const mx_arch_tensor arch = mx_arch_get(h->c->dims, i);
        const mx_target t = type_of(h->c, i, &view, info.name);
        mx_names_gguf.source(arch.pattern, arch.layer, &source);
        list_tensor(h, source.name, &view, &t);
    }
    return MXW_OK;
}

static mxw_status put_padded(mx_save *save, const void *data, size_t n) {
    static const char zeros[ALIGNMENT];
    mxw_status status = mx_save_write(save, data, n);
    return status < 0 ? status : mx_save_write(save, zeros, (size_t)(aligned(n) - n));
}

static mxw_status put_tensors(head *h, mx_save *save) {
    mx_conversion *c = h->c;
    mxw_status status = MXW_OK;
    for (int64_t i = 0; i < mx_weights_count(c->w) && status == MXW_OK; i++) {
        mxw_tensor_info info;
        mx_tensor view;
        mx_values values = {0};
        status = mx_weights_tensor(c->w, i, &info, &view);
        const mx_target t = type_of(c, i, &view, info.name);
        if (status == MXW_OK)
            status = mx_values_read(c, i, &t, &values);
        if (status == MXW_OK)
            status = put_padded(save, values.data, values.n);
        mx_values_free(&values);
    }
    return status;
}

static mxw_status put_head(head *h, mx_save *save) {
    mx_str s = {0};
    mxw_status status;
    mx_str_text(&s, "GGUF");
    mx_add(&s, VERSION, 4);
    mx_add(&s, h->n_tensors, 8);
    mx_add(&s, h->n_settings, 8);
    mx_str_add(&s, mx_str_get(&h->settings), h->settings.n);
    mx_str_add(&s, mx_str_get(&h->tensors), h->tensors.n);
    MX_TRY(mx_str_status(&h->settings));
    MX_TRY(mx_str_status(&h->tensors));
    MX_TRY(mx_str_status(&s));
    MX_TRY(put_padded(save, s.data, s.n));
out:
    mx_str_free(&s);
    return status;
}

mxw_status mx_write_gguf(mx_conversion *c) {
    head h = {.c = c};
    mx_save *save = NULL;
    float window[N_FFT];
    mxw_status status;
    float *filters = mx_alloc_array((size_t)c->dims->n_mels * MX_MEL_BINS, sizeof(*filters));
    if (!filters)
        return MXW_E_MEMORY;
    for (int i = 0; i < N_FFT; i++)
        window[i] = (float)(0.5 - 0.5 * cos(2.0 * 3.14159265358979323846 * i / N_FFT));
    mx_tensor bank = mx_tensor_of(MXW_F32, 2, (int64_t[]){c->dims->n_mels, MX_MEL_BINS}, filters);
    mx_tensor hann = mx_tensor_of(MXW_F32, 1, (int64_t[]){N_FFT}, window);
    MX_TRY(mx_mel_filters(c->dims->n_mels, filters));
    add_general(&h);
    add_model(&h);
    MX_TRY(add_decoding(&h));
    add_frontend(&h);
    add_tokenizer(&h);
    MX_TRY(list_tensors(&h, &bank, &hann));
    MX_TRY(mx_save_open(c->path, &save));
    MX_TRY(put_head(&h, save));
    MX_TRY(put_padded(save, filters, mx_tensor_bytes(&bank)));
    MX_TRY(put_padded(save, window, sizeof(window)));
    MX_TRY(put_tensors(&h, save));
    status = mx_save_commit(save);
    save = NULL;
out:
    mx_save_abort(save);
    mx_free(filters);
    mx_str_free(&h.settings);
    mx_str_free(&h.tensors);
    return status;
}
