/* lower_units: the units of one program in order, as host steps: kernels, products, calls and
 * repeats. */
#include "lower/lower_entry.h"

static int add_product(EntryLowering *lowering, const Contraction *contraction, bool accumulate) {
    Product *copy = arena_alloc(lowering->lower.arena, sizeof *copy);
    *copy = contraction->product;
    copy->name = contraction->c->tensor->name;
    copy->accumulate = accumulate;
    list_push(lowering->lower.arena, &lowering->module->products, copy);
    return lowering->module->products.count - 1;
}

HostStep *add_step(EntryLowering *lowering, HostStepKind kind) {
    HostStep *step = step_new(lowering->lower.arena, lowering->steps, kind);
    step->statements = lowering->equations;
    lowering->equations = (List){0};
    return step;
}

LaunchStep *add_launch(EntryLowering *lowering, const char *kernel, Launch launch,
                       const List *arguments) {
    LaunchStep *step = &add_step(lowering, STEP_LAUNCH)->launch;
    step->kernel = kernel;
    step->launch = launch;
    step->arguments = *arguments;
    return step;
}

static void set_operand(EntryLowering *lowering, HostStep *step, int number, Operand operand) {
    Operand *set = arena_alloc(lowering->lower.arena, sizeof *set);
    *set = operand;
    step->operands.items[number] = set;
}

void add_operands(EntryLowering *lowering, HostStep *step, int count) {
    for (int i = 0; i < count; i++) list_push(lowering->lower.arena, &step->operands, NULL);
}

void set_access(EntryLowering *lowering, HostStep *step, int number, const Expr *access,
                Access kind) {
    if (access)
        set_operand(lowering, step, number,
                    (Operand){&lowering->entry->buffers[access->tensor->id],
                              pointer_term(&lowering->lower, access), kind});
}

void set_value(EntryLowering *lowering, HostStep *step, int number, const Expr *read) {
    set_operand(lowering, step, number,
                (Operand){&lowering->entry->buffers[read->tensor->id],
                          integer_term(&lowering->lower, read), ACCESS_READ});
}

/* A whole tensor, or NULL. */
static void set_table(EntryLowering *lowering, HostStep *step, int number, const Tensor *tensor) {
    if (!tensor) return;
    lowering->lower.used[tensor->id] = true;
    set_operand(lowering, step, number,
                (Operand){&lowering->entry->buffers[tensor->id],
                          array_term(&lowering->lower, tensor), ACCESS_READ});
}

/* The last operand first: sizes get their constants in this order. */
static void set_product(EntryLowering *lowering, HostStep *step, int first,
                        const Contraction *contraction) {
    set_access(lowering, step, first + 2, contraction->c,
               contraction->product.accumulate ? ACCESS_ADD : ACCESS_WRITE);
    set_access(lowering, step, first + 1, contraction->b, ACCESS_READ);
    set_access(lowering, step, first, contraction->a, ACCESS_READ);
}

/* A product of the CPU kernels or of a library of the host; the target adds its own kernel. */
static void lower_dense(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    HostStep *step = add_step(lowering, STEP_PRODUCT);
    for (int i = 0; i < contraction->outer_count && !product->accumulate; i++)
        if (contraction->outer[i].summed)
            list_push(lowering->lower.arena, &step->product.first,
                      (void *)(uintptr_t)bound_index(&lowering->lower, contraction->outer[i].index)
                          ->variable->name);
    step->product.row = add_product(lowering, contraction, product->accumulate);
    step->product.begins = unit->overwrites_gradient;
    if (unit->overwrites_gradient)
        add_product(lowering, contraction, false); /* the next entry stores */
    if (step->product.first.count) step->product.more = add_product(lowering, contraction, true);
    step->product.beside = unit->beside;
    lowering->entry->dense++;
    add_operands(lowering, step, MOEC_PRODUCT_OPERANDS);
    step->product.epilogue = product->epilogue_ops != 0 || contraction->a_scale;
    set_access(lowering, step, 7, contraction->b_scale, ACCESS_READ);
    set_access(lowering, step, 6, contraction->a_scale, ACCESS_READ);
    if (product->epilogue_ops) {
        set_access(lowering, step, 5, unit->kept,
                   product->epilogue_ops & MOEC_KEEP ? ACCESS_WRITE : ACCESS_READ);
        set_access(lowering, step, 4, unit->bias, ACCESS_READ);
        set_access(lowering, step, 3, unit->add, ACCESS_READ);
    }
    set_product(lowering, step, 0, contraction);
    if (lowering->target->product) lowering->target->product(lowering, unit, step);
}

/* The CPU has no epilogues: the result is still in the cache. */
void lower_grouped(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    HostStep *step = add_step(lowering, STEP_GROUPED);
    step->grouped = unit;
    add_operands(lowering, step, 6);
    set_table(lowering, step, 0, contraction->relation->group);
    set_table(lowering, step, 1, contraction->gather);
    set_table(lowering, step, 2, contraction->gather_b);
    set_product(lowering, step, 3, contraction);
}

void add_equation(EntryLowering *lowering, const Statement *statement) {
    list_push(lowering->lower.arena, &lowering->equations, (void *)(uintptr_t)statement);
}

/* Without the iterations of its batch and of its outer loops. */
static double flops_of(const EntryLowering *lowering, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    double depth =
        (double)product->k +
        (unit->accumulated_product ? (double)unit->accumulated_product->contraction->product.k : 0);
    return 2.0 * (double)product->m * (double)product->n * depth * lowering->repeats;
}

/* Opens a repeat that receives later steps. */
static RepeatStep *open_repeat(EntryLowering *lowering, const Index *index) {
    HostStep *step = add_step(lowering, STEP_REPEAT);
    step->repeat.size = size_text(&lowering->lower, index->axis);
    step->repeat.index = bind_name(&lowering->lower, index, index->name);
    step->repeat.count = index->axis->size;
    lowering->steps = &step->body;
    return &step->repeat;
}

static void lower_contraction(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    if (unit->accumulated_product) add_equation(lowering, unit->accumulated_product->statement);
    add_equation(lowering, unit->statement);
    for (int i = 1; contraction->product.epilogue_ops && i < unit->epilogue->members.count; i++)
        add_equation(lowering, ((Member *)unit->epilogue->members.items[i])->statement);
    double flops = flops_of(lowering, unit);
    if (contraction->kind != CONTRACTION_PRODUCT) {
        lowering->target->grouped(lowering, unit);
    } else {
        int bindings = lowering->lower.binding_count;
        List *steps = lowering->steps;
        flops *= (double)(product->batch[0] * product->batch[1]);
        for (int i = 0; i < contraction->outer_count; i++) {
            const Index *index = contraction->outer[i].index;
            flops *= (double)index->axis->size;
            open_repeat(lowering, index)->joined = i < contraction->outer_count - 1;
        }
        lower_dense(lowering, unit);
        lowering->steps = steps;
        lowering->lower.binding_count = bindings;
    }
    lowering->entry->flops += flops;
    lowering->entry->product_flops += flops;
}

static bool shares_with_next(const List *units, int at) {
    return at + 1 < units->count && ((const ScheduleUnit *)units->items[at + 1])->beside;
}

/* Emits rows that share a launch, from `first` on. Returns the index of the last. */
static int lower_beside(EntryLowering *lowering, const List *units, int first) {
    int end = first;
    do {
        const ScheduleUnit *unit = units->items[end++];
        const ScheduleUnit *pair = unit->paired_row;
        double flops = flops_of(lowering, unit) * (pair ? 2 : 1);
        if (pair) add_equation(lowering, pair->statement);
        add_equation(lowering, unit->statement);
        lowering->entry->flops += flops;
        lowering->entry->product_flops += flops;
    } while (shares_with_next(units, end - 1));
    lowering->target->rows(lowering, units, first, end - first);
    return end - 1;
}

static void lower_repeat(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Statement *statement = unit->statement;
    int bindings = lowering->lower.binding_count;
    double repeats = lowering->repeats;
    List *steps = lowering->steps;
    open_repeat(lowering, statement->index)->reverse = statement->reverse;
    lowering->repeats *= (double)statement->index->axis->size;
    lower_units(lowering, &unit->body);
    lowering->repeats = repeats;
    lowering->steps = steps;
    lowering->lower.binding_count = bindings;
}

/* Emits a unit of a list, and those that share a launch with it. Returns the index of the last. */
static int lower_unit(EntryLowering *lowering, const List *units, int at) {
    const ScheduleUnit *unit = units->items[at];
    switch (unit->kind) {
    case UNIT_KERNEL:
        lowering->target->kernel(lowering, unit->kernel);
        break;
    case UNIT_CONTRACTION:
        if (unit->row) return lower_beside(lowering, units, at);
        lower_contraction(lowering, unit);
        break;
    case UNIT_CALL:
        unit->statement->row->lower(lowering, unit);
        break;
    case UNIT_REPEAT:
        lower_repeat(lowering, unit);
        return at;
    }
    if (!shares_with_next(units, at))
        ((HostStep *)lowering->steps->items[lowering->steps->count - 1])->unit = unit->first;
    return at;
}

void lower_units(EntryLowering *lowering, const List *units) {
    List *steps = lowering->steps;
    for (int i = 0; i < units->count; i++) {
        const ScheduleUnit *unit = units->items[i];
        if (unit->once)
            lowering->steps = steps_when(lowering->lower.arena, steps, LAST_MICRO_BATCH);
        i = lower_unit(lowering, units, i);
        lowering->steps = steps;
    }
}
