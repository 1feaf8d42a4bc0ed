/* placement: where the tensors of a program are in a mesh. The sequences of a micro-batch are
 * divided over `data`. A sum over them has a term in each process. Statements that are linear in
 * such a tensor keep terms, unless some statement is not: then all of them read the sum.
 *
 *     total[n] = sum[b,s] chosen[b,s,n]    terms: each process adds its own sequences
 *     load[n] = total[n] * 0.03125         terms, as it is linear
 *     share = sum[n] load[n] * p[n]        the sum of load: p is another tensor in terms
 */
#include "base/must.h"
#include "ir/call.h"
#include "transform/mesh/mesh.h"

bool over_processes(const Tensor *tensor) {
    return tensor->placed[MESH_DATA].kind == PLACED_DIVIDED;
}

bool is_in_terms(const Tensor *tensor) {
    return tensor->placed[MESH_DATA].kind == PLACED_TERMS;
}

Expr *divided_sub(const Expr *access) {
    MUST(over_processes(access->tensor));
    return access->args[access->tensor->placed[MESH_DATA].dimension];
}

TensorFacts *mesh_facts(const Division *division, const Tensor *tensor) {
    MUST(tensor->id < division->fact_count);
    return &division->facts[tensor->id];
}

/* ---- the form of a statement ---- */

static bool is_loop_index(const Expr *sub) {
    return sub->kind == EXPR_INDEX && !sub->index->of_repeat;
}

/* The first loop index that runs over the divided dimension of a tensor that is read. */
static Index *read_local(const Statement *statement, const Expr *expr) {
    if (expr->kind == EXPR_READ && over_processes(expr->tensor)) {
        const Expr *sub = divided_sub(expr);
        if (is_loop_index(sub) && statement_loops_over(statement, sub->index)) return sub->index;
    }
    for (int i = 0; i < expr->count; i++) {
        Index *found = read_local(statement, expr->args[i]);
        if (found) return found;
    }
    return NULL;
}

/* True if the parts of the loop can be added, or their largest values compared. */
static bool adds_over(const Statement *statement, const Index *index) {
    const bool used = expr_uses_index(statement->target, index);
    for (int i = 0; i < statement->target->count; i++)
        if (is_loop_index(statement->target->args[i]) && statement->target->args[i]->index == index)
            return false;
    if (statement->reduction == REDUCE_NONE) return statement->accumulate;
    return !used || statement->accumulate;
}

static Index *local_loop(const Statement *statement) {
    const Expr *target = statement->target;
    if (over_processes(target->tensor)) {
        const Expr *sub = divided_sub(target);
        return is_loop_index(sub) ? sub->index : NULL;
    }
    Index *index = read_local(statement, statement->value);
    for (int i = 0; i < target->count && !index; i++)
        index = read_local(statement, target->args[i]);
    return index && adds_over(statement, index) ? index : NULL;
}

/* CONSTANT: equal in all processes. LINEAR: a sum over the processes if it is computed from terms.
 * NEITHER: it needs the sums. A zero is both of the first two. */
typedef enum Linearity { CONSTANT, LINEAR, NEITHER } Linearity;

/* A tensor that other statements need the sum of counts as equal in all processes. */
static bool reads_terms(const Division *division, const Expr *expr) {
    if (expr->kind == EXPR_READ && is_in_terms(expr->tensor) &&
        !mesh_facts(division, expr->tensor)->summed)
        return true;
    for (int i = 0; i < expr->count; i++)
        if (reads_terms(division, expr->args[i])) return true;
    return false;
}

static Linearity linearity_of_both(const Expr *a, Linearity of_a, const Expr *b, Linearity of_b) {
    if (of_a == NEITHER || of_b == NEITHER) return NEITHER;
    if (of_a == of_b || expr_is_number(b, 0)) return of_a;
    return expr_is_number(a, 0) ? of_b : NEITHER;
}

static Linearity linearity(const Division *division, const Expr *expr) {
    if (!reads_terms(division, expr)) return CONSTANT;
    if (expr->kind == EXPR_READ) {
        for (int i = 0; i < expr->count; i++)
            if (reads_terms(division, expr->args[i])) return NEITHER;
        return LINEAR;
    }
    const Linearity a = linearity(division, expr->args[0]),
                    b = expr->count > 1 ? linearity(division, expr->args[1]) : CONSTANT;
    switch (expr->op) {
    case OP_NEG:
    case OP_STOP:
        return a;
    case OP_ADD:
    case OP_SUB:
        return linearity_of_both(expr->args[0], a, expr->args[1], b);
    case OP_MUL:
        if (a == CONSTANT) return b;
        return b == CONSTANT ? a : NEITHER;
    case OP_DIV:
        return b == CONSTANT ? a : NEITHER;
    case OP_WHERE:
        return a == CONSTANT ? linearity_of_both(expr->args[1], b, expr->args[2],
                                                 linearity(division, expr->args[2]))
                             : NEITHER;
    default:
        return NEITHER;
    }
}

LoopForm loop_form(const Division *division, const Statement *statement) {
    LoopForm form = {.local = local_loop(statement)};
    const bool adds = statement->reduction == REDUCE_NONE || statement->reduction == REDUCE_SUM;
    bool targets = false;
    for (int i = 0; i < statement->target->count; i++)
        targets |= reads_terms(division, statement->target->args[i]);
    form.linear = !form.local && !over_processes(statement->target->tensor) && adds && !targets &&
                  linearity(division, statement->value) == LINEAR;
    form.terms = form.linear || (form.local && !over_processes(statement->target->tensor));
    return form;
}

Index *call_local(const Statement *call) {
    const List *lists[] = {&call->inputs, &call->outputs};
    for (int list = 0; list < 2; list++)
        LIST_EACH(const Expr, operand, lists[list])
            if (over_processes(operand->tensor) && is_loop_index(divided_sub(operand)))
                return divided_sub(operand)->index;
    return NULL;
}

/* ---- definitions ---- */

/* The position of a walk through the program. */
typedef struct PlaceWalk {
    Division *division;
    int number;      /* of the statement; all of a scan have that of the scan */
    Statement *scan; /* around the statement, or NULL */
    Block *block;
    bool changed;
} PlaceWalk;

/* True if both have the same subscripts of repeats. */
static bool same_steps(const Expr *a, const Expr *b) {
    for (int i = 0; i < a->count; i++)
        if (a->tensor->axes[i]->kind == AXIS_REPEAT && !expr_equal(a->args[i], b->args[i]))
            return false;
    return true;
}

static void note_definition(PlaceWalk *walk, Statement *statement, Expr *access) {
    TensorFacts *facts = mesh_facts(walk->division, access->tensor);
    facts->scattered |= facts->access && !same_steps(facts->access, access);
    facts->access = access;
    facts->scattered |= facts->block && facts->block != walk->block;
    facts->block = walk->block;
    facts->last = walk->number;
    facts->end = walk->scan ? walk->scan : statement;
    facts->definitions++;
}

/* A tensor in terms whose sum a statement reads: its definitions must be before this statement. */
static void need_sum(PlaceWalk *walk, const Tensor *tensor) {
    TensorFacts *facts = mesh_facts(walk->division, tensor);
    if (!is_in_terms(tensor)) return;
    walk->changed |= !facts->summed;
    facts->summed = true;
    if (!facts->scattered && facts->last < walk->number) return;
    facts->refused = walk->changed = true;
}

/* linear: a statement that keeps terms reads only the sums that others need. */
static void need_sums(PlaceWalk *walk, const Expr *expr, bool linear) {
    if (expr->kind == EXPR_READ && (!linear || mesh_facts(walk->division, expr->tensor)->summed))
        need_sum(walk, expr->tensor);
    for (int i = 0; i < expr->count; i++) need_sums(walk, expr->args[i], linear);
}

typedef void Visit(PlaceWalk *walk, Statement *statement);

static void place_block(PlaceWalk *walk, Block *block, Visit *visit) {
    Block *const outer = walk->block;
    if (!walk->scan) walk->block = block;
    LIST_EACH(Statement, statement, &block->statements) {
        walk->number += !walk->scan;
        if (statement_is_scan(statement)) {
            walk->scan = statement;
            place_block(walk, &statement->body, visit);
            walk->scan = NULL;
        } else if (statement->kind == STATEMENT_REPEAT) {
            place_block(walk, &statement->body, visit);
        } else {
            visit(walk, statement);
        }
    }
    walk->block = outer;
}

static void visit_definitions(PlaceWalk *walk, Statement *statement) {
    if (statement->kind == STATEMENT_LOOP) note_definition(walk, statement, statement->target);
    for (int i = 0; i < statement->outputs.count; i++)
        note_definition(walk, statement, statement->outputs.items[i]);
}

static void visit_sums(PlaceWalk *walk, Statement *statement) {
    if (statement->kind == STATEMENT_LOOP) {
        const bool linear = loop_form(walk->division, statement).linear;
        for (int i = 0; i < statement->target->count; i++)
            need_sums(walk, statement->target->args[i], linear);
        need_sums(walk, statement->value, linear);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        need_sums(walk, call_input(statement, i), false);
}

/* Counts the definitions of each tensor that are in terms, or zero. */
static void visit_terms(PlaceWalk *walk, Statement *statement) {
    if (statement->kind == STATEMENT_LOOP) {
        TensorFacts *facts = mesh_facts(walk->division, statement->target->tensor);
        const bool largest =
            statement->reduction == REDUCE_MAX || statement->reduction == REDUCE_MIN;
        if (loop_form(walk->division, statement).terms && !largest)
            facts->in_terms++;
        else if (expr_is_number(statement->value, 0))
            facts->definitions--;
        return;
    }
    for (int i = 0; i < statement->outputs.count && call_local(statement); i++)
        if (!over_processes(call_output(statement, i)->tensor))
            mesh_facts(walk->division, call_output(statement, i)->tensor)->in_terms++;
}

/* Temporaries all of whose definitions are in terms, and gradients with one of them. */
static bool takes_terms(const Tensor *tensor, const TensorFacts *facts) {
    if (facts->refused || !facts->in_terms || is_in_terms(tensor)) return false;
    if (tensor->role == ROLE_GRADIENT) return true;
    return tensor->role == ROLE_TEMP && facts->in_terms == facts->definitions;
}

static void run_walk(Division *division, PlaceWalk *walk, Visit *visit) {
    walk->number = 0;
    walk->division = division;
    place_block(walk, &division->program->body, visit);
}

/* Grows the set of tensors in terms until nothing changes, from the definitions of each. */
static void spread_terms(Division *division) {
    const List *tensors = &division->program->tensors;
    PlaceWalk walk = {.changed = true};
    while (walk.changed) {
        walk.changed = false;
        for (int i = 0; i < tensors->count; i++)
            division->facts[i] = (TensorFacts){.refused = division->facts[i].refused,
                                               .summed = division->facts[i].summed};
        run_walk(division, &walk, visit_definitions);
        run_walk(division, &walk, visit_terms);
        for (int i = 0; i < tensors->count; i++) {
            Tensor *tensor = tensors->items[i];
            if (!takes_terms(tensor, &division->facts[i])) continue;
            tensor->placed[MESH_DATA] = (Placement){.kind = PLACED_TERMS};
            walk.changed = true;
        }
    }
}

/* Starts again whenever a statement needs another sum: its result is then no term. */
void place_tensors(Division *division) {
    const List *tensors = &division->program->tensors;
    PlaceWalk walk = {.changed = true};
    while (walk.changed) {
        walk.changed = false;
        LIST_EACH(Tensor, tensor, tensors)
            if (is_in_terms(tensor)) tensor->placed[MESH_DATA] = (Placement){.kind = PLACED_WHOLE};
        spread_terms(division);
        run_walk(division, &walk, visit_sums);
    }
}
