/* well_formed: checks the invariants of a program after every pass. An error is a bug in the pass
 * that ran last.
 *
 * Tensors are listed once and have unique names and known axes; parameters and states have
 * different public paths. Every dimension has one integer subscript. Every index is a loop of its
 * statement or the index of an enclosing repeat. Loops that are not on the left are reduced. In
 * program order, a temporary is set before a statement reads it or adds to it.
 */
#include "ir/well_formed.h"

#include "abi/step_path.h"
#include "ir/call.h"

#include <ctype.h>
#include <string.h>

void verify_error(Verify *verify, const char *format, ...) {
    if (verify->message) return;
    va_list arguments;
    va_start(arguments, format);
    char *what = arena_vformat(verify->arena, format, arguments);
    va_end(arguments);
    const Statement *statement = verify->statement;
    if (!statement || statement->kind == STATEMENT_REPEAT)
        verify->message = what;
    else
        verify->message = arena_format(verify->arena, "%s\n    in: %s", what,
                                       print_statement(verify->arena, statement));
}

/* ---- tensors ---- */

static bool is_identifier(const char *name) {
    if (!name || !(isalpha((unsigned char)*name) || *name == '_')) return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_') return false;
    return true;
}

static void check_tensor(Verify *verify, const Tensor *tensor, int position) {
    if (tensor->id != position)
        verify_error(verify, "tensor %s has number %d at index %d", tensor->name, tensor->id,
                     position);
    if (!is_identifier(tensor->name))
        verify_error(verify, "'%s' is not a name for a tensor", tensor->name);
    if (tensor->rank < 0 || tensor->rank > MAX_RANK) {
        verify_error(verify, "tensor %s has rank %d", tensor->name, tensor->rank);
        return;
    }
    for (int i = 0; i < tensor->rank; i++) {
        const Axis *axis = tensor->axes[i];
        if (!axis)
            verify_error(verify, "dimension %d of tensor %s has no axis", i, tensor->name);
        else if (axis->size < 1 && axis->kind != AXIS_ELEMENTS)
            verify_error(verify, "axis %s of tensor %s has size %ld", axis->name, tensor->name,
                         axis->size);
    }
    if (tensor->role == ROLE_GRADIENT && !tensor->of && verify->program->graph != GRAPH_UPDATE)
        verify_error(verify, "gradient %s belongs to no parameter", tensor->name);
}

/* A hash of a name: the search for equal names has linear time. */
static unsigned name_slot(const char *name, unsigned mask) {
    unsigned hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash & mask;
}

static void check_distinct(Verify *verify, const List *texts, const char *what) {
    unsigned size = 16;
    while (size < 2 * (unsigned)texts->count) size *= 2;
    const char **names = arena_alloc(verify->arena, size * sizeof *names);
    for (int i = 0; i < texts->count && !verify->message; i++) {
        const char *name = texts->items[i];
        unsigned slot = name_slot(name, size - 1);
        while (names[slot] && strcmp(names[slot], name) != 0) slot = (slot + 1) & (size - 1);
        if (names[slot]) verify_error(verify, "two tensors have the %s %s", what, name);
        names[slot] = name;
    }
}

/* Files identify parameters and states by their public paths. */
static void add_public_paths(Arena *arena, const Tensor *tensor, List *paths) {
    StepPath parts;
    const bool stacked = step_path_read(tensor->path, &parts);
    const long steps = stacked ? tensor->axes[0]->size : 1;
    for (long step = 0; step < steps; step++)
        list_push(arena, paths,
                  stacked ? arena_format(arena, "%.*s%ld%s", parts.before, tensor->path,
                                         step_path_number(&parts, step), parts.after)
                          : (char *)tensor->path);
}

static void check_names(Verify *verify) {
    const List *tensors = &verify->program->tensors;
    List names = {0}, paths = {0};
    LIST_EACH(const Tensor, tensor, tensors) {
        list_push(verify->arena, &names, (char *)tensor->name);
        const bool stored = tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE;
        if (stored && tensor->path && verify->program->graph != GRAPH_UPDATE)
            add_public_paths(verify->arena, tensor, &paths);
    }
    check_distinct(verify, &names, "name");
    check_distinct(verify, &paths, "public path");
}

static bool is_listed_tensor(const Verify *verify, const Tensor *tensor) {
    const List *tensors = &verify->program->tensors;
    return tensor->id >= 0 && tensor->id < tensors->count && tensors->items[tensor->id] == tensor;
}

/* ---- expressions ---- */

static bool is_open_repeat(const Verify *verify, const Index *index) {
    return list_find(&verify->repeats, index) >= 0;
}

static void check_expr(Verify *verify, const Expr *expr);

/* A plain subscript runs over the whole dimension. The subscript of a repeat may omit the last
 * element of a carried tensor. Any subscript may omit the end of a padded axis. */
static void check_sub(Verify *verify, const Tensor *tensor, int dimension, const Expr *sub) {
    check_expr(verify, sub);
    if (verify->message) return;
    const Axis *axis = tensor->axes[dimension];
    if (!expr_is_whole(sub)) {
        verify_error(verify, "subscript %s of %s is not an integer", print_expr(verify->arena, sub),
                     tensor->name);
    } else if (sub->kind == EXPR_INDEX && sub->index->axis != axis) {
        long size = sub->index->axis->size;
        if (sub->index->of_repeat || axis->padded ? size > axis->size : size != axis->size)
            verify_error(verify, "index %s runs over %s (%ld), dimension %d of %s is %s (%ld)",
                         sub->index->name, sub->index->axis->name, size, dimension, tensor->name,
                         axis->name, axis->size);
    } else if (sub->kind == EXPR_NUMBER && (sub->number < 0 || sub->number >= (double)axis->size)) {
        verify_error(verify, "subscript %g of %s is outside axis %s (%ld)", sub->number,
                     tensor->name, axis->name, axis->size);
    }
}

static void check_read(Verify *verify, const Expr *read) {
    const Tensor *tensor = read->tensor;
    if (!is_listed_tensor(verify, tensor)) {
        verify_error(verify, "tensor %s is not in the list of the program", tensor->name);
        return;
    }
    if (read->count != tensor->rank) {
        verify_error(verify, "%s has %d dimensions and %d subscripts", tensor->name, tensor->rank,
                     read->count);
        return;
    }
    for (int i = 0; i < read->count; i++) check_sub(verify, tensor, i, read->args[i]);
}

/* Checks that an index is in scope. In a call, every index that is not of a repeat is in scope. */
static void check_index(Verify *verify, const Index *index) {
    const Statement *statement = verify->statement;
    if (index->of_repeat
            ? is_open_repeat(verify, index)
            : statement->kind == STATEMENT_CALL || statement_loops_over(statement, index))
        return;
    verify_error(verify, "index %s is not bound", index->name);
}

static void check_expr(Verify *verify, const Expr *expr) {
    if (verify->message) return;
    if (expr->kind == EXPR_INDEX) check_index(verify, expr->index);
    if (expr->kind == EXPR_READ) check_read(verify, expr);
    if (expr->kind != EXPR_APPLY) return;
    if (expr->op < 0 || expr->op >= OP_COUNT || expr->count != op_table[expr->op].arity) {
        verify_error(verify, "operation %d has %d arguments", (int)expr->op, expr->count);
        return;
    }
    for (int i = 0; i < expr->count; i++) check_expr(verify, expr->args[i]);
}

/* ---- order ---- */

static bool needs_setting(const Tensor *tensor) {
    return tensor->role == ROLE_TEMP || tensor->role == ROLE_OUTPUT;
}

static void check_is_set(Verify *verify, const Expr *expr) {
    if (expr->kind == EXPR_READ && needs_setting(expr->tensor) && !verify->set[expr->tensor->id])
        verify_error(verify, "%s is read before it is set", expr->tensor->name);
    for (int i = 0; i < expr->count && !verify->message; i++) check_is_set(verify, expr->args[i]);
}

static void check_may_be_set(Verify *verify, const Tensor *tensor) {
    const Graph graph = verify->program->graph;
    bool updating = graph == GRAPH_UPDATE || graph == GRAPH_STEP,
         preparing = graph == GRAPH_PREPARE && tensor->prepared;
    if (tensor->role == ROLE_INPUT || (tensor->role == ROLE_PARAMETER && !updating && !preparing))
        verify_error(verify, "%s is an input and cannot be computed", tensor->name);
    verify->set[tensor->id] = true;
}

/* ---- loop statements ---- */

static void check_loops(Verify *verify, const Statement *statement) {
    for (int i = 0; i < statement->loop_count; i++) {
        const Index *index = statement->loops[i];
        if (index->of_repeat) verify_error(verify, "index %s of a repeat is iterated", index->name);
        for (int j = 0; j < i; j++)
            if (statement->loops[j] == index)
                verify_error(verify, "index %s is iterated twice", index->name);
        if (statement->reduction == REDUCE_NONE && !statement_is_scatter(statement) &&
            !expr_uses_index(statement->target, index))
            verify_error(verify, "index %s is neither on the left nor reduced", index->name);
    }
}

/* The bound is an element of a table, and one loop runs over rows. */
static void check_bound(Verify *verify, const Statement *statement) {
    const Expr *bound = statement->bound;
    int loops = 0;
    for (int i = 0; i < statement->loop_count; i++)
        loops += statement->loops[i]->axis->kind == AXIS_ROWS;
    check_expr(verify, bound);
    if (verify->message) return;
    check_is_set(verify, bound);
    if (loops != 1 || bound->kind != EXPR_READ || bound->tensor->type != TYPE_INT)
        verify_error(verify, "a bound of %d loops over rows", loops);
}

/* Only a bound or a condition excludes rows that the data does not have. Tables of integers have
 * one for each row. */
static void check_bounded(Verify *verify, const Statement *statement) {
    const Expr *value = statement->value;
    const bool where = value->kind == EXPR_APPLY && value->op == OP_WHERE;
    if (where || statement->target->tensor->type == TYPE_INT) return;
    for (int i = 0; i < statement->loop_count; i++) {
        const Axis *axis = statement->loops[i]->axis;
        if (axis->kind == AXIS_ROWS && axis->expected > 0)
            verify_error(verify, "a loop over the rows %s without a bound", axis->name);
    }
}

static void check_target(Verify *verify, const Statement *statement) {
    const Expr *target = statement->target;
    const Tensor *tensor = target->tensor;
    for (int i = 0; i < target->count; i++)
        for (int j = 0; j < i; j++)
            if (target->args[i]->kind == EXPR_INDEX && expr_equal(target->args[i], target->args[j]))
                verify_error(verify, "duplicate index %s on the left",
                             target->args[i]->index->name);
    if (statement->accumulate &&
        (statement->reduction == REDUCE_MAX || statement->reduction == REDUCE_MIN))
        verify_error(verify, "a largest or smallest value cannot be added to %s", tensor->name);
    if (statement->accumulate && needs_setting(tensor) && !verify->set[tensor->id])
        verify_error(verify, "%s is added to before it is set", tensor->name);
    if (!statement->accumulate && tensor->role == ROLE_GRADIENT)
        verify_error(verify, "gradient %s is set: it may only be added to", tensor->name);
    if (tensor->type == TYPE_INT && !expr_is_whole(statement->value))
        verify_error(verify, "%s holds integers, the value is not one", tensor->name);
}

static void check_loop(Verify *verify, const Statement *statement) {
    if (statement->loop_count > MAX_LOOPS || !statement->target ||
        statement->target->kind != EXPR_READ) {
        verify_error(verify, "a loop statement without a target");
        return;
    }
    check_expr(verify, statement->target);
    check_expr(verify, statement->value);
    if (statement->bound)
        check_bound(verify, statement);
    else
        check_bounded(verify, statement);
    if (verify->message) return;
    check_loops(verify, statement);
    for (int i = 0; i < statement->target->count; i++)
        check_is_set(verify, statement->target->args[i]);
    check_is_set(verify, statement->value);
    check_target(verify, statement);
    check_may_be_set(verify, statement->target->tensor);
}

/* ---- calls ---- */

CallShape verify_operand(Verify *verify, const Expr *operand) {
    if (!operand || operand->kind != EXPR_READ) {
        verify_error(verify, "an operand is not a tensor");
        return (CallShape){0};
    }
    check_expr(verify, operand);
    for (int i = 0; i < operand->count && !verify->message; i++) {
        const Expr *sub = operand->args[i];
        if ((sub->kind != EXPR_INDEX || sub->index->of_repeat) && !expr_is_step(sub))
            verify_error(verify, "subscript %s of an operand is computed",
                         print_expr(verify->arena, sub));
    }
    return call_shape(operand);
}

void verify_sizes(Verify *verify, const char *what, long a, long b) {
    if (a != b) verify_error(verify, "%s: %ld and %ld", what, a, b);
}

void verify_like(Verify *verify, const char *name, const CallShape *model, const CallShape *shape) {
    if (verify->message) return;
    if (model->rank != shape->rank)
        verify_error(verify, "%s has another rank than its counterpart", name);
    for (int i = 0; i < model->rank && !verify->message; i++)
        verify_sizes(verify, name, model->size[i], shape->size[i]);
}

static bool lists(const List *list, const Tensor *tensor) {
    return list_find_by(list, offsetof(Expr, tensor), tensor) != NULL;
}

/* Every tensor that the body shares with other statements is an operand of the scan. */
static void check_listed(Verify *verify, const Statement *scan, const Expr *expr) {
    if (expr->kind == EXPR_READ && !lists(&scan->inputs, expr->tensor) &&
        !lists(&scan->outputs, expr->tensor))
        verify_error(verify, "%s is no operand of its scan", expr->tensor->name);
    for (int i = 0; i < expr->count; i++) check_listed(verify, scan, expr->args[i]);
}

/* The body may read a tensor that it defines before its definition, at another position. */
static void check_body(Verify *verify, const Statement *scan) {
    const List *body = &scan->body.statements;
    if (!scan->index->of_repeat || is_open_repeat(verify, scan->index))
        verify_error(verify, "index %s of a scan is not its own", scan->index->name);
    for (int i = 0; i < scan->inputs.count && !verify->message; i++)
        check_is_set(verify, call_input(scan, i));
    LIST_EACH(const Statement, inner, body)
        if (!inner->accumulate) check_may_be_set(verify, inner->target->tensor);
    list_push(verify->arena, &verify->repeats, scan->index);
    for (int i = 0; i < body->count && !verify->message; i++) {
        verify->statement = body->items[i];
        if (verify->statement->kind != STATEMENT_LOOP) verify_error(verify, "in a scan");
        if (verify->message) break;
        check_loop(verify, verify->statement);
        check_listed(verify, scan, verify->statement->target);
        check_listed(verify, scan, verify->statement->value);
    }
    verify->repeats.count--;
    verify->statement = scan;
}

bool verify_counts(Verify *verify, bool right) {
    const Statement *call = verify->statement;
    if (!right)
        verify_error(verify, "a call with %d inputs and %d outputs", call->inputs.count,
                     call->outputs.count);
    return right;
}

static void check_call(Verify *verify, const Statement *statement) {
    statement->row->check(verify, statement);
    if (!verify->message && statement->row->has_body) check_body(verify, statement);
    for (int i = 0; i < statement->inputs.count && !verify->message; i++)
        check_is_set(verify, call_input(statement, i));
    for (int i = 0; i < statement->outputs.count && !verify->message; i++)
        check_may_be_set(verify, call_output(statement, i)->tensor);
}

/* ---- programs ---- */

static void check_block(Verify *verify, const Block *block) {
    for (int i = 0; i < block->statements.count && !verify->message; i++) {
        const Statement *statement = block->statements.items[i];
        verify->statement = statement;
        if (statement->kind == STATEMENT_LOOP) check_loop(verify, statement);
        if (statement->kind == STATEMENT_CALL) check_call(verify, statement);
        if (statement->kind != STATEMENT_REPEAT) continue;
        if (!statement->index->of_repeat || is_open_repeat(verify, statement->index))
            verify_error(verify, "index %s of a repeat is not its own", statement->index->name);
        list_push(verify->arena, &verify->repeats, statement->index);
        check_block(verify, &statement->body);
        verify->repeats.count--;
    }
}

char *well_formed(Arena *arena, const Program *program) {
    const List *tensors = &program->tensors;
    Verify state = {.arena = arena, .program = program};
    state.set = arena_alloc(arena, (size_t)tensors->count * sizeof *state.set);
    for (int i = 0; i < tensors->count && !state.message; i++)
        check_tensor(&state, tensors->items[i], i);
    check_names(&state);
    check_block(&state, &program->body);
    state.statement = NULL;
    LIST_EACH(const Tensor, output, &program->outputs) {
        if (!is_listed_tensor(&state, output))
            verify_error(&state, "output %s is not in the list of the program", output->name);
        else if (needs_setting(output) && !state.set[output->id])
            verify_error(&state, "output %s is never set", output->name);
    }
    if (program->loss && program->loss->rank != 0) verify_error(&state, "the loss has dimensions");
    return state.message;
}
