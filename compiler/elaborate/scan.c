/* scan: a recurrence along an axis.
 *
 *     scan S[h,e,c] from 0 over s {
 *       S[h,e,c] = decay[h] * S[h,e,c] + k[s,h,e] * v[s,h,c]
 *     }
 *
 * becomes one scan statement. A state is a tensor with the axis as an additional dimension,
 * S[b,s,h,e,c], written at s and read at s - 1. The equations of the body are read like those of a
 * layer that is applied under s. Equations that do not depend on a state are hoisted before the
 * scan, for all positions. After the scan, the state is an ordinary tensor.
 */
#include "elaborate/elaborate.h"
#include "analysis/access.h"
#include "ir/ir.h"
#include "base/must.h"

#include <string.h>

enum { MAX_STATES = 8 };

typedef struct State {
    const Node *node;
    Tensor *tensor;
    Index *dims[MAX_RANK];
    int rank;
    Binding *binding; /* in the body */
    Value *before;
} State;

typedef struct ScanBuild {
    const Node *node;
    Axis *axis;
    Index *position;
    State states[MAX_STATES];
    int state_count;
    Block body;
    int errors; /* before it */
} ScanBuild;

/* ---- restrictions ---- */

static bool begins_scan(Elaborator *e, ScanBuild *scan) {
    const Node *node = scan->node;
    const Binding *axis = scope_find(e->scope, node->name);
    if (axis && axis->value->kind == KIND_ERROR) return false;
    if (!axis || axis->value->kind != KIND_AXIS) {
        report_error(e->reports, node->name_span,
                     "a scan runs over an axis, but '%s' is not an axis", node->name);
        if (axis)
            report_note(e->reports, axis->span, "declared here");
        else
            report_help(e->reports, "declare axis %s = ... or sequence %s = ...", node->name,
                        node->name);
        return false;
    }
    scan->axis = axis->value->axis;
    bool inside = e->scanned != NULL;
    for (int i = 0; i < e->frame->ambient_count; i++)
        inside |= axes_match(e, e->frame->ambient[i]->axis, scan->axis);
    if (inside || e->frame->ambient_count + 1 >= MAX_DIMENSIONS) {
        report_error(
            e->reports, node->span,
            inside ? "a scan is not allowed in another scan or in a layer that is applied under "
                     "its axis"
                   : "a scan inside this many indices exceeds the maximum number of dimensions");
        return report_help(e->reports, inside
                                           ? "apply the layer with the scan to the whole sequence"
                                           : "apply the layer under fewer indices");
    }
    if (node->kids[0]->count <= MAX_STATES) return true;
    return report_invalid(e->reports, node->kids[0]->span, "split the scan into two",
                          "too many states in a scan: the maximum is %d", (int)MAX_STATES);
}

static const State *state_called(const ScanBuild *scan, const char *name) {
    for (int i = 0; i < scan->state_count; i++)
        if (!strcmp(scan->states[i].node->name, name)) return &scan->states[i];
    return NULL;
}

/* A value of one position must not leave the scan under a name from outside. */
static bool names_are_its_own(Elaborator *e, const ScanBuild *scan, const Node *node) {
    if (!node) return true;
    if (node->kind == NODE_EQUATION) {
        const Binding *outside = scope_find(e->scope, node->name);
        if (!outside || state_called(scan, node->name)) return true;
        report_error(e->reports, node->name_span,
                     "'%s' is defined outside of the scan: only a state can be redefined",
                     node->name);
        report_note(e->reports, outside->span, "defined here");
        return report_help(e->reports,
                           "choose another name, or declare it as a state: scan %s[...] over %s",
                           node->name, scan->node->name);
    }
    /* A nested repeat or scan is rejected when it is read. */
    bool fine = true, block = node_holds_statements(node) && node->kind != NODE_REPEAT &&
                              node->kind != NODE_SCAN;
    for (int i = 0; block && i < node->count; i++)
        fine &= names_are_its_own(e, scan, node->kids[i]);
    return fine;
}

bool may_stand_in_scan(Elaborator *e, const Node *node) {
    switch (node->kind) {
    case NODE_EQUATION:
    case NODE_OPTION:
    case NODE_AXIS:
    case NODE_PARAM:
    case NODE_REQUIRE:
    case NODE_EXTERN:
    case NODE_IF:
    case NODE_MATCH:
    case NODE_FOR:
        return true;
    default:
        return report_invalid(e->reports, node->span,
                              "move it outside of the scan, which contains only equations",
                              "this statement is not allowed in a scan");
    }
}

/* ---- states ---- */

/* The state at the current position plus `move`. */
static Expr *state_at(Elaborator *e, const ScanBuild *scan, const State *state, double move) {
    Expr *subs[MAX_RANK];
    int count = 0, ambient = e->frame->ambient_count - (e->scanned != NULL);
    for (int i = 0; i < ambient; i++) subs[count++] = expr_index(e->program, e->frame->ambient[i]);
    subs[count] = expr_index(e->program, scan->position);
    if (move != 0)
        subs[count] = expr_apply(e->program, move < 0 ? OP_SUB : OP_ADD, subs[count],
                                 expr_number(e->program, move < 0 ? -move : move), NULL);
    count++;
    for (int i = 0; i < state->rank; i++) subs[count++] = expr_index(e->program, state->dims[i]);
    return expr_read(e->program, state->tensor, subs);
}

static bool declare_state(Elaborator *e, const ScanBuild *scan, State *state, const Node *node) {
    const Binding *before = scope_find(e->scope, node->name);
    state->node = node;
    if (before || state_called(scan, node->name)) {
        report_error(e->reports, node->name_span, "duplicate declaration of '%s'", node->name);
        report_note(e->reports,
                    before ? before->span : state_called(scan, node->name)->node->name_span,
                    "first declared here");
        return report_help(e->reports, "rename one of them");
    }
    if (!declared_dims(e, node->name, node->kids[0], state->dims, &state->rank)) return false;
    int ambient = e->frame->ambient_count, rank = ambient + 1 + state->rank;
    if (!fits_rank(e, node->name, rank, node->span)) return false;
    Axis *axes[MAX_RANK];
    for (int i = 0; i < ambient; i++) axes[i] = e->frame->ambient[i]->axis;
    axes[ambient] = scan->axis;
    for (int i = 0; i < state->rank; i++) axes[ambient + 1 + i] = state->dims[i]->axis;
    state->tensor = tensor_new(e->program, temporary_name(e, node->name), ROLE_TEMP, TYPE_REAL,
                               rank, axes, node->name_span);
    name_in_spec(e, state->tensor, node->name);
    return true;
}

/* The dimension of the state that matches an index of the initial value, or NULL. */
static Index *dimension_for(Elaborator *e, const State *state, const Index *index, bool *taken) {
    for (int i = 0; i < state->rank; i++) {
        if (taken[i] || !axes_match(e, state->dims[i]->axis, index->axis)) continue;
        taken[i] = true;
        return state->dims[i];
    }
    return NULL;
}

/* The initial value of the state, over its dimensions; NULL: 0, or an error. */
static Expr *beginning(Elaborator *e, const State *state) {
    const Node *node = state->node->kids[1];
    if (!node) return NULL;
    Equation own = {0}, *outer = e->equation;
    e->equation = &own;
    Value *value = evaluate(e, node);
    Expr *expr = value->kind == KIND_ERROR ? NULL : value_expr(e, value);
    Index *used[MAX_LOOPS];
    Expr *to[MAX_LOOPS];
    bool taken[MAX_RANK] = {false};
    int count = expr ? free_indices(e, expr, used) : 0;
    e->equation = outer;
    for (int i = 0; i < count; i++) {
        Index *dimension = dimension_for(e, state, used[i], taken);
        if (!dimension) {
            report_error(e->reports, node->span,
                         "the initial value of '%s' depends on index '%s', but the state does not",
                         state->node->name, used[i]->name);
            report_note(e->reports, state->node->name_span, "the state is declared here");
            report_help(e->reports, "add the axis of '%s' to the state, or reduce it: sum[%s]",
                        used[i]->name, used[i]->name);
            return NULL;
        }
        to[i] = expr_index(e->program, dimension);
    }
    if (!expr || expr_is_number(expr, 0)) return NULL;
    return expr_substitute(e->program, expr, used, to, count);
}

/* The state before the equations of the body. */
static Value *state_before(Elaborator *e, const ScanBuild *scan, State *state) {
    bool reversed = scan->node->kids[1] != NULL;
    Expr *before = state_at(e, scan, state, reversed ? 1 : -1), *begin = beginning(e, state);
    if (begin) {
        double first = reversed ? (double)scan->axis->size - 1 : 0;
        Expr *position = expr_index(e->program, scan->position);
        Expr *starts =
            expr_apply(e->program, OP_EQ, position, expr_number(e->program, first), NULL);
        const char *name = arena_format(e->arena, "%s_before", state->node->name);
        return define(e, name, state->dims, state->rank, REDUCE_NONE, NULL, 0,
                      expr_apply(e->program, OP_WHERE, starts, begin, before), state->node->span);
    }
    return value_tensor(e, before, state->dims, state->rank, state->node->name_span);
}

static bool same_axes(Elaborator *e, const State *state, const Value *after) {
    bool same = after->rank == state->rank;
    for (int i = 0; same && i < state->rank; i++)
        same = axes_match(e, after->dims[i]->axis, state->dims[i]->axis);
    if (same) return true;
    report_error(e->reports, state->binding->span,
                 "'%s' has other axes here than in its declaration as a state", state->node->name);
    report_note(e->reports, state->node->span, "the state is declared here");
    return report_help(e->reports, "define it with the subscripts of the declaration");
}

/* Stores the new value in the tensor of the state. */
static void end_state(Elaborator *e, const ScanBuild *scan, State *state) {
    Value *after = state->binding->value;
    if (after->kind == KIND_ERROR) return;
    if (after == state->before && e->reports->errors > scan->errors) return;
    if (after == state->before) {
        report_error(e->reports, state->node->span, "state '%s' has no equation in the scan",
                     state->node->name);
        report_help(e->reports, "add %s[...] = ...", state->node->name);
        return;
    }
    Expr *expr = value_expr(e, after), *to[MAX_RANK];
    if (!expr || (after->kind == KIND_TENSOR && !same_axes(e, state, after))) return;
    for (int i = 0; i < state->rank; i++) to[i] = expr_index(e->program, state->dims[i]);
    if (after->kind == KIND_TENSOR)
        expr = expr_substitute(e->program, expr, after->dims, to, after->rank);
    statement_assign(e->program, e->block, state_at(e, scan, state, 0), expr, state->binding->span);
}

/* ---- the body as a whole ---- */

static bool is_scan_state(const ScanBuild *scan, const Tensor *tensor) {
    for (int i = 0; i < scan->state_count; i++)
        if (scan->states[i].tensor == tensor) return true;
    return false;
}

/* Replaces S[b,s,h] = new[b,s,h] of a tensor `new` of the body by a direct definition of S. */
static void make_within(Elaborator *e, ScanBuild *scan) {
    List *statements = &scan->body.statements;
    for (int i = statements->count - 1; i >= 0; i--) {
        const Statement *copy = statements->items[i];
        const Expr *value = copy->value, *target = copy->target;
        bool same = value->kind == EXPR_READ && is_scan_state(scan, target->tensor) &&
                    value->count == target->count && !is_scan_state(scan, value->tensor) &&
                    loop_writing(&scan->body, value->tensor);
        for (int j = 0; same && j < value->count; j++)
            same =
                value->args[j]->kind == EXPR_INDEX && expr_equal(value->args[j], target->args[j]);
        if (!same) continue;
        const Tensor *made = value->tensor;
        list_remove(statements, statements->items[i]);
        for (int j = 0; j < statements->count; j++)
            rewrite_tensor(e->program, statements->items[j], made, target->tensor);
    }
}

typedef struct MarkedRead {
    const bool *marked; /* by tensor id */
    bool found;
} MarkedRead;

static void find_marked(Expr *expr, void *data) {
    MarkedRead *search = data;
    if (expr->kind == EXPR_READ && search->marked[expr->tensor->id]) search->found = true;
}

static void mark_read_tensor(Expr *expr, void *data) {
    if (expr->kind == EXPR_READ) ((bool *)data)[expr->tensor->id] = true;
}

/* Removes equations that no state depends on. */
static void drop_unread(Elaborator *e, ScanBuild *scan) {
    bool *read = arena_alloc(e->arena, (size_t)e->program->tensors.count * sizeof *read);
    List kept = {0}, *statements = &scan->body.statements;
    for (int i = 0; i < scan->state_count; i++) read[scan->states[i].tensor->id] = true;
    for (int i = statements->count - 1; i >= 0; i--) {
        Statement *statement = statements->items[i];
        if (read[statement->target->tensor->id])
            expr_walk(statement->value, mark_read_tensor, read);
    }
    for (int i = 0; i < statements->count; i++) {
        const Statement *statement = statements->items[i];
        if (read[statement->target->tensor->id]) list_push(e->arena, &kept, statements->items[i]);
    }
    *statements = kept;
}

/* The statement for all positions. */
static void add_for_all(Elaborator *e, const ScanBuild *scan, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    Index *position = index_new(e->program, scan->position->name, scan->axis);
    Expr *to = expr_index(e->program, position);
    Index *from = scan->position;
    Expr *target = expr_substitute(e->program, statement->target, &from, &to, 1);
    Expr *value = expr_substitute(e->program, statement->value, &from, &to, 1);
    Statement *made = statement_loop(e->program, e->block, target, false, statement->reduction,
                                     (Index *const *)statement->loops, statement->loop_count, value,
                                     statement->span);
    made->asked = statement->asked;
}

/* Hoists statements that do not depend on a state. */
static void hoist_from_scan(Elaborator *e, ScanBuild *scan) {
    bool *recurs = arena_alloc(e->arena, (size_t)e->program->tensors.count * sizeof *recurs);
    List kept = {0}, *statements = &scan->body.statements;
    for (int i = 0; i < scan->state_count; i++) recurs[scan->states[i].tensor->id] = true;
    LIST_EACH(Statement, statement, statements) {
        MarkedRead search = {recurs, recurs[statement->target->tensor->id]};
        expr_walk(statement->value, find_marked, &search);
        recurs[statement->target->tensor->id] |= search.found;
        if (search.found)
            list_push(e->arena, &kept, statement);
        else
            add_for_all(e, scan, statement);
    }
    *statements = kept;
}

/* Checks that the body has only equations. */
static bool is_of_equations(Elaborator *e, const ScanBuild *scan) {
    LIST_EACH(const Statement, statement, &scan->body.statements) {
        if (statement->kind == STATEMENT_LOOP) continue;
        return report_invalid(e->reports, statement->span,
                              "compute it before the scan if it does not depend on a state",
                              "attention, top and repeat are not allowed in a scan");
    }
    return true;
}

/* Reads the equations at the current position, with the states of the previous position. */
static void read_scan_body(Elaborator *e, ScanBuild *scan) {
    const Node *node = scan->node;
    Block *outside = e->block;
    e->block = &scan->body;
    e->frame->ambient[e->frame->ambient_count++] = e->scanned = scan->position;
    Scope *scope = scope_push(e);
    scope_bind(e, scope, node->name,
               value_tensor(e, expr_index(e->program, scan->position), NULL, 0, node->name_span),
               node->name_span);
    for (int i = 0; i < scan->state_count; i++) {
        State *state = &scan->states[i];
        state->before = state_before(e, scan, state);
        state->binding =
            scope_bind(e, scope, state->node->name, state->before, state->node->name_span);
    }
    scope_push(e);
    block_statements(e, node->kids[2]);
    scope_pop(e);
    for (int i = 0; i < scan->state_count; i++) end_state(e, scan, &scan->states[i]);
    scope_pop(e);
    e->scanned = NULL;
    e->frame->ambient_count--;
    e->block = outside;
}

/* After the scan: the state at each position. */
static void bind_states(Elaborator *e, const ScanBuild *scan, bool good) {
    for (int i = 0; i < scan->state_count; i++) {
        const State *state = &scan->states[i];
        Value *value = value_error(e, state->node->span);
        if (good && state->rank + 1 <= MAX_RANK) {
            Index *dims[MAX_RANK] = {index_new(e->program, scan->position->name, scan->axis)};
            Expr *position = expr_index(e->program, dims[0]);
            for (int j = 0; j < state->rank; j++) dims[j + 1] = state->dims[j];
            Index *from = scan->position;
            Expr *read =
                expr_substitute(e->program, state_at(e, scan, state, 0), &from, &position, 1);
            value = value_tensor(e, read, dims, state->rank + 1, state->node->name_span);
        }
        scope_bind(e, e->scope, state->node->name, value, state->node->name_span);
    }
}

/* After an error: binds the states without further messages. */
static void leave_states(Elaborator *e, const Node *node) {
    for (int i = 0; i < node->kids[0]->count; i++) {
        const Node *state = node->kids[0]->kids[i];
        if (!scope_find(e->scope, state->name))
            scope_bind(e, e->scope, state->name, value_error(e, state->span), state->name_span);
    }
}

/* States and other tensors of the body are integers if all equations that write them are integers,
 * assuming that the others are. */
static void find_integers(const ScanBuild *scan) {
    const List *body = &scan->body.statements;
    bool changed = true;
    for (int i = 0; i < body->count; i++)
        ((const Statement *)body->items[i])->target->tensor->integer = true;
    while (changed) {
        changed = false;
        LIST_EACH(const Statement, statement, body) {
            Tensor *tensor = statement->target->tensor;
            if (!tensor->integer || expr_names_whole(statement->value)) continue;
            tensor->integer = false;
            changed = true;
        }
    }
}

/* scan NAME[subs] from expr, ... over NAME reversed { }. */
void scan_statement(Elaborator *e, const Node *node) {
    ScanBuild scan = {.node = node, .errors = e->reports->errors};
    if (!begins_scan(e, &scan)) {
        leave_states(e, node);
        return;
    }
    scan.position = index_new(e->program, node->name, scan.axis);
    scan.position->of_repeat = true;
    for (int i = 0; i < node->kids[0]->count; i++) {
        if (!declare_state(e, &scan, &scan.states[i], node->kids[0]->kids[i])) {
            leave_states(e, node);
            return;
        }
        scan.state_count++;
    }
    if (names_are_its_own(e, &scan, node->kids[2])) read_scan_body(e, &scan);
    bool good = e->reports->errors == scan.errors && is_of_equations(e, &scan);
    if (good) {
        make_within(e, &scan);
        drop_unread(e, &scan);
        hoist_from_scan(e, &scan);
        Statement *statement =
            statement_scan(e->program, e->block, scan.position, node->kids[1] != NULL, node->span);
        statement->body = scan.body;
        find_integers(&scan);
        scan_operands(e->program, statement);
    }
    bind_states(e, &scan, good);
}
