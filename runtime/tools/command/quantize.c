/* quantize: moec quantize: a run whose weights are stored in a smaller type, as products read
 * them. */
#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "data/shards.h"
#include "tools/command/internal.h"
#include "tools/command/line/commands.h"
#include "training/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Quantization {
    const char *run, *out, *type, *head, *data; /* head: type of the head, or NULL */
    bool json;
    char *sets[2]; /* overrides, to which the compiler refers */
    Safetensors *file;
    MoecCompiler *compiler;
    Model *model;
    MoecProgram *program;
    int matrices, calibrated; /* quantized tensors; those of them for the data */
} Quantization;

const MoecWeightCopy *weight_copy(const Model *model, const PublicTensor *one) {
    const MoecTable *table = model->table;
    for (int i = 0; i < table->packed_count; i++)
        if (table->packed[i].weights == one->tensor->offset) return &table->packed[i];
    return NULL;
}

/* The index of the first element of the tensor in its parameter, of which it is one step. */
static size_t element_in_parameter(const PublicTensor *one) {
    return (one->offset - one->tensor->offset) / sizeof(float);
}

/* Its groups in the copies. */
static const MoecGroup *int8_groups(const Model *model, const PublicTensor *one) {
    const char *copy = (const char *)model->there.rounded + weight_copy(model, one)->packed;
    return (const MoecGroup *)(const void *)copy + element_in_parameter(one) / MOEC_GROUP;
}

/* The bytes of 4-bit numbers: numbers i and i + 16 are a byte. */
static void write_four_bits(const uint32_t (*words)[MOEC_PANEL], int column, unsigned char *bytes) {
    for (int i = 0; i < MOEC_PANEL_DEPTH / 2; i++) {
        const int other = i + MOEC_PANEL_DEPTH / 2;
        bytes[i] = (unsigned char)((words[i / 8][column] >> i % 8 * 4 & 15) |
                                   (words[other / 8][column] >> other % 8 * 4 & 15) << 4);
    }
}

/* Column `column` of part `at` of panels, as a block of quantized.c. */
static void write_int4(const void *parts, long at, int column, unsigned char *block) {
    const MoecInt4 *from = (const MoecInt4 *)parts + at;
    memcpy(block, &from->scale[column], sizeof from->scale[column]);
    write_four_bits(from->steps, column, block + sizeof from->scale[column]);
}

static void write_ternary(const void *parts, long at, int column, unsigned char *block) {
    const MoecTernary *from = (const MoecTernary *)parts + at;
    const size_t scale = sizeof from->scale[column];
    memcpy(block, &from->scale[column], scale);
    memset(block + scale, 0, MOEC_TERNARY_DEPTH / 4);
    for (int i = 0; i < MOEC_TERNARY_DEPTH; i++) {
        const uint32_t step = from->steps[i / 16][column] >> MOEC_TERNARY_BIT(i) & 3;
        block[scale + (size_t)i / 4] |= (unsigned char)(step << i % 4 * 2);
    }
}

static void write_mxfp4(const void *parts, long at, int column, unsigned char *block) {
    const MoecMxfp4 *from = (const MoecMxfp4 *)parts + at;
    block[0] = from->scale[column];
    write_four_bits(from->codes, column, block + 1);
}

static void write_nvfp4(const void *parts, long at, int column, unsigned char *block) {
    const MoecNvfp4 *from = (const MoecNvfp4 *)parts + at;
    block[0] = from->scale[column];
    for (int half = 0; half < 2; half++) block[1 + half] = from->factor[half][column];
    write_four_bits(from->codes, column, block + 3);
}

static void write_fp8(const void *parts, long at, int column, unsigned char *block) {
    const MoecFp8 *from = (const MoecFp8 *)parts + at;
    block[0] = from->scale[column];
    for (int i = 0; i < MOEC_PANEL_DEPTH; i++) block[1 + i] = from->codes[i][column];
}

typedef void (*BlockWriter)(const void *parts, long at, int column, unsigned char *block);

static BlockWriter block_writer(MoecType type) {
    return type == MOEC_TERNARY ? write_ternary
           : type == MOEC_INT4  ? write_int4
           : type == MOEC_MXFP4 ? write_mxfp4
           : type == MOEC_NVFP4 ? write_nvfp4
                                : write_fp8;
}

/* The blocks of a tensor from the packed weights of the model: a new array. */
static void *panel_blocks(const Model *model, const PublicTensor *one, const BlockType *type,
                          BlockOrder *order) {
    const MoecWeightCopy *packing = weight_copy(model, one);
    const BlockWriter writer = block_writer(packing->type);
    const long matrix = packing->n * packing->k, parts = packing->k / type->elements,
               panels = (packing->n + MOEC_PANEL - 1) / MOEC_PANEL,
               first = (long)element_in_parameter(one) / matrix;
    *order = (BlockOrder){(long)one->count / matrix, packing->n,        packing->k,
                          packing->batch_stride,     packing->n_stride, packing->k_stride};
    const void *from = (const char *)model->there.rounded + packing->packed;
    unsigned char *blocks = memory_new(one->count / (size_t)type->elements * type->bytes),
                  *to = blocks;
    for (long batch = first; batch < first + order->batch; batch++)
        for (long column = 0; column < packing->n; column++)
            for (long part = 0; part < parts; part++, to += type->bytes)
                writer(from, (batch * panels + column / MOEC_PANEL) * parts + part,
                       (int)(column % MOEC_PANEL), to);
    return blocks;
}

static void *int8_blocks(const Model *model, const PublicTensor *one, const BlockType *type,
                         BlockOrder *order) {
    (void)type;
    *order = (BlockOrder){0};
    const size_t bytes = one->count / MOEC_GROUP * sizeof(MoecGroup);
    return memcpy(memory_new(bytes), int8_groups(model, one), bytes);
}

/* The blocks of a quantized parameter, a new array; NULL: it is another type, or `name` is NULL. */
static void *blocks_of(const Model *model, const PublicTensor *one, const char *name,
                       BlockOrder *order) {
    const BlockType *type = name ? quantized_type(name) : NULL;
    if (!type) return NULL;
    return (strcmp(name, "int8") ? panel_blocks : int8_blocks)(model, one, type, order);
}

/* The weights become the values of their blocks; true if one changed. Those of int4 stay: rounding
 * leaves its values as they are, and calibration needs the exact weights. */
static bool read_blocks_back(const Quantization *work, const PublicTensor *one) {
    BlockOrder order;
    const char *name = moec_weight_type(work->program, one->tensor->name);
    if (name && !strcmp(name, "int4")) return false;
    AUTO_FREE unsigned char *blocks = blocks_of(work->model, one, name, &order);
    float *weights = work->model->weights + one->offset / sizeof(float);
    bool changed = false;
    for (size_t i = 0; blocks && i < one->count; i++) {
        const float value =
            block_value(quantized_type(name), blocks, quantized_position(&order, i));
        changed |= value != weights[i];
        weights[i] = value;
    }
    return changed;
}

/* Weights that rounding leaves as they are: the scale of rounded weights can differ from the first
 * one, with int8 in its last bit. */
static bool settle_weights(const Quantization *work) {
    enum { PASSES = 8 };
    const Model *model = work->model;
    bool changed = true;
    for (int pass = 0; pass < PASSES && changed; pass++) {
        changed = false;
        for (int i = 0; i < model->parameter_count; i++)
            changed |= read_blocks_back(work, &model->parameters[i]);
        if (changed && !model_put_weights(model)) return false;
    }
    return !changed ||
           error_message("please report this with the run", "rounding changes rounded weights");
}

static bool open_floats(Quantization *work) {
    const GraphShape shape = {.graph = MOEC_FORWARD};
    work->file = checkpoint_open(work->run);
    const char *type = work->file ? safetensors_quantized(work->file) : NULL;
    if (type)
        return error_message("quantize the run that it was made from",
                             "%s is already quantized: its weights are %s", work->run, type);
    work->sets[0] = memory_format("inference.weight_dtype=%s", work->type);
    if (work->head) work->sets[1] = memory_format("inference.head_dtype=%s", work->head);
    const char *sets[] = {work->sets[0], work->sets[1]};
    work->compiler = work->file ? checkpoint_spec(work->file, sets, work->head ? 2 : 1) : NULL;
    if (!work->compiler) return false;
    if (!moec_stores_weights(work->compiler, work->run)) return reports_good(work->compiler);
    work->program = moec_compile(work->compiler, shape.graph, 0, 0, 0);
    if (!work->program) return reports_good(work->compiler);
    work->model = model_open(device_cpu(), work->compiler, &shape, 1, true);
    return work->model && model_read(work->model, work->file, false);
}

/* Rounds the matrices for the data: with the inputs of the float model. */
static bool calibrate_matrices(Quantization *work) {
    const GraphShape shape = {.graph = MOEC_FORWARD};
    const char *const sets[] = {"inference.weight_dtype=f32", "inference.head_dtype=same"};
    AUTO(Tokenizer) *tokenizer = NULL;
    AUTO(MoecCompiler) *compiler = checkpoint_spec(work->file, sets, work->head ? 2 : 1);
    bool good = compiler && checkpoint_tokenizer(work->file, &tokenizer);
    if (good) moec_observe_hessians(compiler);
    AUTO(Model) *floats = good ? model_open(device_cpu(), compiler, &shape, 1, true) : NULL;
    good = floats && model_read(floats, work->file, false);
    AUTO(Call) *call = good ? call_open(floats, &floats->table->graphs[0], NULL) : NULL;
    const Calibration calibration = {.model = work->model,
                                     .program = work->program,
                                     .inputs = call,
                                     .data = work->data,
                                     .tokenizer = tokenizer};
    return call && calibrate_int4(&calibration, &work->calibrated);
}

/* A tensor of bf16 from the copies of the model: a new array. */
static void *bf16_entry(const Model *model, const PublicTensor *one, TensorEntry *entry) {
    const char *copy = (const char *)model->there.rounded + weight_copy(model, one)->packed;
    entry->number = NUMBER_BF16;
    entry->bytes = one->count * sizeof(uint16_t);
    entry->data = memcpy(memory_new(entry->bytes),
                         copy + element_in_parameter(one) * sizeof(uint16_t), entry->bytes);
    return (void *)(uintptr_t)entry->data;
}

/* Replaces the entries of the quantized parameters, which are the first ones. made: the arrays of
 * these entries. */
static void quantize_entries(Quantization *work, TensorEntry *entries, json_t *notes, void **made) {
    const Model *model = work->model;
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        const char *type = moec_weight_type(work->program, one->tensor->name);
        BlockOrder order;
        if (!type) continue;
        if (!strcmp(type, "bf16")) {
            made[i] = bf16_entry(model, one, &entries[i]);
        } else {
            made[i] = blocks_of(model, one, type, &order);
            quantized_entry(&entries[i], type, &order, made[i], notes);
        }
        work->matrices++;
    }
}

static bool write_quantized(Quantization *work, const char *path) {
    json_auto_t *notes = json_object();
    int count;
    TensorEntry *entries = model_entries(work->model, false, notes, &count);
    if (!entries) return false;
    AUTO_FREE void **made = memory_new(sizeof *made * ((size_t)count + 1));
    quantize_entries(work, entries, notes, made);
    const Companions companions = {.tokenizer = safetensors_note(work->file, "tokenizer"),
                                   .files = safetensors_files(work->file)};
    TrainState place = {0};
    bool new_folder = false;
    const bool good =
        (work->matrices || error_message("moec check lists the matrices that stay f32, and why",
                                         "no matrix of the model can be %s", work->type)) &&
        checkpoint_place(work->file, &place) && folder_make_new(work->out, &new_folder);
    if (good)
        checkpoint_note(notes, moec_model(work->compiler), moec_bundle(work->compiler), &companions,
                        &place);
    const bool written = good && (safetensors_write(path, entries, count, notes) ||
                                  folder_abandon(work->out, new_folder));
    for (int i = 0; i < count; i++) free(made[i]);
    entries_free(entries, count);
    json_decref(companions.files);
    return written;
}

static void report_quantization(const Quantization *work, const char *path) {
    const int all = work->model->parameter_count;
    if (!work->json) printf("%s: %d of %d tensors in %s", path, work->matrices, all, work->type);
    if (!work->json && work->head) printf(", the output matrix in %s", work->head);
    if (!work->json && work->data) printf(", %d for the data", work->calibrated);
    if (!work->json) puts("");
    written_message(path, "moec generate %s --prompt TEXT", work->out);
    if (work->json)
        json_result_written(
            path, json_make("{s:s, s:s, s:i, s:i}", "model", moec_model(work->compiler), "type",
                            work->type, "tensors", work->matrices, "calibrated", work->calibrated));
}

int command_quantize(const Command *command, int argc, char **argv) {
    Quantization work = {0};
    const Option table[] = {
        {OPTION_TEXT, "--type", "int8|fp8|mxfp8|int4|mxfp4|nvfp4|ternary", &work.type,
         "type of the weights"},
        {OPTION_TEXT, "--head-type", "f32|bf16|int8|fp8|mxfp8|int4|mxfp4|nvfp4|ternary", &work.head,
         "type of the output matrix (default: --type)"},
        {OPTION_TEXT, "--out", "RUN", &work.out, "run directory to create"},
        {OPTION_TEXT, "--data", "DATA", &work.data,
         "int4: data for which the errors of products are minimized (GPTQ); see moec train"},
        {OPTION_FLAG, "--json", NULL, &work.json, "result as JSON"},
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &work.run);
    if (code >= 0) return code;
    if (!work.type || !work.out)
        return arguments_wrong(command, NULL, "moec quantize requires --type and --out");
    if (work.data && strcmp(work.type, "int4") != 0)
        return arguments_wrong(command, "omit --data", "--data applies to int4 only");
    AUTO_FREE char *path = path_join(work.out, "last.safetensors");
    const bool good =
        (!checkpoint_within(work.out) ||
         error_message("choose another --out", "%s already contains a run", work.out)) &&
        open_floats(&work) && settle_weights(&work) && (!work.data || calibrate_matrices(&work)) &&
        write_quantized(&work, path);
    if (good) report_quantization(&work, path);
    model_close(work.model);
    moec_close(work.compiler);
    safetensors_close(work.file);
    for (int i = 0; i < 2; i++) free(work.sets[i]);
    return good ? 0 : EXIT_INPUT;
}
