/* flatten: the host program of an entry as arrays: see runtime/abi/steps.h.
 *
 *     repeat i = 0 .. 2                      0 repeat 2, last 1
 *         launch kernel_train_0(i, x)   -->  1 launch kernel_train_0, values 0 .. 1
 */
#include "module/lowered.h"
#include "base/must.h"

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
    List records; /* const HostRecord *: of the enclosing scopes */
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

/* Bytes of an element; of int8, a group; of int4, a part of a panel. */
static size_t element_bytes(const Tensor *tensor) {
    if (tensor->type == TYPE_INT4) return sizeof(MoecInt4);
    return tensor->type == TYPE_INT8 ? sizeof(MoecGroup) : (size_t)type_bytes(tensor->type);
}

static int scratch_operand(const Flattening *flat) {
    return flat->entry->program->tensors.count;
}

static MoecStepBuffer step_buffer(const Buffer *buffer) {
    const Tensor *tensor = buffer->tensor;
    const size_t element = element_bytes(tensor);
    size_t elements = (size_t)tensor_elements(tensor), offset = buffer->offset;
    if (tensor->type == TYPE_INT8) elements /= INT8_GROUP;
    if (tensor->type == TYPE_INT4) elements = packed_bytes(tensor) / element;
    if (buffer->slots > 1) elements = elements / (size_t)tensor->axes[0]->size * 2;
    if (buffer->block == MOEC_COMPUTE_WEIGHTS) offset *= element;
    return (MoecStepBuffer){buffer->name, buffer->block, offset, elements * element, element};
}

static const MoecStepBuffer *step_buffers(const Flattening *flat) {
    const int count = scratch_operand(flat);
    const size_t first = flat->entry->schedule->arena_bytes;
    const BlockLayout *weights = &flat->module->weights;
    MoecStepBuffer *buffers = arena_alloc(flat->arena, ((size_t)count + 2) * sizeof *buffers);
    for (int i = 0; i < count; i++) buffers[i] = step_buffer(&flat->entry->buffers[i]);
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

/* x, x + offset, or the integer x[offset]. NULL: absent. Returns its number. */
static int add_address(Flattening *flat, const Term *address, int access) {
    MoecStepOperand made = {.buffer = -1, .first_term = flat->terms.count, .access = access};
    while (address && address->op == TERM_CAST) address = address->args[0];
    if (address) {
        const bool is_array = address->op == TERM_NAME;
        made.buffer = (is_array ? address : address->args[0])->variable->tensor->id;
        made.value = address->op == TERM_ELEMENT;
        MUST(is_array || made.value || address->op == TERM_ADDRESS);
        if (!is_array) add_flat_terms(flat, address->args[1]);
    }
    made.term_count = flat->terms.count - made.first_term;
    add(flat, &flat->operands, &made);
    return flat->operands.count - 1;
}

static int add_memory(Flattening *flat, int buffer, size_t offset, int access) {
    const MoecStepTerm term = {MOEC_STEP_NUMBER, (long)offset};
    const MoecStepOperand made = {buffer, flat->terms.count, 1, access, 0};
    add(flat, &flat->terms, &term);
    add(flat, &flat->operands, &made);
    return flat->operands.count - 1;
}

/* ---- values ---- */

static void add_flat_value(Flattening *flat, MoecStepValueKind kind, long number) {
    add(flat, &flat->values, &(MoecStepValue){.kind = kind, .number = number});
}

/* A record by its name: of an enclosing scope, or a constant of the text. NULL: there is none. */
static const HostRecord *record_named(const Flattening *flat, const char *name) {
    for (int i = flat->records.count - 1; i >= 0; i--) {
        const HostRecord *record = flat->records.items[i];
        if (!strcmp(record->name, name)) return record;
    }
    for (int i = 0; i < flat->module->functions.count; i++) {
        const HostRecord *record = ((Section *)flat->module->functions.items[i])->record;
        if (record && !strcmp(record->name, name)) return record;
    }
    return NULL;
}

static void add_host_values(Flattening *flat, const List *values);

static void add_flat_record(Flattening *flat, const char *field, const char *type,
                            const List *values) {
    add(flat, &flat->values, &(MoecStepValue){MOEC_VALUE_RECORD, field, type, values->count, 0});
    add_host_values(flat, values);
}

static bool is_flat_address(const Term *term) {
    return term->op == TERM_ADDRESS || term->op == TERM_CAST || term->op == TERM_ELEMENT ||
           (term->op == TERM_NAME && term->variable->tensor);
}

static void add_term_value(Flattening *flat, const HostValue *value) {
    const Term *term = value->term;
    MoecStepValue made = {.field = value->field};
    const char *name = term->op == TERM_NUMBER ? term->constant : NULL;
    const HostRecord *record = name && value->address ? record_named(flat, name) : NULL;
    if (record) {
        add_flat_record(flat, value->field, record->type, &record->values);
        return;
    }
    if (is_flat_address(term) || (name && !strcmp(name, "NULL"))) {
        made.kind = MOEC_VALUE_OPERAND;
        made.number = add_address(flat, name ? NULL : term, 0);
    } else if (name) {
        made.kind = MOEC_VALUE_CONSTANT;
        made.text = name;
    } else if (term_is_integer(term)) {
        made.number = term->whole;
    } else {
        made.kind = MOEC_VALUE_REAL;
        made.real = term->real;
    }
    add(flat, &flat->values, &made);
}

static void add_host_values(Flattening *flat, const List *values) {
    for (int i = 0; i < values->count; i++) {
        const HostValue *value = values->items[i];
        if (value->term)
            add_term_value(flat, value);
        else
            add_flat_record(flat, value->field, value->type, &value->values);
    }
}

/* In the order of MoecGroupedOnDevice. */
static void add_flat_grouped_sizes(Flattening *flat, const ScheduleUnit *unit) {
    const Product *product = &unit->contraction->product;
    const bool by_weight = unit->contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    const long sizes[] = {product->batch[0],
                          product->n,
                          product->k,
                          product->a_m,
                          by_weight ? product->b_batch[0] : product->c_batch[0],
                          product->b_k,
                          product->b_n,
                          product->c_m};
    const int count = sizeof sizes / sizeof *sizes;
    add(flat, &flat->values,
        &(MoecStepValue){MOEC_VALUE_RECORD, NULL, "MoecGroupedOnDevice", count + 1, 0});
    for (int i = 0; i < count; i++) add_flat_value(flat, MOEC_VALUE_NUMBER, sizes[i]);
    add_flat_value(flat, unit->overwrites_gradient ? MOEC_VALUE_ADDS : MOEC_VALUE_NUMBER,
                   product->accumulate);
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
        add_flat_value(flat, MOEC_VALUE_OPERAND,
                       add_memory(flat, scratch_operand(flat),
                                  param->offset - flat->entry->schedule->arena_bytes, access));
        break;
    case PARAM_NUMBER:
        add_flat_value(flat, MOEC_VALUE_NUMBER, param->number);
        break;
    case PARAM_GROUPED:
        add_flat_grouped_sizes(flat, param->product);
        break;
    case PARAM_RECORD: {
        const HostRecord *record = record_named(flat, param->name);
        MUST(record);
        add_flat_record(flat, NULL, record->type, &record->values);
        break;
    }
    case PARAM_MAP:
    case PARAM_MAPS: /* of further variants */
        break;
    }
}

/* ---- steps ---- */

static MoecType step_type(Type type) {
    return type == TYPE_BF16   ? MOEC_BF16
           : type == TYPE_INT8 ? MOEC_INT8
           : type == TYPE_INT4 ? MOEC_INT4
                               : MOEC_F32;
}

/* Returns its row. */
static int add_flat_product(Flattening *flat, const Product *p) {
    MoecProduct made = {.m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .a_m = p->a_m,
                        .a_k = p->a_k,
                        .b_k = p->b_k,
                        .b_n = p->b_n,
                        .c_m = p->c_m,
                        .accumulate = p->accumulate,
                        .rounded = p->rounded,
                        .a_type = step_type(p->a_type),
                        .b_type = step_type(p->b_type),
                        .c_type = step_type(p->c_type),
                        .epilogue_ops = p->epilogue_ops,
                        .add_m = p->add_m,
                        .kept_m = p->kept_m,
                        .scale = (float)p->scale};
    memcpy(made.batch, p->batch, sizeof made.batch);
    memcpy(made.a_batch, p->a_batch, sizeof made.a_batch);
    memcpy(made.b_batch, p->b_batch, sizeof made.b_batch);
    memcpy(made.c_batch, p->c_batch, sizeof made.c_batch);
    add(flat, &flat->products, &made);
    return flat->products.count - 1;
}

static void set_launch(Flattening *flat, MoecStep *made, const LaunchStep *launch) {
    made->launch.kernel = launch->kernel;
    made->launch.blocks = launch->launch.blocks;
    made->launch.threads = launch->launch.threads;
    made->launch.shared_bytes = launch->shared;
    for (int i = 0; i < launch->arguments.count; i++)
        add_flat_argument(flat, launch->arguments.items[i]);
}

static void set_flat_product(const Flattening *flat, MoecStep *made, const ProductStep *product) {
    made->product.row = product->row;
    made->product.begins = product->begins;
    made->product.more = product->more;
    made->product.own = product->own;
    made->product.blocks = product->blocks;
    for (int i = 0; i < product->first.count; i++)
        made->product.first |= 1U << depth_of(flat, product->first.items[i]);
}

static void set_grouped(Flattening *flat, MoecStep *made, const ScheduleUnit *unit) {
    made->grouped.row = add_flat_product(flat, &unit->contraction->product);
    made->grouped.by_weight = unit->contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    made->grouped.begins = unit->overwrites_gradient;
}

static void set_clear(Flattening *flat, MoecStep *made, const HostStep *step) {
    const Buffer *buffer = step->clear.buffer;
    const int scratch = scratch_operand(flat);
    made->bytes = step->clear.bytes;
    if (buffer)
        add_memory(flat, buffer->tensor->id, 0, MOEC_STEP_WRITES);
    else if (step->clear.scratch)
        add_memory(flat, scratch, step->clear.offset - flat->entry->schedule->arena_bytes,
                   MOEC_STEP_WRITES);
    else
        add_memory(flat, scratch + 1, step->clear.offset, MOEC_STEP_WRITES);
}

static void add_step_operands(Flattening *flat, const List *operands) {
    for (int i = 0; i < operands->count; i++) {
        const Operand *operand = operands->items[i];
        add_address(flat, operand ? operand->address : NULL, operand ? (int)operand->access : 0);
    }
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

static void set_flat_step(Flattening *flat, MoecStep *made, const HostStep *step) {
    static const MoecStepKind kinds[] = {
        [STEP_LAUNCH] = MOEC_STEP_LAUNCH,   [STEP_PRODUCT] = MOEC_STEP_PRODUCT,
        [STEP_GROUPED] = MOEC_STEP_GROUPED, [STEP_CALL] = MOEC_STEP_CALL,
        [STEP_CLEAR] = MOEC_STEP_CLEAR,     [STEP_REPEAT] = MOEC_STEP_REPEAT,
        [STEP_WHEN] = MOEC_STEP_WHEN};
    made->kind = kinds[step->kind];
    if (step->kind == STEP_LAUNCH) set_launch(flat, made, &step->launch);
    if (step->kind == STEP_PRODUCT) set_flat_product(flat, made, &step->product);
    if (step->kind == STEP_GROUPED) set_grouped(flat, made, step->grouped);
    if (step->kind == STEP_CLEAR) set_clear(flat, made, step);
    if (step->kind == STEP_WHEN) made->when = (MoecStepCondition)step->when;
    if (step->kind == STEP_CALL) {
        made->function = step->call.function;
        add_host_values(flat, &step->call.values);
    }
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
    list_push(flat->arena, &flat->records, (void *)(uintptr_t)step->record);
    add_steps(flat, &step->body);
    flat->records.count--;
}

static void add_steps(Flattening *flat, const List *steps) {
    for (int i = 0; i < steps->count; i++) {
        const HostStep *step = steps->items[i];
        (step->kind == STEP_SCOPE ? add_scope : add_flat_step)(flat, step);
    }
}

const MoecSteps *entry_steps(Arena *arena, const Module *module, const Entry *entry) {
    Flattening flat = {.arena = arena, .module = module, .entry = entry};
    MoecSteps *made = arena_alloc(arena, sizeof *made);
    flat.steps.size = sizeof(MoecStep);
    flat.operands.size = sizeof(MoecStepOperand);
    flat.terms.size = sizeof(MoecStepTerm);
    flat.values.size = sizeof(MoecStepValue);
    flat.products.size = sizeof(MoecProduct);
    for (int i = 0; i < module->products.count; i++)
        add_flat_product(&flat, module->products.items[i]);
    add_steps(&flat, &entry->clears);
    add_steps(&flat, &entry->gradients);
    add_steps(&flat, &entry->steps);
    *made = (MoecSteps){.steps = (void *)flat.steps.items,
                        .buffers = step_buffers(&flat),
                        .operands = (void *)flat.operands.items,
                        .terms = (void *)flat.terms.items,
                        .values = (void *)flat.values.items,
                        .products = (void *)flat.products.items,
                        .step_count = flat.steps.count,
                        .buffer_count = scratch_operand(&flat) + 2,
                        .operand_count = flat.operands.count,
                        .term_count = flat.terms.count,
                        .value_count = flat.values.count,
                        .product_count = flat.products.count};
    return made;
}
