/* flatten: the host program of an entry as arrays: see runtime/abi/steps.h. Names are copies, the
 * arrays need no module.
 *
 *     repeat i = 0 .. 2                      0 repeat 2, last 1
 *         launch kernel_train_0(i, x)   -->  1 launch kernel_train_0, values 0 .. 1
 */
#include "module/lowered.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

/* An array under construction. */
typedef struct Array {
    char *items;
    size_t size; /* of an item */
    int count, capacity;
} Array;

typedef struct Flattening {
    Arena *arena;
    const Module *module;
    const Entry *entry;
    Array steps, operands, terms, values, products;
    const char *indices[MOEC_STEP_DEPTH]; /* of the enclosing repeats */
    int depth;
    const HostRecord *record; /* of the enclosing scope */
    List begun;               /* exchanges: the step that begins it, its copy; and so on */
} Flattening;

static void *add(Flattening *flat, Array *array, const void *item) {
    if (array->count == array->capacity) {
        const int capacity = array->capacity ? 2 * array->capacity : 64;
        char *items = arena_alloc(flat->arena, (size_t)capacity * array->size);
        if (array->count) memcpy(items, array->items, (size_t)array->count * array->size);
        array->items = items;
        array->capacity = capacity;
    }
    return memcpy(array->items + (size_t)array->count++ * array->size, item, array->size);
}

/* ---- buffers ---- */

static int scratch_operand(const Flattening *flat) {
    return flat->entry->program->tensors.count;
}

/* A name that lives as long as the arrays. */
static const char *kept_name(const Flattening *flat, const char *name) {
    return name ? arena_format(flat->arena, "%s", name) : NULL;
}

static MoecStepBuffer step_buffer(const Flattening *flat, const Buffer *buffer) {
    const Tensor *tensor = buffer->tensor;
    const size_t element = copy_element_bytes(tensor->type);
    size_t elements = packed_bytes(tensor) / element, offset = buffer->offset;
    if (buffer->slots > 1) elements = elements / (size_t)tensor->axes[0]->size * 2;
    if (buffer->block == MOEC_COMPUTE_WEIGHTS) offset *= element;
    return (MoecStepBuffer){kept_name(flat, buffer->name), buffer->block, offset,
                            elements * element, element};
}

static const MoecStepBuffer *step_buffers(const Flattening *flat) {
    const int count = scratch_operand(flat);
    const size_t first = flat->entry->schedule->arena_bytes;
    const BlockLayout *weights = &flat->module->weights;
    MoecStepBuffer *buffers = arena_alloc(flat->arena, ((size_t)count + 2) * sizeof *buffers);
    for (int i = 0; i < count; i++) buffers[i] = step_buffer(flat, &flat->entry->buffers[i]);
    buffers[count] =
        (MoecStepBuffer){"scratch", MOEC_ARENA, first, flat->entry->arena_bytes - first, 1};
    buffers[count + 1] =
        (MoecStepBuffer){"gradients", MOEC_GRADIENTS, 0, weights->bytes - weights->frozen_bytes, 1};
    return buffers;
}

/* ---- operands ---- */

static int depth_of(const Flattening *flat, const char *index) {
    int depth = flat->depth - 1;
    while (depth >= 0 && strcmp(flat->indices[depth], index) != 0) depth--;
    MUST(depth >= 0);
    return depth;
}

static MoecStepOp step_op(TermOp op) {
    static const MoecStepOp ops[] = {[TERM_NEG] = MOEC_STEP_NEG,
                                     [TERM_ADD] = MOEC_STEP_ADD,
                                     [TERM_SUB] = MOEC_STEP_SUB,
                                     [TERM_MUL] = MOEC_STEP_MUL,
                                     [TERM_DIV] = MOEC_STEP_DIV,
                                     [TERM_MOD] = MOEC_STEP_MOD,
                                     [TERM_BIT_AND] = MOEC_STEP_BIT_AND,
                                     [TERM_EQ] = MOEC_STEP_EQ,
                                     [TERM_NE] = MOEC_STEP_NE,
                                     [TERM_LT] = MOEC_STEP_LT,
                                     [TERM_LE] = MOEC_STEP_LE,
                                     [TERM_GT] = MOEC_STEP_GT,
                                     [TERM_GE] = MOEC_STEP_GE,
                                     [TERM_SELECT] = MOEC_STEP_SELECT,
                                     [TERM_LEAST] = MOEC_STEP_LEAST,
                                     [TERM_GREATEST] = MOEC_STEP_GREATEST,
                                     [TERM_REMAINDER] = MOEC_STEP_REMAINDER};
    MUST((size_t)op < sizeof ops / sizeof *ops && ops[op]);
    return ops[op];
}

static void add_flat_terms(Flattening *flat, const Term *term) {
    MoecStepTerm made = {MOEC_STEP_NUMBER, 0};
    if (term->op == TERM_CAST) {
        add_flat_terms(flat, term->args[0]);
        return;
    }
    for (int i = 0; i < term->count; i++) add_flat_terms(flat, term->args[i]);
    if (term->op == TERM_NUMBER)
        made.number = term->whole;
    else if (term->op == TERM_NAME)
        made = (MoecStepTerm){MOEC_STEP_INDEX, depth_of(flat, term->variable->name)};
    else
        made.op = step_op(term->op);
    add(flat, &flat->terms, &made);
}

/* x or x + offset. NULL: absent. Returns its number. */
static int add_address(Flattening *flat, const Term *address, int access) {
    MoecStepOperand made = {.buffer = -1, .first_term = flat->terms.count, .access = access};
    while (address && address->op == TERM_CAST) address = address->args[0];
    if (address) {
        const bool is_array = address->op == TERM_NAME;
        made.buffer = (is_array ? address : address->args[0])->variable->tensor->id;
        MUST(is_array || address->op == TERM_ADDRESS);
        if (!is_array) add_flat_terms(flat, address->args[1]);
    }
    made.term_count = flat->terms.count - made.first_term;
    add(flat, &flat->operands, &made);
    return flat->operands.count - 1;
}

static int add_memory(Flattening *flat, int buffer, size_t offset, int access) {
    const MoecStepTerm term = {MOEC_STEP_NUMBER, (long)offset};
    const MoecStepOperand made = {buffer, flat->terms.count, 1, access};
    add(flat, &flat->terms, &term);
    add(flat, &flat->operands, &made);
    return flat->operands.count - 1;
}

/* Scratch memory at an offset in the arena. */
static int add_scratch(Flattening *flat, size_t offset, int access) {
    return add_memory(flat, scratch_operand(flat), offset - flat->entry->schedule->arena_bytes,
                      access);
}

/* ---- records ---- */

/* Begins a record; the caller adds its fields and sets their number. */
static int begin_device_record(Flattening *flat, size_t bytes) {
    add(flat, &flat->values, &(MoecStepValue){.kind = MOEC_VALUE_RECORD, .bytes = bytes});
    return flat->values.count - 1;
}

static void end_device_record(const Flattening *flat, int number) {
    ((MoecStepValue *)(void *)flat->values.items)[number].number = flat->values.count - 1 - number;
}

/* A number or an address, or an array of them. */
static void add_device_field(Flattening *flat, const HostValue *value, size_t offset,
                             size_t bytes) {
    const Term *term = value->term;
    MoecStepValue made = {.offset = offset, .bytes = bytes};
    for (int i = 0; i < value->values.count; i++)
        add_device_field(flat, value->values.items[i], offset + (size_t)i * bytes, bytes);
    if (!term) return;
    if (term->op == TERM_NUMBER && !term->constant) {
        made.number = term->whole;
    } else {
        MUST(term->op != TERM_NUMBER || !strcmp(term->constant, "NULL"));
        made.kind = MOEC_VALUE_OPERAND;
        made.number = add_address(flat, term->op == TERM_NUMBER ? NULL : term, 0);
    }
    add(flat, &flat->values, &made);
}

/* The fields are "rows", or "through[1]". */
static void add_device_record(Flattening *flat, const HostRecord *record) {
    const int number = begin_device_record(flat, record->bytes);
    LIST_EACH(const HostValue, value, &record->values) {
        const size_t length = strcspn(value->field, "[");
        const char *index = value->field[length] ? value->field + length + 1 : "0";
        const DeviceField *field = record->fields;
        while (field->name && (strncmp(field->name, value->field, length) || field->name[length]))
            field++;
        MUST(field->name);
        add_device_field(flat, value, field->offset + (size_t)atol(index) * field->row,
                         field->bytes);
    }
    end_device_record(flat, number);
}

static void add_grouped_record(Flattening *flat, const Param *param) {
    const ScheduleUnit *unit = param->product;
    const Product *product = &unit->contraction->product;
    const bool by_weight = unit->contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    const MoecGroupedOnDevice sizes = {.groups = product->batch[0],
                                       .n = product->n,
                                       .k = product->k,
                                       .a_row = product->a_m,
                                       .b_group =
                                           by_weight ? product->b_batch[0] : product->c_batch[0],
                                       .b_k = product->b_k,
                                       .b_n = product->b_n,
                                       .c_row = product->c_m};
    const size_t adds = offsetof(MoecGroupedOnDevice, accumulate);
    const int number = begin_device_record(flat, sizeof sizes);
    for (size_t offset = 0; offset < adds; offset += sizeof(long))
        add(flat, &flat->values,
            &(MoecStepValue){.number = *(const long *)(const void *)((const char *)&sizes + offset),
                             .offset = offset,
                             .bytes = sizeof(long)});
    add(flat, &flat->values,
        &(MoecStepValue){.kind = unit->overwrites_gradient ? MOEC_VALUE_ADDS : MOEC_VALUE_NUMBER,
                         .number = product->accumulate,
                         .offset = adds,
                         .bytes = sizeof sizes.accumulate});
    if (param->address)
        add(flat, &flat->values,
            &(MoecStepValue){.kind = MOEC_VALUE_OPERAND,
                             .number = add_address(flat, param->address, MOEC_STEP_READS),
                             .offset = offsetof(MoecGroupedOnDevice, weight),
                             .bytes = sizeof sizes.weight});
    end_device_record(flat, number);
}

/* ---- launches ---- */

static void add_flat_value(Flattening *flat, MoecStepValueKind kind, long number) {
    add(flat, &flat->values, &(MoecStepValue){.kind = kind, .number = number});
}

static void add_flat_argument(Flattening *flat, const Param *param) {
    const int access = param->written ? MOEC_STEP_READS | MOEC_STEP_WRITES : MOEC_STEP_READS;
    switch (param->kind) {
    case PARAM_SEED:
        add_flat_value(flat, MOEC_VALUE_SEED, 0);
        break;
    case PARAM_INDEX:
        add_flat_value(flat, MOEC_VALUE_INDEX, depth_of(flat, param->name));
        break;
    case PARAM_POINTER:
        add_flat_value(flat, MOEC_VALUE_OPERAND,
                       add_memory(flat, param->buffer->tensor->id, 0, access));
        break;
    case PARAM_OPERAND:
        add_flat_value(flat, MOEC_VALUE_OPERAND, add_address(flat, param->address, access));
        break;
    case PARAM_SCRATCH:
        add_flat_value(flat, MOEC_VALUE_OPERAND, add_scratch(flat, param->offset, access));
        break;
    case PARAM_NUMBER:
        add_flat_value(flat, MOEC_VALUE_NUMBER, param->number);
        break;
    case PARAM_GROUPED:
        add_grouped_record(flat, param);
        break;
    case PARAM_RECORD:
        MUST(flat->record && !strcmp(flat->record->name, param->name));
        add_device_record(flat, flat->record);
        break;
    case PARAM_MAP:
    case PARAM_MAPS: /* of further variants */
        break;
    }
}

/* ---- steps ---- */

/* Returns its row. */
static int add_flat_product(Flattening *flat, const Product *product) {
    const MoecProduct made = table_product(product);
    add(flat, &flat->products, &made);
    return flat->products.count - 1;
}

static int flat_kernel(const Flattening *flat, const char *name) {
    const int number = name ? device_kernel_number(flat->module, name) : -1;
    return number < flat->module->device_kernels.count ? number : -1;
}

/* Too many written elements: the first variant alone. */
static const MoecStepVariants *add_step_variants(Flattening *flat, const LaunchStep *launch) {
    if (!launch->variants.count || launch->written.count > MOEC_STEP_WRITTEN) return NULL;
    MoecStepVariants *made = arena_alloc(flat->arena, sizeof *made);
    MUST(launch->variants.count <= MOEC_VARIANT_COUNT &&
         launch->matrices.count <= MOEC_STEP_MATRICES);
    for (int i = 0; i < launch->variants.count; i++)
        made->variants[i] = *(const MoecKernelVariant *)launch->variants.items[i];
    LIST_EACH(const Written, one, &launch->written) {
        made->written[made->written_count++] = (MoecStepWritten){
            one->address ? add_address(flat, one->address, MOEC_STEP_WRITES)
                         : add_scratch(flat, one->offset, MOEC_STEP_WRITES),
            one->count, one->type == TYPE_BF16 ? MOEC_BF16 : MOEC_F32, one->rounded};
    }
    LIST_EACH(const Matrix, one, &launch->matrices)
        made->matrices[made->matrix_count++] =
            (MoecStepMatrix){add_address(flat, one->address, MOEC_STEP_READS),
                             one->shape[0],
                             one->shape[1],
                             one->shape[2],
                             one->shape[3],
                             one->shape[4]};
    if (made->matrix_count)
        made->size_bytes = offsetof(MoecGroupedOnDevice, accumulate) + sizeof(int);
    return made;
}

static void set_launch(Flattening *flat, MoecStep *made, const LaunchStep *launch) {
    MUST(launch->arguments.count <= MOEC_STEP_ARGUMENTS);
    made->launch.kernel = kept_name(flat, launch->kernel);
    made->launch.number = flat_kernel(flat, launch->kernel);
    made->launch.blocks = launch->launch.blocks;
    made->launch.threads = launch->launch.threads;
    made->launch.shared_bytes = launch->shared;
    for (int i = 0; i < launch->arguments.count; i++)
        add_flat_argument(flat, launch->arguments.items[i]);
    made->launch.variants = add_step_variants(flat, launch);
}

static void set_flat_product(const Flattening *flat, MoecStep *made, const ProductStep *product) {
    made->product.row = product->row;
    made->product.begins = product->begins;
    made->product.more = product->more;
    made->product.own = kept_name(flat, product->own);
    made->product.number = flat_kernel(flat, product->own);
    made->product.blocks = product->blocks;
    for (int i = 0; i < product->first.count; i++)
        made->product.first |= 1U << depth_of(flat, product->first.items[i]);
}

static void set_clear(Flattening *flat, MoecStep *made, const HostStep *step) {
    const Buffer *buffer = step->clear.buffer;
    made->bytes = step->clear.bytes;
    if (buffer)
        add_memory(flat, buffer->tensor->id, 0, MOEC_STEP_WRITES);
    else if (step->clear.scratch)
        add_scratch(flat, step->clear.offset, MOEC_STEP_WRITES);
    else
        add_memory(flat, scratch_operand(flat) + 1, step->clear.offset, MOEC_STEP_WRITES);
}

static void add_step_operands(Flattening *flat, const List *operands) {
    LIST_EACH(const Operand, operand, operands)
        add_address(flat, operand ? operand->address : NULL, operand ? (int)operand->access : 0);
}

static void add_steps(Flattening *flat, const List *steps);

static void add_flat_body(Flattening *flat, const HostStep *step) {
    if (step->kind == STEP_REPEAT) {
        MUST(flat->depth < MOEC_STEP_DEPTH);
        flat->indices[flat->depth++] = step->repeat.index;
    }
    add_steps(flat, &step->body);
    if (step->kind == STEP_REPEAT) flat->depth--;
}

/* The copy that the step of the begin has. */
static void set_flat_exchange(Flattening *flat, MoecStep *made, const HostStep *step) {
    const HostStep *begin = step->call.begun ? step->call.begun : step;
    MUST(begin->call.exchange); /* other calls are kernels of the CPU */
    made->kind = step->call.begun ? MOEC_STEP_EXCHANGE_END : MOEC_STEP_EXCHANGE;
    for (int i = 0; i < flat->begun.count && step->call.begun; i += 2)
        if (flat->begun.items[i] == begin) made->exchange = flat->begun.items[i + 1];
    if (made->exchange) return;
    MoecExchange *copy = arena_alloc(flat->arena, sizeof *copy);
    *copy = *begin->call.exchange;
    copy->name = kept_name(flat, copy->name);
    made->exchange = copy;
    list_push(flat->arena, &flat->begun, (void *)(uintptr_t)begin);
    list_push(flat->arena, &flat->begun, copy);
}

static void set_flat_step(Flattening *flat, MoecStep *made, const HostStep *step) {
    static const MoecStepKind kinds[] = {[STEP_LAUNCH] = MOEC_STEP_LAUNCH,
                                         [STEP_PRODUCT] = MOEC_STEP_PRODUCT,
                                         [STEP_CLEAR] = MOEC_STEP_CLEAR,
                                         [STEP_REPEAT] = MOEC_STEP_REPEAT,
                                         [STEP_WHEN] = MOEC_STEP_WHEN};
    if (step->kind == STEP_CALL) {
        set_flat_exchange(flat, made, step);
        return;
    }
    MUST(step->kind != STEP_GROUPED); /* a kernel of the CPU */
    made->kind = kinds[step->kind];
    if (step->kind == STEP_LAUNCH) set_launch(flat, made, &step->launch);
    if (step->kind == STEP_PRODUCT) set_flat_product(flat, made, &step->product);
    if (step->kind == STEP_CLEAR) set_clear(flat, made, step);
    if (step->kind == STEP_WHEN) made->when = (MoecStepCondition)step->when;
    if (step->kind == STEP_REPEAT) {
        made->repeat.count = step->repeat.count;
        made->repeat.reverse = step->repeat.reverse;
        made->repeat.depth = flat->depth;
    }
}

/* Operands of its arguments follow its own. */
static void add_flat_step(Flattening *flat, const HostStep *step) {
    MoecStep made = {.first_operand = flat->operands.count, .first_value = flat->values.count};
    const int number = flat->steps.count;
    add_step_operands(flat, &step->operands);
    set_flat_step(flat, &made, step);
    made.operand_count = flat->operands.count - made.first_operand;
    made.value_count = flat->values.count - made.first_value;
    add(flat, &flat->steps, &made);
    add_flat_body(flat, step);
    ((MoecStep *)(void *)flat->steps.items)[number].last = flat->steps.count - 1;
}

/* A scope is a name for its record. */
static void add_scope(Flattening *flat, const HostStep *step) {
    flat->record = step->record;
    add_steps(flat, &step->body);
    flat->record = NULL;
}

static void add_steps(Flattening *flat, const List *steps) {
    LIST_EACH(const HostStep, step, steps)
        (step->kind == STEP_SCOPE ? add_scope : add_flat_step)(flat, step);
}

static Flattening begin_flat(Arena *arena, const Module *module, const Entry *entry) {
    return (Flattening){.arena = arena,
                        .module = module,
                        .entry = entry,
                        .steps.size = sizeof(MoecStep),
                        .operands.size = sizeof(MoecStepOperand),
                        .terms.size = sizeof(MoecStepTerm),
                        .values.size = sizeof(MoecStepValue),
                        .products.size = sizeof(MoecProduct)};
}

static const MoecSteps *end_flat(const Flattening *flat, const MoecStepBuffer *buffers, int count) {
    MoecSteps *made = arena_alloc(flat->arena, sizeof *made);
    *made = (MoecSteps){.steps = (void *)flat->steps.items,
                        .buffers = buffers,
                        .operands = (void *)flat->operands.items,
                        .terms = (void *)flat->terms.items,
                        .values = (void *)flat->values.items,
                        .products = (void *)flat->products.items,
                        .step_count = flat->steps.count,
                        .buffer_count = count,
                        .operand_count = flat->operands.count,
                        .term_count = flat->terms.count,
                        .value_count = flat->values.count,
                        .product_count = flat->products.count};
    return made;
}

const MoecSteps *entry_steps(Arena *arena, const Module *module, const Entry *entry) {
    Flattening flat = begin_flat(arena, module, entry);
    for (int i = 0; i < module->products.count; i++)
        add_flat_product(&flat, module->products.items[i]);
    add_steps(&flat, &entry->clears);
    add_steps(&flat, &entry->gradients);
    add_steps(&flat, &entry->steps);
    return end_flat(&flat, step_buffers(&flat), scratch_operand(&flat) + 2);
}

/* A launch with the addresses of blocks, then `number` unless it is 0. */
static const MoecSteps *single_launch(Arena *arena, const Module *module, const char *kernel,
                                      Launch launch, const MoecStepBuffer *buffers, int count,
                                      long number) {
    Flattening flat = begin_flat(arena, module, NULL);
    MoecStep step = {.kind = MOEC_STEP_LAUNCH, .operand_count = count};
    step.launch.kernel = kept_name(&flat, kernel);
    step.launch.number = flat_kernel(&flat, kernel);
    step.launch.blocks = launch.blocks;
    step.launch.threads = launch.threads;
    for (int i = 0; i < count; i++)
        add_flat_value(&flat, MOEC_VALUE_OPERAND,
                       add_memory(&flat, i, 0, MOEC_STEP_READS | MOEC_STEP_WRITES));
    if (number) add_flat_value(&flat, MOEC_VALUE_NUMBER, number);
    step.value_count = flat.values.count;
    add(&flat, &flat.steps, &step);
    return end_flat(&flat, buffers, count);
}

const MoecSteps *update_steps(Arena *arena, const Module *module) {
    const Update *update = module->update;
    const int inputs = update->states.count + 2; /* the scalars, the range of elements */
    MoecStepBuffer *buffers = arena_alloc(arena, ((size_t)inputs + 3) * sizeof *buffers);
    int count = 0;
    buffers[count++] = (MoecStepBuffer){.name = "weights", .block = MOEC_WEIGHTS};
    buffers[count++] = (MoecStepBuffer){.name = "gradients", .block = MOEC_GRADIENTS};
    for (int i = 0; i < inputs; i++)
        buffers[count++] =
            (MoecStepBuffer){.name = "state", .block = MOEC_INPUTS, .offset = (size_t)i};
    if (module->rounded)
        buffers[count++] = (MoecStepBuffer){.name = "rounded", .block = MOEC_COMPUTE_WEIGHTS};
    return single_launch(arena, module, "update_step",
                         (Launch){update->blocks, update->step->launch.threads}, buffers, count, 0);
}

const MoecSteps *rounding_steps(Arena *arena, const Module *module) {
    MoecStepBuffer *buffers = arena_alloc(arena, 2 * sizeof *buffers);
    buffers[0] = (MoecStepBuffer){.name = "weights", .block = MOEC_WEIGHTS};
    buffers[1] = (MoecStepBuffer){.name = "rounded", .block = MOEC_COMPUTE_WEIGHTS};
    return single_launch(arena, module, "moec_round", module->rounding, buffers, 2,
                         (long)(module->weights.bytes / 4));
}
