/* pipeline/recognizer.c - opens a checkpoint: weights, tokenizer, graphs, programs. */
#include "pipeline/recognizer.h"

#include <pthread.h>
#include <string.h>
#include <zlib.h>

#include "base/base.h"
#include "model/model.h"
#include "pipeline/batch/batcher.h"

static const struct {
    const char *name;
    mxw_status (*build)(const mxw_dims *dims, mx_graph **out);
    const char *sizes;   /* of a typical run, for which a plan is printed */
} parts[MX_PART_COUNT] = {
    [MX_PART_ENCODER] = {"encoder", mx_model_encoder, "windows=1"},
    [MX_PART_CROSS] = {"cross", mx_model_cross, "windows=1,slots=1"},
    [MX_PART_DECODER] = {"decoder", mx_model_decoder,
                         "rows=5,sequences=5,picks=5,candidates=6,sets=4,slots=1,cells=2240"},
    [MX_PART_FORCE] = {"force", NULL,
                       "rows=100,sequences=1,picks=98,aligned=100,candidates=1,sets=4,slots=1,cells=2240"},
};

/* Windows that an accelerator encodes in one run, if that many are waiting. A single one keeps all cores of a CPU busy.
 */
#define MX_ENCODE_WIDTH 16

static mxw_status find_weight(void *context, const char *name, mx_tensor *out) {
    const mx_recognizer *r = context;
    mxw_status status = mx_weights_find(r->weights, name, out);
    return status >= 0 && r->hooks.weight ? r->hooks.weight(r->hooks.context, name, out) : status;
}

static mxw_status build_part(mx_recognizer *r, int part) {
    mx_alignment alignment;
    if (part != MX_PART_FORCE)
        return parts[part].build(r->checkpoint.dims, &r->graphs[part]);
    alignment.heads = mx_weights_alignment_heads(r->weights, &alignment.n);
    return mx_model_force(r->checkpoint.dims, &alignment, &r->graphs[part]);
}

static void prefetch(void *context) {
    const mx_recognizer *r = context;
    mx_weights_prefetch(r->weights);
}

static mxw_status open_parts(mx_recognizer *r, const mxw_model_options *options, const mxw_lab_options *lab) {
    mx_weight_source source = {find_weight, r};
    mx_program_options program = {.engine = options->engine, .device = options->device, .pool = r->pool,
                                  .weights = &source, .keep_names = lab->keep_names, .trace = options->on_trace,
                                  .trace_context = options->trace_user, .precision = options->precision};
    mxw_status status = MXW_OK;
    r->loaded = program;
    mx_exec_open_device(&program, prefetch, r);
    for (int i = 0; i < MX_PART_COUNT && status >= 0; i++) {
        status = build_part(r, i);
        program.like = i == MX_PART_FORCE ? r->programs[MX_PART_DECODER] : NULL;
        if (status >= 0 && r->hooks.graph)
            status = r->hooks.graph(r->hooks.context, (mx_part)i, r->graphs[i]);
        mx_program_options other = program;
        if (i == MX_PART_ENCODER && lab->encode_engine >= 0) {
            other.engine = (mxw_engine)lab->encode_engine;
            other.device = lab->encode_device;
            if (other.engine != MXW_ENGINE_MAX)
                other.precision = MXW_PRECISION_EXACT;
        }
        if (status >= 0)
            status = mx_exec_load(r->graphs[i], &other, &r->programs[i]);
        if (status >= 0 && strcmp(mx_exec_device(r->programs[i]), "cpu") == 0)
            mx_weights_forget(r->weights);   /* the program has copied what it needs, except for rows and blocks that it
                                                reads in the file: those come back when they are read */
    }
    mx_weights_forget(r->weights);
    return status;
}

mxw_status mx_recognizer_load_halves(mx_recognizer *r) {
    static mxw_status (*const build[MX_HALF_COUNT])(const mxw_dims *dims, mx_graph **out) = {
        [MX_HALF_LOGITS] = mx_model_logits, [MX_HALF_CHOICE] = mx_model_choice};
    mx_weight_source source = {find_weight, r};
    mx_program_options program = r->loaded;
    mxw_status status = MXW_OK;
    program.device = mx_exec_device(r->programs[MX_PART_DECODER]);
    program.weights = &source;
    program.like = r->programs[MX_PART_DECODER];
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < MX_HALF_COUNT && status >= 0; i++) {
        if (!r->halves.graphs[i])
            status = build[i](r->checkpoint.dims, &r->halves.graphs[i]);
        if (status >= 0 && !r->halves.programs[i])
            status = mx_exec_load(r->halves.graphs[i], &program, &r->halves.programs[i]);
    }
    mx_weights_forget(r->weights);
    pthread_mutex_unlock(&r->lock);
    return status;
}

mxw_status mx_recognizer_open(const mxw_model_options *options, const mxw_lab_options *lab, mx_recognizer **out) {
    return mx_recognizer_open_with_faults(options, lab, &(mx_fault_hooks){0}, out);
}

mxw_status mx_recognizer_open_with_faults(const mxw_model_options *options, const mxw_lab_options *lab,
                                          const mx_fault_hooks *hooks, mx_recognizer **out) {
    mxw_status status;
    mx_recognizer *r = mx_alloc_zero(1, sizeof(*r));
    if (!r) {
        if (hooks->free)
            hooks->free(hooks->context);
        return MXW_E_MEMORY;
    }
    int64_t start = mx_now_ns();
    r->hooks = *hooks;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->slot_freed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    r->engine = options->engine;
    r->encode_engine = lab->encode_engine;
    r->precision = options->precision;
    r->batch = MX_MAX(options->batch, 1);
    r->counters = mx_alloc_zero(1, sizeof(*r->counters));
    r->model_dir = mx_strdup(options->model_dir);
    status = r->counters && (r->model_dir || !options->model_dir) ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(mx_weights_open(options->model, options->model_dir, &r->weights));
    mx_weights_info(r->weights, &r->checkpoint);
    MX_TRY(mx_text_open(r->checkpoint.dims->n_vocab, &r->text));
    MX_TRY(mx_pool_open(options->threads, &r->pool));
    r->load_ms = mx_since_ms(start);
    mx_log_timed(MXW_LOG_INFO, "model", r->load_ms, "%s opened: %s, %s", r->checkpoint.path, r->checkpoint.format,
                 r->checkpoint.size_name);

    start = mx_now_ns();
    MX_TRY(open_parts(r, options, lab));
    r->encode_width = strcmp(mx_exec_device(r->programs[MX_PART_ENCODER]), "cpu") == 0 ? 1 : MX_ENCODE_WIDTH;
    r->compile_ms = mx_since_ms(start);
    mx_log_timed(MXW_LOG_INFO, "model", r->compile_ms, "programs ready on %s, %d threads",
                 mx_exec_device(r->programs[0]), mx_pool_threads(r->pool));
    *out = r;
    return MXW_OK;
out:
    mx_recognizer_close(r);
    return status;
}

void mx_recognizer_close(mx_recognizer *r) {
    if (!r)
        return;
    int64_t start = mx_now_ns();
    mx_recognizer_close_detectors(r);
    mx_recognizer_close_live(r);
    mx_batcher_close(r->batcher);
    pthread_cond_destroy(&r->slot_freed);
    pthread_mutex_destroy(&r->lock);
    for (int i = 0; i < MX_HALF_COUNT; i++) {   /* they share the decoder's weights, as force does */
        mx_exec_unload(r->halves.programs[i]);
        mx_graph_destroy(r->halves.graphs[i]);
    }
    for (int i = MX_PART_COUNT - 1; i >= 0; i--) {
        mx_exec_unload(r->programs[i]);
        mx_graph_destroy(r->graphs[i]);
        mx_free(r->graph_texts[i]);
    }
    mx_pool_close(r->pool);
    mx_text_close(r->text);
    mx_weights_close(r->weights);
    if (r->hooks.free)
        r->hooks.free(r->hooks.context);
    mx_free(r->counters);
    mx_free(r->model_dir);
    mx_free(r);
    mx_log_timed(MXW_LOG_DEBUG, "model", mx_since_ms(start), "closed");
}

void mx_recognizer_info(const mx_recognizer *r, mxw_model_info *info) {
    *info = (mxw_model_info){.checkpoint = &r->checkpoint,
                             .engine = r->engine,
                             .device = mx_exec_device(r->programs[MX_PART_DECODER]),
                             .threads = mx_pool_threads(r->pool),
                             .load_ms = r->load_ms,
                             .compile_ms = r->compile_ms,
                             .precision = r->precision};
}

const char *mx_recognizer_fault(const mx_recognizer *r) { return r->hooks.name; }

mxw_stage_counters mx_recognizer_counters(const mx_recognizer *r, mxw_stage stage) {
    static const mx_counter_kind kinds[] = {
        [MXW_STAGE_ENCODE] = MX_COUNTER_ENCODE, [MXW_STAGE_CROSS] = MX_COUNTER_CROSS,
        [MXW_STAGE_PROMPT] = MX_COUNTER_PROMPT, [MXW_STAGE_STEP] = MX_COUNTER_STEP,
        [MXW_STAGE_FORCE] = MX_COUNTER_FORCE,
    };
    static const mx_part part_of[] = {
        [MXW_STAGE_ENCODE] = MX_PART_ENCODER, [MXW_STAGE_CROSS] = MX_PART_CROSS,
        [MXW_STAGE_PROMPT] = MX_PART_DECODER, [MXW_STAGE_STEP] = MX_PART_DECODER,
        [MXW_STAGE_FORCE] = MX_PART_FORCE,
    };
    const mx_counter_kind kind = kinds[stage];
    return (mxw_stage_counters){.struct_size = sizeof(mxw_stage_counters),
                                .runs = atomic_load(&r->counters->kinds[kind].runs),
                                .items = atomic_load(&r->counters->kinds[kind].items),
                                .cells = atomic_load(&r->counters->kinds[kind].cells),
                                .ms = (double)atomic_load(&r->counters->kinds[kind].ns) / 1e6,
                                .weight_bytes = mx_program_weight_bytes(r->programs[part_of[stage]])};
}

static mxw_status sum_weights(const mx_weights *w, uint32_t *sum) {
    *sum = 0;
    if (mx_weights_check(w) < 0)
        return MXW_E_STATE;
    for (int64_t i = 0; i < mx_weights_count(w); i++) {
        uint32_t crc;
        mxw_status status = mx_weights_crc32(w, i, &crc);
        if (status < 0)
            return status;
        const uint8_t bytes[4] = {crc & 255, crc >> 8 & 255, crc >> 16 & 255, crc >> 24};
        *sum = (uint32_t)crc32_z(*sum, bytes, sizeof(bytes));
    }
    mx_weights_forget(w);
    return mx_weights_check(w);
}

mxw_status mx_recognizer_crc32(mx_recognizer *r, uint32_t *crc) {
    pthread_mutex_lock(&r->lock);
    mxw_status status = r->has_crc32 ? MXW_OK : sum_weights(r->weights, &r->crc32);
    r->has_crc32 |= status >= 0;
    *crc = r->crc32;
    pthread_mutex_unlock(&r->lock);
    return status;
}

const mx_text *mx_recognizer_text(const mx_recognizer *r) { return r->text; }

const mx_weights *mx_recognizer_weights(const mx_recognizer *r) { return r->weights; }

const mx_program *mx_recognizer_program(const mx_recognizer *r, mx_part part) { return r->programs[part]; }

/* Printed on demand, so that opening a model does not wait for it. */
static mxw_status print_part(mx_recognizer *r, int part) {
    mx_str text = {0};
    mxw_status status = mx_graph_print(r->graphs[part], &text);
    if (status >= 0)
        status = mx_exec_explain(r->programs[part], parts[part].sizes, &text);
    if (status >= 0)
        r->graph_texts[part] = mx_str_take(&text);
    mx_str_free(&text);
    return status >= 0 && !r->graph_texts[part] ? MXW_E_MEMORY : status;
}

mxw_status mx_recognizer_graph(mx_recognizer *r, const char *name, const char **text) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < MX_PART_COUNT; i++) {
        if (strcmp(parts[i].name, name) != 0)
            continue;
        pthread_mutex_lock(&lock);
        mxw_status status = r->graph_texts[i] ? MXW_OK : print_part(r, i);
        pthread_mutex_unlock(&lock);
        *text = r->graph_texts[i];
        return status;
    }
    return mx_fail(MXW_E_NOT_FOUND, "graph: '%s' is not encoder, cross, decoder or force", name);
}
