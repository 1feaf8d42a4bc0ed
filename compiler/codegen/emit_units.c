/* emit_units: the units of one program in order: kernels, products, calls and repeats. */
#include "codegen/emit.h"

#include <string.h>

static int add_product(Emitter *emitter, const Contraction *contraction, bool accumulate) {
    Product *copy = arena_alloc(emitter->lower.arena, sizeof *copy);
    *copy = contraction->product;
    copy->name = contraction->c->tensor->name;
    copy->accumulate = accumulate;
    list_push(emitter->lower.arena, emitter->products, copy);
    return emitter->products->count - 1;
}

/* The condition that all summed loops around a product are in their first iteration. */
static const char *first_iteration(Emitter *emitter, const Contraction *contraction) {
    Text text = {.arena = emitter->lower.arena};
    for (int i = 0; i < contraction->outer_count; i++) {
        const OuterLoop *loop = &contraction->outer[i];
        if (!loop->summed) continue;
        text_add(&text, "%s%s == 0", text.length ? " && " : "",
                 bound_index(&emitter->lower, loop->index)->text);
    }
    return text.text;
}

void emit_equation(Emitter *emitter, const Statement *statement) {
    const char *place = line_of(emitter->lower.arena, statement->span);
    const char *text = print_statement(emitter->lower.arena, statement);
    emit_line(emitter, "/* %.*s%s%s */", (int)strcspn(text, "\n"), text, *place ? "   -- " : "",
              place);
}

static void add_dense(Emitter *emitter, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    const char *first = product->accumulate ? NULL : first_iteration(emitter, contraction);
    const char *number = arena_format(emitter->lower.arena, "%d",
                                      add_product(emitter, contraction, product->accumulate));
    emitter->dense++;
    if (unit->overwrites_gradient) { /* the next entry stores */
        add_product(emitter, contraction, false);
        number = arena_format(emitter->lower.arena, "%s + moec_first", number);
    }
    if (first)
        number = arena_format(emitter->lower.arena, "%s ? %s : %d", first, number,
                              add_product(emitter, contraction, true));
    emitter->target->product(emitter, unit, number);
}

/* A product of the CPU kernels or of a library of the host. */
void emit_dense(Emitter *emitter, const ScheduleUnit *unit, const char *number) {
    const Contraction *contraction = unit->contraction;
    emit_line(emitter, "moec_product(run, %s, &moec_products[%s], %s, %s, %s);", number, number,
              pointer_text(&emitter->lower, contraction->a),
              pointer_text(&emitter->lower, contraction->b),
              pointer_text(&emitter->lower, contraction->c));
}

/* Rounding and storage types of a product, unless all are f32. */
static const char *rounding_text(Arena *arena, const Product *product) {
    Text text = {.arena = arena};
    text_add(&text, "%s", product->rounded ? ", .rounded = 1" : "");
    emit_type(&text, "a", product->a_type);
    emit_type(&text, "b", product->b_type);
    emit_type(&text, "c", product->c_type);
    return text.text;
}

/* The CPU has no epilogues: the result is still in the cache. */
void emit_grouped(Emitter *emitter, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    const Tensor *tables[3] = {contraction->relation->group, contraction->gather,
                               contraction->gather_b};
    const char *names[3], *adds = unit->overwrites_gradient ? "!moec_first"
                                  : product->accumulate     ? "1"
                                                            : "0";
    for (int i = 0; i < 3; i++) {
        if (tables[i]) emitter->lower.used[tables[i]->id] = true;
        names[i] = tables[i] ? emitter->lower.names[tables[i]->id] : "NULL";
    }
    emit_line(emitter, "moec_grouped_product(");
    emitter->indent += 2;
    emit_line(emitter,
              "&(const MoecGrouped){.kind = %s, .groups = %ld, .n = %ld, .k = %ld, .a_row = %ld,",
              weight ? "MOEC_ROWS_BY_WEIGHT" : "MOEC_ROWS_BY_ROWS", product->batch[0], product->n,
              product->k, product->a_m);
    emit_line(emitter,
              "    .b_group = %ld, .b_k = %ld, .b_n = %ld, .c_row = %ld, .accumulate = %s%s},",
              weight ? product->b_batch[0] : product->c_batch[0], product->b_k, product->b_n,
              product->c_m, adds, rounding_text(emitter->lower.arena, product));
    emit_line(emitter, "&(const MoecRows){.group = %s, .a_gather = %s, .b_gather = %s},", names[0],
              names[1], names[2]);
    emit_line(emitter, "%s, %s, %s);", pointer_text(&emitter->lower, contraction->a),
              pointer_text(&emitter->lower, contraction->b),
              pointer_text(&emitter->lower, contraction->c));
    emitter->indent -= 2;
}

/* Without the iterations of its batch and of its outer loops. */
static double flops_of(const Emitter *emitter, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    double depth =
        (double)product->k +
        (unit->accumulated_product ? (double)unit->accumulated_product->contraction->product.k : 0);
    return 2.0 * (double)product->m * (double)product->n * depth * emitter->repeats;
}

static void emit_contraction(Emitter *emitter, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    if (unit->accumulated_product) emit_equation(emitter, unit->accumulated_product->statement);
    emit_equation(emitter, unit->statement);
    for (int i = 1; contraction->product.epilogue_ops && i < unit->epilogue->members.count; i++)
        emit_equation(emitter, ((Member *)unit->epilogue->members.items[i])->statement);
    double flops = flops_of(emitter, unit);
    if (contraction->kind != CONTRACTION_PRODUCT) {
        emitter->target->grouped(emitter, unit);
    } else {
        int bindings = emitter->lower.binding_count;
        flops *= (double)(product->batch[0] * product->batch[1]);
        for (int i = 0; i < contraction->outer_count; i++) {
            const Index *index = contraction->outer[i].index;
            const char *name = bind_name(&emitter->lower, index, index->name);
            flops *= (double)index->axis->size;
            emit_line(emitter, "for (long %s = 0; %s < %s; %s++)%s", name, name,
                      size_text(&emitter->lower, index->axis), name,
                      i < contraction->outer_count - 1 ? "" : " {");
        }
        emitter->indent += contraction->outer_count > 0;
        add_dense(emitter, unit);
        emitter->indent -= contraction->outer_count > 0;
        if (contraction->outer_count) emit_line(emitter, "}");
        emitter->lower.binding_count = bindings;
    }
    emitter->flops += flops;
    emitter->product_flops += flops;
}

/* Emits rows that share a launch, from `first` on. Returns the index of the last. */
static int emit_beside(Emitter *emitter, const List *units, int first) {
    int end = first;
    do {
        const ScheduleUnit *unit = units->items[end++];
        const ScheduleUnit *pair = unit->paired_row;
        double flops = flops_of(emitter, unit) * (pair ? 2 : 1);
        if (pair) emit_equation(emitter, pair->statement);
        emit_equation(emitter, unit->statement);
        emitter->flops += flops;
        emitter->product_flops += flops;
    } while (end < units->count && ((const ScheduleUnit *)units->items[end])->beside);
    emitter->target->rows(emitter, units, first, end - first);
    return end - 1;
}

static void emit_repeat(Emitter *emitter, const ScheduleUnit *unit) {
    const Statement *statement = unit->statement;
    int bindings = emitter->lower.binding_count;
    double repeats = emitter->repeats;
    const Axis *axis = statement->index->axis;
    const char *size = size_text(&emitter->lower, axis);
    const char *name = bind_name(&emitter->lower, statement->index, statement->index->name);
    if (statement->reverse)
        emit_line(emitter, "for (long %s = %s - 1; %s >= 0; %s--) {", name, size, name, name);
    else
        emit_line(emitter, "for (long %s = 0; %s < %s; %s++) {", name, name, size, name);
    emitter->indent++;
    emitter->repeats *= (double)axis->size;
    emit_units(emitter, &unit->body);
    emitter->repeats = repeats;
    emitter->indent--;
    emit_line(emitter, "}");
    emitter->lower.binding_count = bindings;
}

void emit_units(Emitter *emitter, const List *units) {
    for (int i = 0; i < units->count; i++) {
        const ScheduleUnit *unit = units->items[i];
        if (unit->once) {
            emit_line(emitter, "if (run->last_micro_batch) {");
            emitter->indent++;
        }
        switch (unit->kind) {
        case UNIT_KERNEL:
            emitter->target->kernel(emitter, unit->kernel);
            break;
        case UNIT_CONTRACTION:
            if (unit->row)
                i = emit_beside(emitter, units, i);
            else
                emit_contraction(emitter, unit);
            break;
        case UNIT_CALL:
            emitter->target->call(emitter, unit->statement, unit->epilogue);
            break;
        case UNIT_REPEAT:
            emit_repeat(emitter, unit);
            break;
        }
        if (emitter->target->marks && unit->kind != UNIT_REPEAT)
            emit_line(emitter, "moec_mark(run, %d);", unit->first);
        if (!unit->once) continue;
        emitter->indent--;
        emit_line(emitter, "}");
    }
}
