/* print_steps: the host program of an entry as the function run_NAME, which finds the memory of
 * every tensor and executes the steps. */
#include "print/print.h"

static const char *operand_text(Arena *arena, const HostStep *step, int number) {
    const Operand *operand = step->operands.items[number];
    return operand ? term_text(arena, operand->address) : "NULL";
}

static void print_steps(Text *text, const PrintContext *context, const List *steps, int indent);

/* ---- single steps ---- */

static void print_launch(Text *text, const PrintContext *context, const LaunchStep *launch,
                         int indent) {
    const char *arguments = arguments_text(text->arena, context->style, &launch->arguments);
    if (!context->module->apart)
        print_format(text, indent, "%s(%s);", launch->kernel, arguments);
    else if (launch->shared)
        print_format(text, indent, "moec_launch_with(run, %s, %ld, %d, %ld, MOEC_ARGUMENTS(%s));",
                     launch->kernel, launch->launch.blocks, launch->launch.threads, launch->shared,
                     arguments);
    else
        print_format(text, indent, "moec_launch(run, %s, %ld, %d, MOEC_ARGUMENTS(%s));",
                     launch->kernel, launch->launch.blocks, launch->launch.threads, arguments);
}

/* The row of a product in the table. */
static const char *row_text(Arena *arena, const ProductStep *product) {
    const char *row =
        arena_format(arena, "%d%s", product->row, product->begins ? " + moec_first" : "");
    if (!product->first.count) return row;
    Text first = {.arena = arena};
    for (int i = 0; i < product->first.count; i++)
        text_add(&first, "%s%s == 0", i ? " && " : "", (const char *)product->first.items[i]);
    return arena_format(arena, "%s ? %s : %d", first.text, row, product->more);
}

/* The scales of both operands, if they have some. */
static const char *scales_text(Arena *arena, const HostStep *step) {
    return step->operands.items[6] ? arena_format(arena, ", %s, %s", operand_text(arena, step, 6),
                                                  operand_text(arena, step, 7))
                                   : "";
}

static void print_product(Text *text, const PrintContext *context, const HostStep *step,
                          int indent) {
    Arena *arena = text->arena;
    const ProductStep *product = &step->product;
    const char *row = row_text(arena, product), *own = "", *epilogue = "NULL";
    if (product->epilogue)
        epilogue = arena_format(arena, "&(const MoecEpilogue){%s, %s, %s%s}",
                                operand_text(arena, step, 3), operand_text(arena, step, 4),
                                operand_text(arena, step, 5), scales_text(arena, step));
    if (product->own)
        own = arena_format(arena, ", %s, %s, %ld", epilogue, product->own, product->blocks);
    const char *call =
        context->stored ? "moec_multiply(" : arena_format(arena, "moec_product(run, %s, ", row);
    print_format(text, indent, "%s&moec_products[%s], %s, %s, %s%s);", call, row,
                 operand_text(arena, step, 0), operand_text(arena, step, 1),
                 operand_text(arena, step, 2), own);
}

/* Rounding and storage types of a product, unless all are f32. */
static const char *rounding_text(Arena *arena, const Product *product) {
    Text text = {.arena = arena};
    text_add(&text, "%s", product->rounded ? ", .rounded = 1" : "");
    add_type(&text, "a", product->a_type);
    add_type(&text, "b", product->b_type);
    add_type(&text, "c", product->c_type);
    return text.text;
}

/* The arguments of a call for dispatched rows, between `before` and `after`. */
static void print_grouped(Text *text, const HostStep *step, const char *before, const char *after,
                          int indent) {
    Arena *arena = text->arena;
    const Contraction *contraction = step->grouped->contraction;
    const Product *product = &contraction->product;
    bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    print_format(
        text, indent,
        "%s&(const MoecGrouped){.kind = %s, .groups = %ld, .n = %ld, .k = %ld, .a_row = %ld,",
        before, weight ? "MOEC_ROWS_BY_WEIGHT" : "MOEC_ROWS_BY_ROWS", product->batch[0], product->n,
        product->k, product->a_m);
    print_format(text, indent,
                 "    .b_group = %ld, .b_k = %ld, .b_n = %ld, .c_row = %ld, .accumulate = %s%s},",
                 weight ? product->b_batch[0] : product->c_batch[0], product->b_k, product->b_n,
                 product->c_m, adds_text(step->grouped), rounding_text(arena, product));
    print_format(text, indent, "&(const MoecRows){.group = %s, .a_gather = %s, .b_gather = %s},",
                 operand_text(arena, step, 0), operand_text(arena, step, 1),
                 operand_text(arena, step, 2));
    print_format(text, indent, "%s, %s, %s%s", operand_text(arena, step, 3),
                 operand_text(arena, step, 4), operand_text(arena, step, 5), after);
}

static bool shares_call(const HostStep *step) {
    if (step->kind == STEP_GROUPED) return step->grouped->beside;
    return step->kind == STEP_PRODUCT && step->product.beside;
}

/* The index after the products that share a call with step `first`. */
static int end_of_call(const List *steps, int first) {
    int end = first + 1;
    while (end < steps->count && shares_call(steps->items[end])) end++;
    return end;
}

/* Several products as one call. */
static void print_shared(Text *text, const List *steps, int first, int end, int indent) {
    Arena *arena = text->arena;
    const bool grouped = ((const HostStep *)steps->items[first])->kind == STEP_GROUPED;
    print_line(text, indent,
               grouped ? "moec_shared_grouped((const MoecGroupedCall[]){"
                       : "moec_shared_products(run, (const MoecProductCall[]){");
    for (int i = first; i < end; i++) {
        const HostStep *step = steps->items[i];
        const char *after = i + 1 < end ? "}," : "}";
        if (grouped) {
            print_grouped(text, step, "{", after, indent + 2);
            continue;
        }
        const char *row = row_text(arena, &step->product);
        print_format(text, indent + 2, "{%s, &moec_products[%s], %s, %s, %s%s", row, row,
                     operand_text(arena, step, 0), operand_text(arena, step, 1),
                     operand_text(arena, step, 2), after);
    }
    print_format(text, indent, "}, %d);", end - first);
}

static void print_clear(Text *text, const PrintContext *context, const HostStep *step, int indent) {
    const size_t offset = step->clear.offset;
    const char *memory =
        step->clear.buffer ? step->clear.buffer->name
        : step->clear.scratch
            ? arena_format(text->arena, "run->arena + %zu", offset)
            : arena_format(text->arena, "run->gradients + %zu", offset / sizeof(float));
    print_format(text, indent, "%s%s, %zu);", context->style->clear, memory, step->clear.bytes);
}

static void print_repeat(Text *text, const PrintContext *context, const HostStep *step,
                         int indent) {
    const RepeatStep *repeat = &step->repeat;
    const char *index = repeat->index;
    if (repeat->reverse)
        print_format(text, indent, "for (long %s = %s - 1; %s >= 0; %s--) {", index, repeat->size,
                     index, index);
    else
        print_format(text, indent, "for (long %s = 0; %s < %s; %s++)%s", index, index, repeat->size,
                     index, repeat->joined ? "" : " {");
    print_steps(text, context, &step->body, indent + !repeat->joined);
    if (!repeat->joined) print_line(text, indent, "}");
}

static void print_when(Text *text, const PrintContext *context, const HostStep *step, int indent) {
    static const char *const conditions[] = {
        [FIRST_MICRO_BATCH] = "moec_first",
        [LAST_MICRO_BATCH] = "run->last_micro_batch",
        [FORWARD_PART] = "run->part != MOEC_PART_BACKWARD",
        [BACKWARD_PART] = "run->part != MOEC_PART_FORWARD",
    };
    print_format(text, indent, "if (%s) {", conditions[step->when]);
    print_steps(text, context, &step->body, indent + 1);
    print_line(text, indent, "}");
}

static void print_step(Text *text, const PrintContext *context, const HostStep *step, int indent) {
    switch (step->kind) {
    case STEP_LAUNCH:
        print_launch(text, context, &step->launch, indent);
        break;
    case STEP_PRODUCT:
        print_product(text, context, step, indent);
        break;
    case STEP_GROUPED:
        print_line(text, indent, "moec_grouped_product(");
        print_grouped(text, step, "", ");", indent + 2);
        break;
    case STEP_CALL:
        print_call(text, step, indent);
        break;
    case STEP_SCOPE:
        print_line(text, indent, "{");
        print_record(text, step->record, indent + 1);
        print_steps(text, context, &step->body, indent + 1);
        print_line(text, indent, "}");
        break;
    case STEP_CLEAR:
        print_clear(text, context, step, indent);
        break;
    case STEP_REPEAT:
        print_repeat(text, context, step, indent);
        break;
    case STEP_WHEN:
        print_when(text, context, step, indent);
        break;
    }
}

static void add_equation_lines(Text *text, const HostStep *step, int indent) {
    for (int i = 0; i < step->statements.count; i++)
        print_format(text, indent, "/* %s */",
                     equation_text(text->arena, step->statements.items[i]));
}

static void print_steps(Text *text, const PrintContext *context, const List *steps, int indent) {
    for (int i = 0; i < steps->count; i++) {
        const HostStep *step = steps->items[i];
        const int end = context->stored ? i + 1 : end_of_call(steps, i);
        for (int j = i; j < end; j++) add_equation_lines(text, steps->items[j], indent);
        if (end == i + 1)
            print_step(text, context, step, indent);
        else
            print_shared(text, steps, i, end, indent);
        step = steps->items[i = end - 1];
        if (context->module->hosting == TARGET_MARKED && step->unit >= 0)
            print_format(text, indent, "moec_mark(run, %d);", step->unit);
    }
}

/* ---- the function ---- */

static const char *memory_of(Arena *arena, const Buffer *buffer) {
    const char *type = type_name(buffer->tensor);
    const size_t floats = buffer->offset / sizeof(float);
    switch (buffer->block) {
    case MOEC_WEIGHTS:
        return arena_format(arena, "run->weights + %zu", floats);
    case MOEC_GRADIENTS:
        return arena_format(arena, "run->gradients + %zu", floats);
    case MOEC_STATES:
        return arena_format(arena, "run->states + %zu", floats);
    case MOEC_INPUTS:
        return arena_format(arena, "run->inputs[%zu]", buffer->offset);
    case MOEC_OUTPUTS:
        return arena_format(arena, "run->outputs[%zu]", buffer->offset);
    case MOEC_CACHE:
        if (buffer->tensor->type == TYPE_REAL)
            return arena_format(arena, "run->cache + %zu", floats);
        return arena_format(arena, "(%s *)(void *)(run->cache + %zu)", type, floats);
    case MOEC_COMPUTE_WEIGHTS:
        return arena_format(arena, "(const %s *)run->rounded + %zu", type, buffer->offset);
    default:
        return arena_format(arena, "(void *)(run->arena + %zu)", buffer->offset);
    }
}

/* In a freestanding program: constants, or parts of its state. */
static const char *plain_memory_of(Arena *arena, const PrintContext *context,
                                   const Buffer *buffer) {
    const size_t stored = context->stored[buffer->tensor->id];
    switch (buffer->block) {
    case MOEC_WEIGHTS:
    case MOEC_STATES:
        return arena_format(arena, "moec_floats.values + %zu", stored);
    case MOEC_COMPUTE_WEIGHTS:
        return arena_format(arena, "moec_rounded.%s + %zu",
                            weight_type(buffer->tensor->type)->array, stored);
    case MOEC_INPUTS:
        return buffer->tensor->scalar == MOEC_SCALAR_POSITION ? "&run->position" : "&run->token";
    case MOEC_OUTPUTS:
        if (is_logits(buffer->tensor)) return "run->logits";
        return arena_format(arena, "(void *)(run->arena + %zu)", stored);
    case MOEC_CACHE:
        return arena_format(arena, "(void *)(run->cache + %zu)", buffer->offset);
    default:
        return arena_format(arena, "(void *)(run->arena + %zu)", buffer->offset);
    }
}

static void declare_buffers(Text *text, const PrintContext *context, const Entry *entry) {
    for (int i = 0; i < entry->program->tensors.count; i++) {
        const Buffer *buffer = &entry->buffers[i];
        if (buffer->used || buffer->cleared)
            print_format(
                text, 1, "%s%s *const %s = %s; /* %s%s */",
                buffer->constant || (context->stored && buffer->block == MOEC_STATES) ? "const "
                                                                                      : "",
                type_name(buffer->tensor), buffer->name,
                context->stored ? plain_memory_of(text->arena, context, buffer)
                                : memory_of(text->arena, buffer),
                axes_of(text->arena, buffer->tensor), buffer->slots > 1 ? ", two slots" : "");
    }
}

void print_entry(Text *text, const PrintContext *context, const Entry *entry) {
    text_add(text, "static void run_%s(%s *run)\n{\n", entry->name, context->style->run);
    const size_t start = text->length;
    if (context->module->hosting == TARGET_MARKED) print_line(text, 1, "moec_mark(run, -1);");
    declare_buffers(text, context, entry);
    print_steps(text, context, &entry->clears, 1);
    if (entry->gradients.count)
        print_line(text, 1, "const int moec_first = run->first_micro_batch != 0;");
    print_steps(text, context, &entry->gradients, 1);
    if (text->length == start) text_add(text, "    (void)run;\n");
    text_add(text, "\n");
    print_steps(text, context, &entry->steps, 1);
    text_add(text, "}\n\n");
}
