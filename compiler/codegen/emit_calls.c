/* emit_calls: operations that are not loops, as calls of runtime/kernels; their sizes. */
#include "analysis/attend.h"
#include "codegen/emit.h"

Shape shape_of(const Expr *operand) {
    Shape shape = {.rank = 0};
    for (int i = 0; i < operand->count; i++) {
        if (operand->args[i]->kind != EXPR_INDEX || operand->args[i]->index->of_repeat) continue;
        shape.index[shape.rank] = operand->args[i]->index;
        shape.size[shape.rank++] = operand->tensor->axes[i]->size;
    }
    return shape;
}

long size_at(const Shape *shape, int back) {
    return shape->size[shape->rank - back];
}

long leading_size(const Shape *shape, int own) {
    long product = 1;
    for (int i = 0; i < shape->rank - own; i++) product *= shape->size[i];
    return product;
}

long attend_places(const Program *program, const Statement *statement) {
    Shape k = shape_of(statement->inputs.items[1]);
    return statement->attention.position ? program->context : size_at(&k, 3);
}

/* The number of query-key pairs, for the count of operations. */
static double pairs_seen(const AttendOptions *options, double queries, double places) {
    if (options->mask == MASK_NONE) return queries * places;
    double full = options->position ? queries * places / 2 : queries * (queries + 1) / 2;
    double window = queries * (double)options->window;
    return options->mask == MASK_WINDOW && window < full ? window : full;
}

void count_attend(Emitter *emitter, const Statement *statement) {
    Shape q = shape_of(statement->inputs.items[0]), v = shape_of(statement->inputs.items[2]);
    long batch = leading_size(&q, 3);
    double pairs = pairs_seen(&statement->attention, (double)size_at(&q, 3),
                              (double)attend_places(emitter->lower.program, statement));
    double flops = 2 * pairs * (double)(batch * size_at(&q, 2) * (size_at(&q, 1) + size_at(&v, 1)));
    emitter->entry->flops +=
        emitter->repeats * flops * (statement->call == CALL_ATTEND_GRAD ? 2.5 : 1);
}

void top_sizes(const Statement *statement, long sizes[3]) {
    const Expr *scores = statement->inputs.items[0];
    int dimension = 0; /* of the subscripts that iterate */
    for (int i = 0; i < 3; i++) sizes[i] = 1;
    for (int i = 0; i < scores->count; i++) {
        if (scores->args[i]->kind != EXPR_INDEX || scores->args[i]->index->of_repeat) continue;
        int part = (dimension >= statement->top.dimension) + (dimension > statement->top.dimension);
        sizes[part] *= scores->tensor->axes[i]->size;
        dimension++;
    }
}

void through_strides(const Shape *mask, const Expr *through, long strides[MAX_RANK]) {
    Shape shape = shape_of(through);
    long stride = 1;
    for (int i = 0; i < MAX_RANK; i++) strides[i] = 0;
    for (int i = shape.rank - 1; i >= 0; i--) {
        for (int j = 0; j < mask->rank; j++)
            if (mask->index[j] == shape.index[i]) strides[j] = stride;
        stride *= shape.size[i];
    }
}

/* Input or output number `at` of a call. */
static void set_call(Emitter *emitter, HostStep *step, int at) {
    const Statement *statement = step->call.statement;
    const int inputs = statement->inputs.count;
    const bool position = statement->call == CALL_ATTEND && statement->attention.position &&
                          at == attend_operands(&statement->attention);
    if (position)
        set_value(emitter, step, at, statement->inputs.items[at]);
    else if (at < inputs)
        set_access(emitter, step, at, statement->inputs.items[at], ACCESS_READ);
    else
        set_access(emitter, step, at, statement->outputs.items[at - inputs], ACCESS_WRITE);
}

/* Sizes get their constants in the order of the operands; the last operand is first in gradients
 * and in decoding. */
HostStep *add_call(Emitter *emitter, const Statement *statement) {
    const int count = statement->inputs.count + statement->outputs.count;
    const bool backwards = statement->call == CALL_ATTEND_GRAD ||
                           (statement->call == CALL_ATTEND && statement->attention.position);
    HostStep *step = add_step(emitter, STEP_CALL);
    step->call.program = emitter->lower.program;
    step->call.statement = statement;
    add_operands(emitter, step, count);
    for (int i = 0; i < count; i++) set_call(emitter, step, backwards ? count - 1 - i : i);
    return step;
}

/* The CPU has no epilogues for calls. */
void emit_call(Emitter *emitter, const Statement *statement, Kernel *epilogue) {
    (void)epilogue;
    if (statement->call == CALL_SCAN) {
        emit_scan(emitter, statement);
        return;
    }
    emit_equation(emitter, statement);
    HostStep *step = add_call(emitter, statement);
    if (statement->call == CALL_ATTEND || statement->call == CALL_ATTEND_GRAD)
        count_attend(emitter, statement);
    if (statement->call == CALL_TOP) return;
    /* Options are constants of the file, above the function that uses them. */
    step->call.options = arena_format(emitter->lower.arena, "moec_options_%s_%d",
                                      emitter->entry->name, emitter->entry->kernels++);
    add_section(emitter->lower.arena, &emitter->module->functions, (Section){.options = step});
}
