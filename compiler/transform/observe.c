/* observe: adds tensors to the outputs: activations, named after the weights that produce them, or
 * tensors by their names in the spec.
 *
 * Needs:   an elaborated forward program, with parameter_facts.
 * Leaves:  tensors by name: the last value of each, in the order of computation. Those inside a
 *          repeat have the iteration as first axis, those inside a scan then its axis.
 *
 *          Activations: the destination of every parameter's product (parameter_flow) and the
 *          values that a repeat carries. Those that are added to their own input (a residual
 *          branch) have the suffix +. Results of single instances of a layer are left out.
 *
 *          Gradients of tensors by name, "gradient:NAME": the same copies, also of the states in a
 *          scan, which the pass gradient replaces.
 *
 *          All precede the outputs declared by the model. Only observe_applied drops these.
 */
#include "analysis/parameter_flow.h"
#include "base/must.h"
#include "passes.h"

#include <string.h>

static const char gradient_mark[] = "gradient:";

typedef struct Observation {
    const Tensor *tensor;
    const char *name;
    bool of_adjoint;
} Observation;

static bool is_whole_activation(const Program *program, const ParameterFlow *flow) {
    const Tensor *end = flow->end, *parameter = flow->tensor;
    if (!end || end->role != ROLE_TEMP || !tensor_has_axis(end, program->batch)) return false;
    for (int i = 0; i < parameter->lead; i++)
        if (parameter->axes[i]->kind != AXIS_REPEAT && tensor_has_axis(end, parameter->axes[i]))
            return false;
    return end->axes[0]->kind != AXIS_REPEAT && end->rank < MAX_RANK;
}

static void add_output(Arena *arena, List *list, const Tensor *tensor, const char *name) {
    const bool of_adjoint = !strncmp(name, gradient_mark, sizeof gradient_mark - 1);
    LIST_EACH(const Observation, one, list)
        if (one->tensor == tensor && one->of_adjoint == of_adjoint) return;
    Observation *one = arena_alloc(arena, sizeof *one);
    *one = (Observation){tensor, name, of_adjoint};
    list_push(arena, list, one);
}

/* The indices of the repeat and of the scan around a block. */
typedef struct Surroundings {
    Index *repeat, *scan; /* or NULL */
} Surroundings;

/* out[i, ...] = read, after the statement that computes it. */
static Statement *copy_out(Program *program, const Expr *read, const Observation *one,
                           Surroundings around, Span span) {
    Axis *axes[MAX_RANK];
    Expr *subs[MAX_RANK];
    int rank = 0;
    Index *const steps[] = {around.repeat, around.scan};
    for (int i = 0; i < 2; i++) {
        if (!steps[i] || (i && tensor_has_axis(read->tensor, steps[i]->axis))) continue;
        axes[rank] = steps[i]->axis;
        subs[rank++] = expr_index(program, steps[i]);
    }
    for (int i = 0; i < read->count && rank < MAX_RANK; i++) {
        if (read->tensor->axes[i]->kind == AXIS_REPEAT) continue;
        axes[rank] = read->tensor->axes[i];
        subs[rank++] = read->args[i];
    }
    MUST(rank <= MAX_RANK);
    Tensor *out = tensor_new(program, "observed", ROLE_OUTPUT, TYPE_REAL, rank, axes, span);
    out->path = one->name;
    out->of_adjoint = one->of_adjoint;
    list_push(program->arena, &program->outputs, out);
    Block alone = {{0}};
    return statement_assign(program, &alone, expr_read(program, out, subs), (Expr *)read, span);
}

/* The first read of a value from an earlier iteration: x[i, b, s, d]. */
static Expr *carried_read(const Program *program, Expr *expr, const Index *step) {
    if (expr->kind == EXPR_READ && expr->tensor->role == ROLE_TEMP && expr->count > 2 &&
        tensor_has_axis(expr->tensor, program->batch) && expr->args[0]->kind == EXPR_INDEX &&
        expr->args[0]->index == step)
        return expr;
    for (int i = 0; i < expr->count; i++) {
        Expr *found = carried_read(program, expr->args[i], step);
        if (found) return found;
    }
    return NULL;
}

static bool is_plain_activation(const Expr *read) {
    for (int i = 1; i < read->count; i++)
        if (read->args[i]->kind != EXPR_INDEX) return false;
    return true;
}

/* Whether a later statement of the block writes the tensor, too. */
static bool is_written_after(const Block *block, int number, const Tensor *tensor) {
    for (int i = number + 1; i < block->statements.count; i++) {
        const Statement *later = block->statements.items[i];
        if (later->kind == STATEMENT_LOOP && later->target->tensor == tensor) return true;
    }
    return false;
}

static void observe_result(Program *program, List *all, const Statement *statement,
                           const Expr *result, const List *wanted, Surroundings around,
                           bool is_state) {
    LIST_EACH(const Observation, one, wanted) {
        const bool before_repeat = strchr(one->name, '{') && !around.repeat;
        if (result->tensor != one->tensor || before_repeat) continue;
        const bool inside = statement->kind == STATEMENT_LOOP,
                   by_scan = statement_is_scan(statement);
        if (one->of_adjoint ? by_scan : is_state && inside) continue;
        list_push(program->arena, all, copy_out(program, result, one, around, statement->span));
    }
}

static void observe_results(Program *program, List *all, const Block *block, int number,
                            const List *wanted, Surroundings around) {
    const Statement *statement = block->statements.items[number];
    const bool is_state = around.scan && statement->kind == STATEMENT_LOOP &&
                          tensor_has_axis(statement->target->tensor, around.scan->axis);
    if (statement->kind == STATEMENT_LOOP &&
        !is_written_after(block, number, statement->target->tensor))
        observe_result(program, all, statement, statement->target, wanted, around, is_state);
    LIST_EACH(const Expr, result, &statement->outputs)
        if (!statement_is_scan(statement) ||
            tensor_has_axis(result->tensor, statement->index->axis))
            observe_result(program, all, statement, result, wanted, around, false);
}

static void observe_block(Program *program, Block *block, const List *wanted, bool by_name,
                          Surroundings around) {
    List all = {0};
    Index *step = around.repeat;
    bool stream = by_name || step == NULL;
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        Expr *carried = !stream && statement->kind == STATEMENT_LOOP
                            ? carried_read(program, statement->value, step)
                            : NULL;
        list_push(program->arena, &all, statement);
        if (statement->kind == STATEMENT_REPEAT)
            observe_block(program, &statement->body, wanted, by_name,
                          (Surroundings){statement->index, around.scan});
        if (by_name && statement_is_scan(statement)) {
            observe_block(program, &statement->body, wanted, by_name,
                          (Surroundings){around.repeat, statement->index});
            scan_operands(program, statement);
        }
        if (carried && is_plain_activation(carried)) {
            list_push(program->arena, &all,
                      copy_out(program, carried,
                               &(Observation){.name = arena_format(program->arena, "%s.{i}",
                                                                   step->axis->name)},
                               around, statement->span));
            stream = true;
        }
        observe_results(program, &all, block, i, wanted, around);
    }
    block->statements = all;
}

/* Copies into the outputs before those that the model declares. */
static void observe_all(Program *program, const List *wanted, bool by_name) {
    const List declared = program->outputs;
    program->outputs = (List){0};
    observe_block(program, &program->body, wanted, by_name, (Surroundings){NULL, NULL});
    list_append(program->arena, &program->outputs, &declared);
}

void observe(Program *program) {
    List flows = parameter_flow(program), wanted = {0};
    LIST_EACH(const ParameterFlow, flow, &flows)
        if (flow->sum && is_whole_activation(program, flow))
            add_output(
                program->arena, &wanted, flow->end,
                arena_format(program->arena, "%s%s", flow->tensor->path, flow->branch ? "+" : ""));
    observe_all(program, &wanted, false);
}

void observe_by_name(Program *program, const List *names) {
    List wanted = {0};
    const int own = program->tensors.count;
    attention_weights(program, names);
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        for (int j = 0; tensor->spec_name && j < names->count; j++) {
            const char *name = names->items[j];
            const size_t mark = strncmp(name, gradient_mark, sizeof gradient_mark - 1)
                                    ? 0
                                    : sizeof gradient_mark - 1;
            if (strcmp(tensor->spec_name, name + mark) != 0 || tensor->type != TYPE_REAL) continue;
            if (mark && (program->graph != GRAPH_TRAIN || i >= own)) continue;
            tensor->observed |= mark > 0;
            add_output(program->arena, &wanted, tensor, name);
        }
    }
    observe_all(program, &wanted, true);
}

void observe_applied(Program *program) {
    List wanted = {0};
    for (int i = 0; i < program->applied.count; i += 2) {
        const Tensor *parameter = program->applied.items[i];
        add_output(program->arena, &wanted, program->applied.items[i + 1], parameter->path);
    }
    program->outputs = (List){0};
    program->loss = NULL;
    program->rounded = false;
    program->formats = NULL;
    program->weights = program->head_weights = TYPE_REAL;
    observe_all(program, &wanted, true);
}
