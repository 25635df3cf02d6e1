/* cli/info/model.c - `model list`, `model inspect`: checkpoints, without running them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/json_writer.h"
#include "common/log.h"
#include "common/model.h"
#include "common/stdout.h"

typedef struct model_options {
    common_options common;
    const char *model_dir;
    int json, tensors;
} model_options;

/* A table reads by rows. */
/* clang-format off */
static const option_row list_rows[] = {
    MODEL_DIR_ROW(model_options, model_dir),
    JSON_ROW(model_options, json),
    COMMON_ROWS,
    {.name = NULL},
};

static const option_row inspect_rows[] = {
    MODEL_DIR_ROW(model_options, model_dir),
    JSON_ROW(model_options, json),
    {.name = "tensors", .kind = OPTION_FLAG, .fallback = "False", .group = "Output",
     .target = offsetof(model_options, tensors),
     .help = "Also list every tensor: type and bits in the file, shape, bytes, CRC-32, name."},
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

/* ---- list ----------------------------------------------------------------------------------------------- */

/* Where model i was found: a line for each place, or a list of them. */
static void list_places(json_writer *json, const char *name, int i, const model_options *options) {
    const char *path, *source;
    int n = 0;
    if (json) {
        json_begin(json, NULL);
        json_text(json, "name", name);
        json_text(json, "path", mxw_model_location(i, options->model_dir, 0, NULL));
        json_list(json, "places");
    }
    for (; (path = mxw_model_location(i, options->model_dir, n, &source)); n++) {
        if (!json) {
            out_print("  %-18s %s (%s)\n", n ? "" : name, path, source);
            continue;
        }
        json_begin(json, NULL);
        json_text(json, "path", path);
        json_text(json, "source", source);
        json_end(json);
    }
    if (!json && n == 0)
        out_print("  %-18s -\n", name);
    if (json) {
        json_end(json);
        json_end(json);
    }
}

/* The weights of speech detection: not a model that transcribes, so on a line of their own. */
static void list_vad(json_writer *json, const model_options *options) {
    const char *path = mxw_vad_location(NULL, options->model_dir);
    if (!json) {
        out_print("  %-18s %s\n", MXW_VAD_MODEL, path ? path : "-");
        return;
    }
    json_begin(json, "vad");
    json_text(json, "name", MXW_VAD_MODEL);
    json_text(json, "path", path);
    json_end(json);
}

static int run_list(const void *chosen, char **words, int n_words) {
    const model_options *options = chosen;
    (void)words;
    (void)n_words;
    const char *name;
    json_writer json;
    json_start(&json, stdout, 1);
    if (options->json) {
        json_begin(&json, NULL);
        json_text(&json, "model_dir", mxw_model_dir(options->model_dir));
        json_list(&json, "models");
    } else {
        out_print("models in %s%s\n", mxw_model_dir(options->model_dir),
                  options->model_dir ? "" : " and in the caches of openai-whisper, Hugging Face, faster-whisper, "
                                            "whisper.cpp, transcribe.cpp and MLX");
    }
    for (int i = 0; (name = mxw_model_name(i, options->model_dir, NULL)); i++)
        list_places(options->json ? &json : NULL, name, i, options);
    if (options->json) {
        json_end(&json);
        list_vad(&json, options);
        json_end(&json);
    } else {
        list_vad(NULL, options);
        out_text("a model marked - is not here: 'max-whisper model fetch NAME' gets it; --model takes any path\n");
    }
    return EXIT_OK;
}

/* ---- inspect -------------------------------------------------------------------------------------------- */

static const char *const dtype_names[] = {"f32", "f16", "bf16", "i32", "i8", "u8", "i64", "f64"};
enum { N_DTYPES = sizeof(dtype_names) / sizeof(dtype_names[0]) };

static const char *dtype_name(mxw_dtype dtype) { return (unsigned)dtype < N_DTYPES ? dtype_names[dtype] : "unknown"; }

/* The tensors that a file has in one of its types. */
typedef struct stored_type {
    const char *name;
    int64_t tensors;
    uint64_t bytes, elements;
} stored_type;

enum { MAX_STORED = 32 };

typedef struct summary {
    int64_t tensors[N_DTYPES]; /* as they are read */
    stored_type stored[MAX_STORED];
    int n_stored;
    int64_t mapped;
    char sha256[65];       /* of an OpenAI .pt of a released size; else empty */
    const char *published; /* what OpenAI published for it */
    uint32_t checksum; /* CRC-32 over the tensors' CRCs, each as 4 bytes, low one first, in order */
} summary;

static uint32_t crc32_add(uint32_t crc, uint32_t word) {
    crc = ~crc;
    for (int i = 0; i < 4; i++) {
        crc ^= word >> (8 * i) & 255;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1)));
    }
    return ~crc;
}

static uint64_t elements(const mxw_tensor_info *tensor) {
    uint64_t n = 1;
    for (int d = 0; d < tensor->rank; d++)
        n *= (uint64_t)tensor->dims[d];
    return n;
}

/* Bits of a weight in the file, scales included. */
static double bits(uint64_t bytes, uint64_t n) { return n ? 8.0 * (double)bytes / (double)n : 0; }

static void count_stored(summary *s, const mxw_tensor_info *tensor) {
    int i = 0;
    while (i < s->n_stored && strcmp(s->stored[i].name, tensor->stored) != 0)
        i++;
    if (i == MAX_STORED)
        return;
    if (i == s->n_stored)
        s->stored[s->n_stored++] = (stored_type){.name = tensor->stored};
    s->stored[i].tensors++;
    s->stored[i].bytes += tensor->stored_bytes;
    s->stored[i].elements += elements(tensor);
}

static mxw_status summarize(const mxw_checkpoint *checkpoint, int64_t n, summary *s) {
    memset(s, 0, sizeof(*s));
    for (int64_t i = 0; i < n; i++) {
        mxw_tensor_info tensor = {.struct_size = sizeof(tensor)};
        uint32_t crc;
        mxw_status status = mxw_checkpoint_tensor(checkpoint, i, &tensor);
        if (status >= 0)
            status = mxw_checkpoint_crc32(checkpoint, i, &crc);
        if (status < 0)
            return status;
        if ((unsigned)tensor.dtype < N_DTYPES)
            s->tensors[tensor.dtype]++;
        count_stored(s, &tensor);
        s->mapped += tensor.mapped != 0;
        s->checksum = crc32_add(s->checksum, crc);
    }
    return MXW_OK;
}

/* Only where there is one to compare with: reading gigabytes for nothing helps nobody. */
static mxw_status hash_file(const mxw_checkpoint *checkpoint, const mxw_checkpoint_info *info, summary *s) {
    if (strcmp(info->format, "OpenAI .pt") != 0 || strcmp(info->size_name, "custom") == 0)
        return MXW_OK;
    mxw_status status = mxw_checkpoint_sha256(checkpoint, s->sha256, &s->published);
    if (!s->published)
        s->sha256[0] = 0;
    return status;
}

static const struct {
    const char *name;
    size_t offset;
} dimension_rows[] = {
    {"n_mels", offsetof(mxw_dims, n_mels)},
    {"n_audio_ctx", offsetof(mxw_dims, n_audio_ctx)},
    {"n_audio_state", offsetof(mxw_dims, n_audio_state)},
    {"n_audio_head", offsetof(mxw_dims, n_audio_head)},
    {"n_audio_layer", offsetof(mxw_dims, n_audio_layer)},
    {"n_vocab", offsetof(mxw_dims, n_vocab)},
    {"n_text_ctx", offsetof(mxw_dims, n_text_ctx)},
    {"n_text_state", offsetof(mxw_dims, n_text_state)},
    {"n_text_head", offsetof(mxw_dims, n_text_head)},
    {"n_text_layer", offsetof(mxw_dims, n_text_layer)},
};
enum { N_DIMENSIONS = sizeof(dimension_rows) / sizeof(dimension_rows[0]) };

static int dimension(const mxw_dims *dims, int i) {
    return (int)*(const int32_t *)((const char *)dims + dimension_rows[i].offset);
}

static void print_info(const mxw_checkpoint_info *info, const summary *s) {
    out_print("file        %s\nformat      %s, %" PRIu64 " bytes\n", info->path, info->format, info->file_bytes);
    out_print("size        %s, %s\n", info->size_name, info->multilingual ? "multilingual" : "English only");
    if (info->multilingual)
        out_print("languages   %d\n", info->n_languages);
    for (int i = 0; i < N_DIMENSIONS; i++)
        out_print("%s%s %d%s", i % 5 ? "  " : "dimensions  ", dimension_rows[i].name, dimension(info->dims, i),
                  i % 5 == 4 ? "\n" : "");
    out_print("tensors     %" PRId64 ": encoder %" PRId64 " + decoder %" PRId64 "; %" PRId64
              " readable from the file's pages\n",
              info->n_tensors, info->n_encoder_tensors, info->n_decoder_tensors, s->mapped);
    for (int i = 0; i < s->n_stored; i++)
        out_print("dtype       %s: %" PRId64 " tensors, %.4g bits, %" PRIu64 " bytes\n", s->stored[i].name,
                  s->stored[i].tensors, bits(s->stored[i].bytes, s->stored[i].elements), s->stored[i].bytes);
    out_print("parameters  %" PRId64 "\nchecksum    %08" PRIx32 " (CRC-32 of the tensors' CRC-32s)\n",
              info->n_parameters, s->checksum);
    if (s->sha256[0])
        out_print("sha256      %s (%s)\n", s->sha256,
                  strcmp(s->sha256, s->published) == 0 ? "OpenAI's own file" : "not the one that OpenAI published");
}

/* What the checkpoint lacks and what stands in for it: lines, or a list. */
static void list_missing(json_writer *json, const mxw_checkpoint *checkpoint) {
    const char *piece, *instead;
    if (json)
        json_list(json, "missing");
    for (int i = 0; (piece = mxw_checkpoint_missing(checkpoint, i, &instead)); i++) {
        if (!json) {
            out_print("missing     %s: %s\n", piece, instead);
            continue;
        }
        json_begin(json, NULL);
        json_text(json, "piece", piece);
        json_text(json, "instead", instead);
        json_end(json);
    }
    if (json)
        json_end(json);
}

static void write_info(json_writer *json, const mxw_checkpoint_info *info, const summary *s) {
    char checksum[16];
    snprintf(checksum, sizeof(checksum), "%08" PRIx32, s->checksum);
    json_text(json, "file", info->path);
    json_text(json, "format", info->format);
    json_whole(json, "file_bytes", (int64_t)info->file_bytes);
    json_text(json, "size", info->size_name);
    json_bool(json, "multilingual", info->multilingual);
    json_whole(json, "n_languages", info->n_languages);
    json_begin(json, "dims");
    for (int i = 0; i < N_DIMENSIONS; i++)
        json_whole(json, dimension_rows[i].name, dimension(info->dims, i));
    json_end(json);
    json_whole(json, "n_tensors", info->n_tensors);
    json_whole(json, "n_encoder_tensors", info->n_encoder_tensors);
    json_whole(json, "n_decoder_tensors", info->n_decoder_tensors);
    json_whole(json, "n_mapped_tensors", s->mapped);
    json_begin(json, "dtypes");
    for (int i = 0; i < N_DTYPES; i++)
        if (s->tensors[i])
            json_whole(json, dtype_names[i], s->tensors[i]);
    json_end(json);
    json_begin(json, "stored");
    for (int i = 0; i < s->n_stored; i++)
        json_whole(json, s->stored[i].name, s->stored[i].tensors);
    json_end(json);
    json_whole(json, "n_parameters", info->n_parameters);
    json_text(json, "checksum", checksum);
    if (s->sha256[0]) {
        json_text(json, "sha256", s->sha256);
        json_bool(json, "sha256_is_published", strcmp(s->sha256, s->published) == 0);
    }
}

static void write_tensor(json_writer *json, const mxw_tensor_info *tensor, const char *crc) {
    json_begin(json, NULL);
    json_text(json, "name", tensor->name);
    json_text(json, "file_name", tensor->file_name);
    json_text(json, "dtype", dtype_name(tensor->dtype));
    json_wholes(json, "shape", tensor->dims, tensor->rank);
    json_whole(json, "bytes", (int64_t)tensor->bytes);
    json_bool(json, "mapped", tensor->mapped);
    json_text(json, "crc32", crc);
    json_text(json, "stored", tensor->stored);
    json_whole(json, "stored_bytes", (int64_t)tensor->stored_bytes);
    json_number(json, "bits", bits(tensor->stored_bytes, elements(tensor)), 4);
    json_end(json);
}

static void print_tensor(const mxw_tensor_info *tensor, const char *crc) {
    char shape[160] = "";
    for (int d = 0; d < tensor->rank; d++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof(shape) - used, "%s%" PRId64, d ? "x" : "", tensor->dims[d]);
    }
    out_print("%s  %-5s %6.4g %-14s %10" PRIu64 "  %s\n", crc, tensor->stored,
              bits(tensor->stored_bytes, elements(tensor)), shape, tensor->stored_bytes, tensor->name);
}

/* Each tensor as a line, or as a member of the JSON list. */
static mxw_status list_tensors(const mxw_checkpoint *checkpoint, int64_t n, json_writer *json) {
    mxw_status status = MXW_OK;
    for (int64_t i = 0; i < n && status >= 0; i++) {
        mxw_tensor_info tensor = {.struct_size = sizeof(tensor)};
        uint32_t crc = 0;
        char crc_text[16];
        status = mxw_checkpoint_tensor(checkpoint, i, &tensor);
        if (status >= 0)
            status = mxw_checkpoint_crc32(checkpoint, i, &crc);
        if (status < 0)
            break;
        snprintf(crc_text, sizeof(crc_text), "%08" PRIx32, crc);
        if (json)
            write_tensor(json, &tensor, crc_text);
        else
            print_tensor(&tensor, crc_text);
    }
    return status;
}

static mxw_status inspect(const mxw_checkpoint *checkpoint, const model_options *options) {
    mxw_checkpoint_info info = {.struct_size = sizeof(info)};
    summary s;
    mxw_status status = mxw_checkpoint_get_info(checkpoint, &info);
    if (status >= 0)
        status = summarize(checkpoint, info.n_tensors, &s);
    if (status >= 0)
        status = hash_file(checkpoint, &info, &s);
    if (status < 0)
        return status;
    if (!options->json) {
        print_info(&info, &s);
        list_missing(NULL, checkpoint);
        return options->tensors ? list_tensors(checkpoint, info.n_tensors, NULL) : MXW_OK;
    }
    json_writer json;
    json_start(&json, stdout, 1);
    json_begin(&json, NULL);
    write_info(&json, &info, &s);
    list_missing(&json, checkpoint);
    if (options->tensors) {
        json_list(&json, "tensors");
        status = list_tensors(checkpoint, info.n_tensors, &json);
        json_end(&json);
    }
    json_end(&json);
    return status;
}

static mxw_status try_vad(const model_options *options, int sample_rate) {
    mxw_vad_options vad;
    mxw_vad *opened = NULL;
    mxw_vad_options_default(&vad);
    vad.model_dir = options->model_dir;
    vad.sample_rate = sample_rate;
    mxw_status status = mxw_vad_open(&vad, &opened);
    mxw_vad_close(opened);
    return status;
}

/* The weights of speech detection are no checkpoint: where they are, and for which rates. */
static int inspect_vad(const model_options *options) {
    struct stat info = {0};
    mxw_status status = try_vad(options, 16000);
    const char *path = mxw_vad_location(NULL, options->model_dir);
    if (status < 0 || !path || stat(path, &info)) {
        log_failure(NULL, status);
        return EXIT_FAILED;
    }
    int both = try_vad(options, 8000) >= 0;
    if (!options->json) {
        out_print("file        %s\nformat      %s, %lld bytes\npurpose     speech detection, %s\n", path,
                  both ? "Silero VAD .jit" : "Silero VAD safetensors", (long long)info.st_size,
                  both ? "16 and 8 kHz" : "16 kHz");
        return EXIT_OK;
    }
    json_writer json;
    json_start(&json, stdout, 1);
    json_begin(&json, NULL);
    json_text(&json, "file", path);
    json_text(&json, "format", both ? "Silero VAD .jit" : "Silero VAD safetensors");
    json_whole(&json, "file_bytes", (int64_t)info.st_size);
    json_wholes(&json, "sample_rates", (int64_t[]){16000, 8000}, both ? 2 : 1);
    json_end(&json);
    return EXIT_OK;
}

static int run_inspect(const void *chosen, char **words, int n_words) {
    const model_options *options = chosen;
    mxw_checkpoint *checkpoint = NULL;
    const char *name = n_words ? words[0] : "tiny.en";
    if (!strcmp(name, MXW_VAD_MODEL))
        return inspect_vad(options);
    int exit_status = open_checkpoint(name, options->model_dir, &checkpoint);
    if (exit_status == EXIT_OK) {
        mxw_status status = inspect(checkpoint, options);
        if (status < 0) {
            log_failure(name, status);
            exit_status = EXIT_FAILED;
        }
    }
    mxw_checkpoint_close(checkpoint);
    return exit_status;
}

const command command_model_list = {
    .arguments = "",
    .summary = "List the released models and where each was found.",
    .options = list_rows,
    .options_size = sizeof(model_options),
    .run = run_list,
};

const command command_model_inspect = {
    .arguments = "[MODEL]",
    .max_words = 1,
    .summary = "Show what is in a checkpoint: format, dimensions, types, parameters, checksums, what it lacks.",
    .details = "MODEL is a released name, OWNER/NAME from the Hugging Face hub, a checkpoint file or its folder; the "
               "default is tiny.en.",
    .options = inspect_rows,
    .options_size = sizeof(model_options),
    .values = model_value,
    .run = run_inspect,
};
