/* lookahead: see lookahead.h. Each statement is evaluated for every position until no cell changes;
 * lookahead_trace.c finds the predictions that depend on later tokens, and why. */
#include "analysis/lookahead.h"

#include "analysis/access.h"
#include "analysis/past.h"
#include "ir/call.h"
#include "base/must.h"

#include <math.h>

enum { MAX_AXIS = 256, MAX_CELLS = 1 << 18, MAX_ROUNDS = 8 };

static const Cell nothing = {.latest = -1};

static Cell exactly(double value) {
    return (Cell){.made = true, .known = true, .value = value, .latest = -1};
}

static Cell unknown_from(int latest) {
    return (Cell){.made = true, .latest = latest};
}

static int later(int a, int b) {
    return a > b ? a : b;
}

/* ---- axes whose positions matter ---- */

bool look_matters(const Lookahead *look, const Axis *axis) {
    return list_find(&look->axes, axis) >= 0;
}

typedef struct Leaves {
    const Lookahead *look;
    List axes; /* Axis * */
    bool matter;
} Leaves;

/* The axes of the indices that are values in an expression; those in subscripts are none. */
static void add_leaves(Leaves *leaves, const Expr *expr) {
    if (expr->kind == EXPR_INDEX) {
        leaves->matter |= look_matters(leaves->look, expr->index->axis);
        list_push(leaves->look->program->arena, &leaves->axes, expr->index->axis);
    }
    for (int i = 0; expr->kind == EXPR_APPLY && i < expr->count; i++)
        add_leaves(leaves, expr->args[i]);
}

static void note_axes(Lookahead *look, const Leaves *leaves) {
    LIST_EACH(Axis, axis, &leaves->axes) {
        if (axis->kind != AXIS_PLAIN || axis->size > MAX_AXIS || look_matters(look, axis)) continue;
        list_push(look->program->arena, &look->axes, axis);
        look->changed = true;
    }
}

static bool has_cells(const Tensor *tensor) {
    return tensor->role != ROLE_PARAMETER && tensor->role != ROLE_STATE;
}

static void note_expr(Expr *expr, void *data) {
    Lookahead *look = data;
    Leaves leaves = {.look = look};
    if (expr->kind == EXPR_APPLY && op_table[expr->op].kind == OP_KIND_TRUTH) {
        add_leaves(&leaves, expr);
        if (leaves.matter) note_axes(look, &leaves);
    }
    for (int i = 0; expr->kind == EXPR_READ && has_cells(expr->tensor) && i < expr->count; i++) {
        leaves = (Leaves){.look = look, .matter = look_matters(look, expr->tensor->axes[i])};
        add_leaves(&leaves, expr->args[i]);
        if (!leaves.matter) continue;
        list_push(look->program->arena, &leaves.axes, expr->tensor->axes[i]);
        note_axes(look, &leaves);
    }
}

static void note_origins(Statement *statement, void *data) {
    statement_walk(statement, note_expr, data);
}

/* Those of the sequence, and all that conditions and subscripts relate to them. */
static void find_axes(Lookahead *look) {
    Program *program = look->program;
    LIST_EACH(Axis, axis, &program->axes)
        if (axis->kind == AXIS_SEQUENCE) list_push(program->arena, &look->axes, axis);
    do {
        look->changed = false;
        block_walk(&program->body, note_origins, look);
    } while (look->changed);
}

static void make_grid(Lookahead *look, const Tensor *tensor) {
    Grid *grid = &look->grids[tensor->id];
    grid->size = 1;
    for (int i = 0; i < tensor->rank; i++) {
        if (!look_matters(look, tensor->axes[i])) continue;
        grid->dims[grid->count++] = i;
        grid->size *= tensor->axes[i]->size;
        if (grid->size > MAX_CELLS) look->too_large = true;
        if (look->too_large) return;
    }
    grid->cells = arena_alloc(look->program->arena, (size_t)grid->size * sizeof *grid->cells);
    grid->traced = arena_alloc(look->program->arena, (size_t)grid->size * sizeof *grid->traced);
    bool given = tensor == look->text || tensor == look->next;
    for (long i = 0; i < grid->size; i++)
        grid->cells[i] = given ? unknown_from((int)i + (tensor == look->next)) : nothing;
}

/* ---- expressions ---- */

void look_assign(Lookahead *look, const Index *index, long value) {
    look->indices[look->assigned] = index;
    look->values[look->assigned++] = value;
}

static long origin_value(const Lookahead *look, const Index *index) {
    for (int i = look->assigned - 1; i >= 0; i--)
        if (look->indices[i] == index) return look->values[i];
    return -1;
}

static Cell index_value(const Lookahead *look, const Index *index) {
    long value = origin_value(look, index);
    return value < 0 ? unknown_from(-1) : exactly((double)value);
}

/* A position that data selects does not count as a later one. */
static Cell value_read(Lookahead *look, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    const Grid *grid = &look->grids[read->tensor->id];
    Cell result = unknown_from(-1);
    long cell = 0;
    bool found = has_cells(read->tensor);
    for (int i = 0, kept = 0; i < read->count; i++) {
        Cell sub = look_value(look, read->args[i]);
        if (!sub.made) return nothing;
        result.latest = later(result.latest, sub.latest);
        if (kept == grid->count || grid->dims[kept] != i) continue;
        kept++;
        found &= sub.known;
        if (!sub.known) continue;
        if (sub.value < 0 || sub.value >= (double)read->tensor->axes[i]->size) return exactly(0);
        cell = cell * read->tensor->axes[i]->size + (long)sub.value;
    }
    bool input = read->tensor->role == ROLE_INPUT && read->tensor != look->text &&
                 read->tensor != look->next;
    if (!found || input) return result;
    Cell own = grid->cells[cell];
    if (look->reads) {
        CellRead *note = arena_alloc(look->program->arena, sizeof *note);
        *note = (CellRead){read, cell, own};
        list_push(look->program->arena, look->reads, note);
    }
    if (own.known || !own.made) return own;
    result.latest = later(result.latest, own.latest);
    return result;
}

/* A value that has no effect after all: its reads do not count either. */
static Cell exactly_again(Lookahead *look, double value, int reads) {
    if (look->reads) look->reads->count = reads;
    return exactly(value);
}

static Cell join_origins(Cell a, Cell b) {
    if (!a.made) return b;
    if (!b.made) return a;
    if (a.known && b.known && a.value == b.value) return a;
    return unknown_from(later(a.latest, b.latest));
}

static Cell where_value(Lookahead *look, const Expr *expr) {
    Cell condition = look_value(look, expr->args[0]);
    if (!condition.made) return nothing;
    if (condition.known) return look_value(look, expr->args[condition.value != 0 ? 1 : 2]);
    Cell value = join_origins(look_value(look, expr->args[1]), look_value(look, expr->args[2]));
    if (value.made && !value.known) value.latest = later(value.latest, condition.latest);
    return value;
}

/* exp(-1e30 - largest) is 0 if the maximum is a score. */
static bool is_left_out_score(Lookahead *look, const Expr *expr) {
    MUST(expr->kind == EXPR_APPLY);
    const Expr *arg = expr->args[0];
    if (expr->op != OP_EXP || arg->kind != EXPR_APPLY || arg->op != OP_SUB) return false;
    Cell number = look_value(look, arg->args[0]), largest = look_value(look, arg->args[1]);
    return number.known && number.value <= LEFT_OUT && largest.made && !largest.known;
}

static bool is_zero(Cell cell) {
    return cell.known && cell.value == 0;
}

/* One argument decides: 0 * x, 1 or x. */
static bool is_decided(OpCode op, const Cell *args, double *value) {
    OpZero zero = op_table[op].zero;
    *value = op == OP_OR;
    if (op == OP_OR)
        return (args[0].known && args[0].value != 0) || (args[1].known && args[1].value != 0);
    if (zero == ZERO_ANY) return is_zero(args[0]) || is_zero(args[1]);
    return zero == ZERO_FIRST && is_zero(args[0]);
}

static Cell apply_value(Lookahead *look, const Expr *expr) {
    MUST(expr->kind == EXPR_APPLY);
    int reads = look->reads ? look->reads->count : 0;
    if (expr->op == OP_WHERE) return where_value(look, expr);
    if (op_is_random(expr->op)) return unknown_from(-1);
    if (is_left_out_score(look, expr)) return exactly_again(look, 0, reads);
    if (look->reads) look->reads->count = reads;
    Cell args[3] = {{0}}, result = exactly(0);
    double value;
    for (int i = 0; i < expr->count; i++) {
        args[i] = look_value(look, expr->args[i]);
        result.made &= args[i].made;
        result.known &= args[i].known;
        result.latest = later(result.latest, args[i].latest);
    }
    if (is_decided(expr->op, args, &value)) return exactly_again(look, value, reads);
    if (!result.made) return nothing;
    if (result.known)
        result.value = op_value(expr->op, args[0].value, args[1].value, args[2].value);
    return result;
}

Cell look_value(Lookahead *look, const Expr *expr) {
    switch (expr->kind) {
    case EXPR_NUMBER:
        return exactly(expr->number);
    case EXPR_INDEX:
        return index_value(look, expr->index);
    case EXPR_READ:
        return value_read(look, expr);
    default:
        return apply_value(look, expr);
    }
}

/* ---- statements ---- */

static Cell added(Cell a, Cell b) {
    if (!a.made) return b;
    if (!b.made) return a;
    return a.known && b.known ? exactly(a.value + b.value)
                              : unknown_from(later(a.latest, b.latest));
}

/* Values that are excluded from a softmax are never the maximum. */
static Cell latest_position(Cell a, Cell b) {
    if (!a.made || (a.known && a.value <= LEFT_OUT && !b.known && b.made)) return b;
    if (!b.made || (b.known && b.value <= LEFT_OUT && !a.known)) return a;
    if (a.known && b.known) return a.value > b.value ? a : b;
    return unknown_from(later(a.latest, b.latest));
}

static Cell smallest(Cell a, Cell b) {
    if (!a.made || !b.made || !a.known || !b.known) return join_origins(a, b);
    return a.value < b.value ? a : b;
}

static Cell combined(Reduction reduction, Cell a, Cell b) {
    return reduction == REDUCE_MAX   ? latest_position(a, b)
           : reduction == REDUCE_MIN ? smallest(a, b)
           : reduction == REDUCE_SUM ? added(a, b)
                                     : join_origins(a, b);
}

/* The reduction over the loops from number `from` on. */
static Cell reduced(Lookahead *look, const Statement *statement, int from) {
    MUST(statement->kind == STATEMENT_LOOP);
    if (from == statement->loop_count) return look_value(look, statement->value);
    const Index *index = statement->loops[from];
    bool left = on_left(statement, index);
    if (left || !look_matters(look, index->axis)) {
        Cell value = reduced(look, statement, from + 1);
        if (!left && value.known && statement->reduction == REDUCE_SUM)
            value.value *= (double)index->axis->size;
        return value;
    }
    Cell all = nothing;
    for (long i = 0; i < index->axis->size; i++) {
        look_assign(look, index, i);
        all = combined(statement->reduction, all, reduced(look, statement, from + 1));
        look->assigned--;
    }
    return all;
}

static const Index *sole_index(const Expr *access, int dimension) {
    MUST(access->kind == EXPR_READ);
    const Expr *sub = access->args[dimension];
    return sub->kind == EXPR_INDEX ? sub->index : NULL;
}

static int chosen_operand(const Statement *call) {
    return call->attention.chosen ? attend_chosen(&call->attention) : -1;
}

/* All operands of a call, at the assigned positions, except the chosen pairs. */
static Cell operands_value(Lookahead *look, const Statement *call) {
    Cell all = unknown_from(-1);
    for (int i = 0; i < call->inputs.count; i++) {
        if (i == chosen_operand(call)) continue;
        Cell one = look_value(look, call_input(call, i));
        if (one.made) all.latest = later(all.latest, one.latest);
    }
    return all;
}

/* Whether a key is chosen for the assigned query; 1 without chosen pairs. */
static Cell chosen_value(Lookahead *look, const Statement *call, const Index *key) {
    if (chosen_operand(call) < 0) return exactly(1);
    const Expr *query = call_input(call, 0), *chosen = call_input(call, chosen_operand(call));
    const long *block = call->attention.block;
    const Index *rows[3] = {sole_index(query, query->count - 3),
                            sole_index(query, query->count - 2), key};
    const int before = look->assigned;
    for (int i = 0; i < 3; i++) {
        const Index *own = sole_index(chosen, chosen->count - 3 + i);
        const long at =
            rows[i] && look_matters(look, rows[i]->axis) ? origin_value(look, rows[i]) : -1;
        if (own && own != rows[i] && at >= 0) look_assign(look, own, at / block[i]);
    }
    const Cell value = look_value(look, chosen);
    look->assigned = before;
    return value;
}

static Cell called_expr(Lookahead *look, const Statement *call) {
    const Index *here = NULL, *there = NULL;
    if (call->row->along) call->row->along(call, &here, &there);
    if (!there || !look_matters(look, there->axis)) return operands_value(look, call);
    long at = here ? origin_value(look, here) : -1;
    Cell value = nothing;
    for (long i = 0; i < there->axis->size; i++) {
        if (at >= 0 && call->row->sees && !call->row->sees(call, at, i)) continue;
        look_assign(look, there, i);
        const Cell chosen = chosen_value(look, call, there);
        if (!chosen.known || chosen.value != 0) {
            value = join_origins(value, operands_value(look, call));
            if (chosen.made) value.latest = later(value.latest, chosen.latest);
        }
        look->assigned--;
    }
    return value;
}

Cell look_statement(Lookahead *look, const Statement *statement) {
    if (statement->kind == STATEMENT_LOOP) return reduced(look, statement, 0);
    return called_expr(look, statement);
}

/* ---- the program ---- */

static void store_origin(Lookahead *look, const Expr *target, Cell value) {
    MUST(target->kind == EXPR_READ);
    const Grid *grid = &look->grids[target->tensor->id];
    long cell = 0;
    for (int i = 0; i < grid->count; i++) {
        Cell sub = look_value(look, target->args[grid->dims[i]]);
        long size = target->tensor->axes[grid->dims[i]]->size;
        if (!sub.known || sub.value < 0 || sub.value >= (double)size) return;
        cell = cell * size + (long)sub.value;
    }
    Cell before = grid->cells[cell], after = join_origins(before, value);
    look->changed |=
        before.made != after.made || before.known != after.known || before.latest != after.latest;
    grid->cells[cell] = after;
}

/* Every cell of the target from its dimension `from` on. */
static void fill(Lookahead *look, const Statement *statement, const Expr *target, int from) {
    MUST(target->kind == EXPR_READ);
    const Grid *grid = &look->grids[target->tensor->id];
    if (from == grid->count) {
        Cell value = look_statement(look, statement);
        if (statement->kind == STATEMENT_LOOP) store_origin(look, target, value);
        for (int i = 0; i < statement->outputs.count; i++)
            store_origin(look, statement->outputs.items[i], value);
        return;
    }
    const Index *index = sole_index(target, grid->dims[from]);
    if (!index || origin_value(look, index) >= 0) {
        fill(look, statement, target, from + 1);
        return;
    }
    for (long i = 0; i < index->axis->size; i++) {
        look_assign(look, index, i);
        fill(look, statement, target, from + 1);
        look->assigned--;
    }
}

static void run_block(Lookahead *look, const Block *block);

static void run_scan(Lookahead *look, const Statement *scan) {
    MUST(statement_is_scan(scan));
    long size = scan->index->axis->size;
    for (long i = 0; i < size; i++) {
        look_assign(look, scan->index, scan->reverse ? size - 1 - i : i);
        run_block(look, &scan->body);
        look->assigned--;
    }
}

static void run_block(Lookahead *look, const Block *block) {
    LIST_EACH(const Statement, statement, &block->statements) {
        if (statement->once) continue; /* for the next step */
        if (statement->kind == STATEMENT_REPEAT)
            run_block(look, &statement->body);
        else if (statement_is_scan(statement) && look_matters(look, statement->index->axis))
            run_scan(look, statement);
        else if (statement_is_scan(statement))
            run_block(look, &statement->body);
        else if (statement->kind == STATEMENT_LOOP)
            fill(look, statement, statement->target, 0);
        else
            fill(look, statement, statement->outputs.items[0], 0);
    }
}

/* The only input of a kind along the sequence, or NULL. */
static const Tensor *input_along(const Program *program, MoecInput kind) {
    const Tensor *found = NULL;
    LIST_EACH(const Tensor, tensor, &program->tensors) {
        bool along = tensor->role == ROLE_INPUT && tensor->declared == kind && tensor->rank == 2 &&
                     tensor->axes[1] == program->sequence;
        if (along && found) return NULL;
        if (along) found = tensor;
    }
    return found;
}

List lookahead(Program *program) {
    size_t count = (size_t)program->tensors.count;
    Lookahead look = {.program = program,
                      .text = input_along(program, MOEC_INPUT_TOKEN),
                      .next = input_along(program, MOEC_INPUT_NEXT),
                      .grids = arena_alloc(program->arena, count * sizeof(Grid))};
    if (!look.text || !look.next) return (List){0};
    find_axes(&look);
    for (size_t i = 0; i < count && !look.too_large; i++)
        make_grid(&look, program->tensors.items[i]);
    if (look.too_large) return (List){0};
    look.changed = true;
    for (int round = 0; look.changed && round < MAX_ROUNDS; round++) {
        look.changed = false;
        run_block(&look, &program->body);
    }
    return look_leaks(&look);
}
