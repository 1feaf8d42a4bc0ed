/* emit_units: the units of one program in order, as host steps: kernels, products, calls and
 * repeats. */
#include "codegen/emit.h"

static int add_product(Emitter *emitter, const Contraction *contraction, bool accumulate) {
    Product *copy = arena_alloc(emitter->lower.arena, sizeof *copy);
    *copy = contraction->product;
    copy->name = contraction->c->tensor->name;
    copy->accumulate = accumulate;
    list_push(emitter->lower.arena, &emitter->module->products, copy);
    return emitter->module->products.count - 1;
}

HostStep *add_step(Emitter *emitter, HostStepKind kind) {
    HostStep *step = step_new(emitter->lower.arena, emitter->steps, kind);
    step->statements = emitter->equations;
    emitter->equations = (List){0};
    return step;
}

LaunchStep *add_launch(Emitter *emitter, const char *kernel, Launch launch, const List *arguments) {
    LaunchStep *step = &add_step(emitter, STEP_LAUNCH)->launch;
    step->kernel = kernel;
    step->launch = launch;
    step->arguments = *arguments;
    return step;
}

static void set_operand(Emitter *emitter, HostStep *step, int number, Operand operand) {
    Operand *set = arena_alloc(emitter->lower.arena, sizeof *set);
    *set = operand;
    step->operands.items[number] = set;
}

void add_operands(Emitter *emitter, HostStep *step, int count) {
    for (int i = 0; i < count; i++) list_push(emitter->lower.arena, &step->operands, NULL);
}

void set_access(Emitter *emitter, HostStep *step, int number, const Expr *access, Access kind) {
    if (access)
        set_operand(emitter, step, number,
                    (Operand){&emitter->entry->buffers[access->tensor->id],
                              pointer_term(&emitter->lower, access), kind});
}

void set_value(Emitter *emitter, HostStep *step, int number, const Expr *read) {
    set_operand(emitter, step, number,
                (Operand){&emitter->entry->buffers[read->tensor->id],
                          integer_term(&emitter->lower, read), ACCESS_READ});
}

/* A whole tensor, or NULL. */
static void set_table(Emitter *emitter, HostStep *step, int number, const Tensor *tensor) {
    if (!tensor) return;
    emitter->lower.used[tensor->id] = true;
    set_operand(emitter, step, number,
                (Operand){&emitter->entry->buffers[tensor->id], array_term(&emitter->lower, tensor),
                          ACCESS_READ});
}

/* The last operand first: sizes get their constants in this order. */
static void set_product(Emitter *emitter, HostStep *step, int first,
                        const Contraction *contraction) {
    set_access(emitter, step, first + 2, contraction->c,
               contraction->product.accumulate ? ACCESS_ADD : ACCESS_WRITE);
    set_access(emitter, step, first + 1, contraction->b, ACCESS_READ);
    set_access(emitter, step, first, contraction->a, ACCESS_READ);
}

/* A product of the CPU kernels or of a library of the host; the target adds its own kernel. */
static void emit_dense(Emitter *emitter, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    HostStep *step = add_step(emitter, STEP_PRODUCT);
    for (int i = 0; i < contraction->outer_count && !product->accumulate; i++)
        if (contraction->outer[i].summed)
            list_push(emitter->lower.arena, &step->product.first,
                      (void *)(uintptr_t)bound_index(&emitter->lower, contraction->outer[i].index)
                          ->variable->name);
    step->product.row = add_product(emitter, contraction, product->accumulate);
    step->product.begins = unit->overwrites_gradient;
    if (unit->overwrites_gradient)
        add_product(emitter, contraction, false); /* the next entry stores */
    if (step->product.first.count) step->product.more = add_product(emitter, contraction, true);
    emitter->entry->dense++;
    add_operands(emitter, step, 6);
    step->product.epilogue = product->epilogue_ops != 0;
    if (step->product.epilogue) {
        set_access(emitter, step, 5, unit->kept,
                   product->epilogue_ops & MOEC_KEEP ? ACCESS_WRITE : ACCESS_READ);
        set_access(emitter, step, 4, unit->bias, ACCESS_READ);
        set_access(emitter, step, 3, unit->add, ACCESS_READ);
    }
    set_product(emitter, step, 0, contraction);
    if (emitter->target->product) emitter->target->product(emitter, unit, step);
}

/* The CPU has no epilogues: the result is still in the cache. */
void emit_grouped(Emitter *emitter, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    HostStep *step = add_step(emitter, STEP_GROUPED);
    step->grouped = unit;
    add_operands(emitter, step, 6);
    set_table(emitter, step, 0, contraction->relation->group);
    set_table(emitter, step, 1, contraction->gather);
    set_table(emitter, step, 2, contraction->gather_b);
    set_product(emitter, step, 3, contraction);
}

void emit_equation(Emitter *emitter, const Statement *statement) {
    list_push(emitter->lower.arena, &emitter->equations, (void *)(uintptr_t)statement);
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

/* Opens a repeat that receives later steps. */
static RepeatStep *open_repeat(Emitter *emitter, const Index *index) {
    HostStep *step = add_step(emitter, STEP_REPEAT);
    step->repeat.size = size_text(&emitter->lower, index->axis);
    step->repeat.index = bind_name(&emitter->lower, index, index->name);
    step->repeat.count = index->axis->size;
    emitter->steps = &step->body;
    return &step->repeat;
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
        List *steps = emitter->steps;
        flops *= (double)(product->batch[0] * product->batch[1]);
        for (int i = 0; i < contraction->outer_count; i++) {
            const Index *index = contraction->outer[i].index;
            flops *= (double)index->axis->size;
            open_repeat(emitter, index)->joined = i < contraction->outer_count - 1;
        }
        emit_dense(emitter, unit);
        emitter->steps = steps;
        emitter->lower.binding_count = bindings;
    }
    emitter->entry->flops += flops;
    emitter->entry->product_flops += flops;
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
        emitter->entry->flops += flops;
        emitter->entry->product_flops += flops;
    } while (end < units->count && ((const ScheduleUnit *)units->items[end])->beside);
    emitter->target->rows(emitter, units, first, end - first);
    return end - 1;
}

static void emit_repeat(Emitter *emitter, const ScheduleUnit *unit) {
    const Statement *statement = unit->statement;
    int bindings = emitter->lower.binding_count;
    double repeats = emitter->repeats;
    List *steps = emitter->steps;
    open_repeat(emitter, statement->index)->reverse = statement->reverse;
    emitter->repeats *= (double)statement->index->axis->size;
    emit_units(emitter, &unit->body);
    emitter->repeats = repeats;
    emitter->steps = steps;
    emitter->lower.binding_count = bindings;
}

/* Emits a unit of a list, and those that share a launch with it. Returns the index of the last. */
static int emit_unit(Emitter *emitter, const List *units, int at) {
    const ScheduleUnit *unit = units->items[at];
    switch (unit->kind) {
    case UNIT_KERNEL:
        emitter->target->kernel(emitter, unit->kernel);
        break;
    case UNIT_CONTRACTION:
        if (unit->row) return emit_beside(emitter, units, at);
        emit_contraction(emitter, unit);
        break;
    case UNIT_CALL:
        emitter->target->call(emitter, unit->statement, unit->epilogue);
        break;
    case UNIT_REPEAT:
        emit_repeat(emitter, unit);
        return at;
    }
    ((HostStep *)emitter->steps->items[emitter->steps->count - 1])->unit = unit->first;
    return at;
}

void emit_units(Emitter *emitter, const List *units) {
    List *steps = emitter->steps;
    for (int i = 0; i < units->count; i++) {
        const ScheduleUnit *unit = units->items[i];
        if (unit->once) emitter->steps = steps_when(emitter->lower.arena, steps, LAST_MICRO_BATCH);
        i = emit_unit(emitter, units, i);
        emitter->steps = steps;
    }
}
