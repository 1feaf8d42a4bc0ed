/* parameter_flow: see parameter_flow.h.
 *
 * From the product of a parameter on, its result is followed as long as exactly one statement takes
 * it on linearly: as a term of a sum, times something, summed over the instances of its layer. The
 * other terms on the way are branches beside it, unless they hold something that the product was
 * made from: then the way ends, and the result joins its origin.
 */
#include "analysis/parameter_flow.h"

#include "analysis/parameter_facts.h"
#include "analysis/access.h"

#include <string.h>

enum { MAX_WAY = 64, MAX_PARTS = 24, MAX_UNFOLD = 6 };

typedef struct Flow {
    Program *program;
    List statements;    /* Statement *: loops and calls, bodies of repeats in place */
    List *reads;        /* Expr *, by place in statements */
    Statement **made;   /* by tensor id: the statement that defines it, the first */
    Statement **choice; /* by tensor id: the call that chose it, or NULL */
    bool *has_matrix;   /* by place in statements: some parameter's product */
    List flows;         /* ParameterFlow * */
} Flow;

/* ---- the program as a list ---- */

static void collect(Statement *statement, void *data) {
    Flow *flow = data;
    if (statement->kind != STATEMENT_REPEAT && !statement_is_scan(statement))
        list_push(flow->program->arena, &flow->statements, statement);
}

static void note_made(Flow *flow, Statement *statement, const Expr *target) {
    if (!flow->made[target->tensor->id]) flow->made[target->tensor->id] = statement;
}

static void def_use_statements(Flow *flow) {
    Arena *arena = flow->program->arena;
    size_t tensors = (size_t)flow->program->tensors.count + 1;
    block_walk(&flow->program->body, collect, flow);
    flow->reads = arena_alloc(arena, ((size_t)flow->statements.count + 1) * sizeof *flow->reads);
    flow->has_matrix =
        arena_alloc(arena, ((size_t)flow->statements.count + 1) * sizeof *flow->has_matrix);
    flow->made = arena_alloc(arena, tensors * sizeof *flow->made);
    flow->choice = arena_alloc(arena, tensors * sizeof *flow->choice);
    for (int i = 0; i < flow->statements.count; i++) {
        Statement *statement = flow->statements.items[i];
        reads_of(arena, statement, &flow->reads[i]);
        if (statement->kind == STATEMENT_LOOP) note_made(flow, statement, statement->target);
        for (int k = 0; k < statement->outputs.count; k++) {
            const Expr *output = statement->outputs.items[k];
            note_made(flow, statement, output);
            if (statement->call == CALL_TOP) flow->choice[output->tensor->id] = statement;
        }
    }
}

/* A value handed from one iteration of a repeat to the next. */
static bool is_carried(const Tensor *tensor) {
    return tensor->role == ROLE_TEMP && tensor->rank > 0 && tensor->axes[0]->kind == AXIS_REPEAT;
}

/* ---- the product of a parameter ---- */

static bool uses_index(const Expr *read, const Index *index) {
    for (int i = 0; i < read->count; i++)
        if (expr_uses_index(read->args[i], index)) return true;
    return false;
}

static bool is_product_of(const Statement *statement, const List *reads, const Tensor *tensor) {
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_SUM) return false;
    for (int i = 0; i < reads->count; i++) {
        const Expr *read = reads->items[i];
        if (read->tensor != tensor) continue;
        for (int j = tensor->lead; j < read->count; j++) {
            const Expr *sub = read->args[j];
            if (sub->kind != EXPR_INDEX || expr_uses_index(statement->target, sub->index)) continue;
            for (int k = 0; k < reads->count; k++)
                if (k != i && uses_index(reads->items[k], sub->index)) return true;
        }
    }
    return false;
}

bool is_product_with(Arena *arena, const Statement *statement, const Tensor *parameter) {
    List reads = {0};
    reads_of(arena, statement, &reads);
    return is_product_of(statement, &reads, parameter);
}

static const Statement *find_product(Flow *flow, const Tensor *tensor) {
    for (int i = 0; i < flow->statements.count; i++)
        if (is_product_of(flow->statements.items[i], &flow->reads[i], tensor))
            return flow->statements.items[i];
    return NULL;
}

static void mark_matrices(Flow *flow) {
    for (int i = 0; i < flow->statements.count; i++)
        for (int k = 0; k < flow->reads[i].count; k++) {
            const Tensor *tensor = ((Expr *)flow->reads[i].items[k])->tensor;
            if (tensor->role == ROLE_PARAMETER && tensor->facts && tensor->facts->product)
                flow->has_matrix[i] |=
                    is_product_of(flow->statements.items[i], &flow->reads[i], tensor);
        }
}

/* ---- before and after ---- */

/* Everything that the operands of a statement are made from, within one iteration of a repeat;
 * parameters: set when there are any matrices or rows of such among it. */
static void origins(Flow *flow, const Statement *statement, const Tensor *own, bool *seen,
                    bool *parameters) {
    List reads = {0};
    reads_of(flow->program->arena, statement, &reads);
    for (int i = 0; i < reads.count; i++) {
        const Tensor *tensor = ((Expr *)reads.items[i])->tensor;
        if (tensor == own || seen[tensor->id]) continue;
        seen[tensor->id] = true;
        *parameters |= is_carried(tensor) || (tensor->role == ROLE_PARAMETER && tensor->facts &&
                                              (tensor->facts->product || tensor->facts->lookup));
        if (flow->made[tensor->id] && !is_carried(tensor))
            origins(flow, flow->made[tensor->id], own, seen, parameters);
    }
}

/* Does any other matrix come behind what the statement makes? */
static bool matrix_follows(Flow *flow, const Statement *from) {
    bool *after = arena_alloc(flow->program->arena,
                              ((size_t)flow->program->tensors.count + 1) * sizeof *after);
    after[from->target->tensor->id] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < flow->statements.count; i++) {
            const Statement *statement = flow->statements.items[i];
            bool reaches = false;
            for (int k = 0; k < flow->reads[i].count && !reaches; k++)
                reaches = after[((Expr *)flow->reads[i].items[k])->tensor->id];
            if (!reaches || statement->once) continue;
            if (flow->has_matrix[i] && statement != from) return true;
            if (statement->kind == STATEMENT_LOOP && !after[statement->target->tensor->id])
                changed = after[statement->target->tensor->id] = true;
            for (int k = 0; k < statement->outputs.count; k++) {
                bool *known = &after[((Expr *)statement->outputs.items[k])->tensor->id];
                changed |= !*known;
                *known = true;
            }
        }
    }
    return false;
}

/* ---- one step of the way ---- */

/* How one statement takes a tensor on: the other terms and the other factors. */
typedef struct Step {
    const Statement *statement;
    const Expr *read;
    const Expr *terms[MAX_PARTS], *factors[MAX_PARTS];
    int term_count, factor_count;
    int reads; /* of the tensor: 1 for a way */
    bool linear;
} Step;

static int count_reads(const Expr *expr, const Tensor *tensor) {
    int count = expr->kind == EXPR_READ && expr->tensor == tensor;
    for (int i = 0; i < expr->count; i++) count += count_reads(expr->args[i], tensor);
    return count;
}

static void take_on(Step *step, const Expr *expr, const Tensor *tensor) {
    if (expr->kind == EXPR_READ && expr->tensor == tensor) {
        step->read = expr;
        return;
    }
    bool adds = expr->kind == EXPR_APPLY && (expr->op == OP_ADD || expr->op == OP_SUB);
    bool times = expr->kind == EXPR_APPLY && (expr->op == OP_MUL || expr->op == OP_NEG);
    bool divides = expr->kind == EXPR_APPLY && expr->op == OP_DIV;
    step->linear &= adds || times || divides;
    for (int i = 0; step->linear && i < expr->count; i++) {
        const Expr *arg = expr->args[i];
        if (count_reads(arg, tensor)) {
            step->linear &= !divides || i == 0;
            if (step->linear) take_on(step, arg, tensor);
        } else if (adds && step->term_count < MAX_PARTS)
            step->terms[step->term_count++] = arg;
        else if (times && step->factor_count < MAX_PARTS)
            step->factors[step->factor_count++] = arg;
    }
}

static Step step_of(const Statement *statement, const Tensor *tensor) {
    Step step = {.statement = statement, .linear = true};
    bool loop = statement->kind == STATEMENT_LOOP && !statement->once;
    if (!loop || (statement->reduction != REDUCE_NONE && statement->reduction != REDUCE_SUM) ||
        (step.reads = count_reads(statement->value, tensor)) != 1) {
        step.linear = false;
        return step;
    }
    take_on(&step, statement->value, tensor);
    return step;
}

/* Of an index that a sum is over: is it one of instances of the layer? */
static bool is_instance(const Tensor *parameter, const Index *index) {
    for (int i = 0; i < parameter->rank; i++) {
        bool own = i >= parameter->lead && !(parameter->facts->axes[i] & AXIS_SHARED);
        if (!own && parameter->axes[i] == index->axis && index->axis->kind != AXIS_REPEAT)
            return true;
    }
    return false;
}

/* The sum, if there is one, is over instances alone. */
static bool sums_instances(const Step *step, const Tensor *parameter) {
    const Statement *statement = step->statement;
    for (int i = 0; i < statement->loop_count; i++)
        if (!expr_uses_index(statement->target, statement->loops[i]) &&
            !is_instance(parameter, statement->loops[i]))
            return false;
    return true;
}

/* ---- weights of a sum over instances ---- */

typedef struct Factors {
    const Expr *above[MAX_PARTS], *below[MAX_PARTS];
    int above_count, below_count;
    double constant;
    bool fits;
} Factors;

static void unfold(Flow *flow, const Expr *expr, bool below, int depth, Factors *factors) {
    if (expr->kind == EXPR_NUMBER) {
        factors->constant *= below ? 1 / expr->number : expr->number;
        return;
    }
    if (expr->kind == EXPR_APPLY && (expr->op == OP_MUL || expr->op == OP_DIV)) {
        unfold(flow, expr->args[0], below, depth, factors);
        unfold(flow, expr->args[1], expr->op == OP_DIV ? !below : below, depth, factors);
        return;
    }
    /* where(total > 0, total, 1) */
    if (expr->kind == EXPR_APPLY && expr->op == OP_WHERE && expr_is_number(expr->args[2], 1)) {
        unfold(flow, expr->args[1], below, depth, factors);
        return;
    }
    const Statement *made = expr->kind == EXPR_READ ? flow->made[expr->tensor->id] : NULL;
    bool opens = made && made->kind == STATEMENT_LOOP && made->reduction == REDUCE_NONE &&
                 (made->value->kind == EXPR_READ ||
                  (made->value->kind == EXPR_APPLY &&
                   (made->value->op == OP_MUL || made->value->op == OP_DIV)));
    if (opens && depth < MAX_UNFOLD) {
        unfold(flow, made->value, below, depth + 1, factors);
        return;
    }
    int *count = below ? &factors->below_count : &factors->above_count;
    factors->fits &= expr->kind == EXPR_READ && *count < MAX_PARTS;
    if (factors->fits) (below ? factors->below : factors->above)[(*count)++] = expr;
}

static bool same_reads(const Factors *a, const Factors *b) {
    bool taken[MAX_PARTS] = {false};
    if (!a->fits || !b->fits || a->above_count != b->above_count) return false;
    for (int i = 0; i < a->above_count; i++) {
        int found = -1;
        for (int j = 0; j < b->above_count && found < 0; j++)
            if (!taken[j] && a->above[i]->tensor == b->above[j]->tensor) found = j;
        if (found < 0) return false;
        taken[found] = true;
    }
    return true;
}

static double summed_size(const Statement *statement) {
    double size = 1;
    for (int i = 0; i < statement->loop_count; i++)
        if (!expr_uses_index(statement->target, statement->loops[i]))
            size *= (double)statement->loops[i]->axis->size;
    return size;
}

/* What the factors add up to when they are divided by their own sum. */
static double weights_of(Flow *flow, const Step *step) {
    Factors factors = {.constant = 1, .fits = true}, terms = {.constant = 1, .fits = true};
    for (int i = 0; i < step->factor_count; i++) unfold(flow, step->factors[i], false, 0, &factors);
    if (!factors.fits || factors.below_count != 1) return 0;
    const Statement *total = flow->made[factors.below[0]->tensor->id];
    if (!total || total->kind != STATEMENT_LOOP || total->reduction != REDUCE_SUM) return 0;
    unfold(flow, total->value, false, 0, &terms);
    if (terms.below_count || terms.constant != 1 || !same_reads(&factors, &terms)) return 0;
    return factors.constant * summed_size(step->statement) / summed_size(total);
}

/* Instances that meet in one sum: those chosen, where a choice is among the factors. */
static double active_of(Flow *flow, const Step *step) {
    double whole = summed_size(step->statement);
    for (int i = 0; i < step->factor_count; i++) {
        const Expr *factor = step->factors[i];
        const Statement *top = factor->kind == EXPR_READ ? flow->choice[factor->tensor->id] : NULL;
        if (!top) continue;
        const Tensor *mask = ((Expr *)top->outputs.items[0])->tensor;
        const Expr *output = top->outputs.items[0];
        int dimension = -1;
        for (int j = 0, at = 0; j < output->count; j++) {
            const Expr *sub = output->args[j];
            bool iterates = sub->kind == EXPR_INDEX && !sub->index->of_repeat;
            if (iterates && at++ == top->top.dimension) dimension = j;
        }
        if (dimension < 0) return whole;
        return whole * (double)top->top.k / (double)mask->axes[dimension]->size;
    }
    return whole;
}

/* ---- the way ---- */

static bool holds_any(const Expr *expr, const bool *seen) {
    if (expr->kind == EXPR_READ && seen[expr->tensor->id]) return true;
    for (int i = 0; i < expr->count; i++)
        if (holds_any(expr->args[i], seen)) return true;
    return false;
}

static void follow(Flow *flow, ParameterFlow *own, const bool *seen) {
    own->end = own->sum->target->tensor;
    for (int length = 0; length < MAX_WAY; length++) {
        Step only = {0};
        int ways = 0;
        for (int i = 0; i < flow->statements.count; i++) {
            Step step = step_of(flow->statements.items[i], own->end);
            if (!step.linear || !step.read) continue;
            only = step;
            ways++;
        }
        if (ways != 1) return;
        if (only.statement->reduction == REDUCE_SUM) {
            if (!sums_instances(&only, own->tensor)) return;
            own->active *= active_of(flow, &only);
            own->weights = weights_of(flow, &only);
        }
        for (int i = 0; i < only.term_count; i++)
            if (holds_any(only.terms[i], seen)) {
                own->joins = true;
                return;
            }
        own->end = only.statement->target->tensor;
        if (is_carried(own->end)) return;
    }
}

static void find_flow(Flow *flow, Tensor *tensor) {
    Arena *arena = flow->program->arena;
    ParameterFlow *own = arena_alloc(arena, sizeof *own);
    const ParameterFacts *facts = tensor->facts;
    *own = (ParameterFlow){.tensor = tensor,
                           .fan_in = 1,
                           .fan_out = 1,
                           .meets = 1,
                           .active = 1,
                           .product = facts->product,
                           .lookup = facts->lookup};
    list_push(arena, &flow->flows, own);
    for (int j = tensor->lead; j < tensor->rank && facts->product; j++) {
        if (facts->axes[j] & AXIS_SUMMED) own->fan_in *= (double)tensor->axes[j]->size;
        if (facts->axes[j] & AXIS_KEPT) own->fan_out *= (double)tensor->axes[j]->size;
    }
    own->sum = facts->product ? find_product(flow, tensor) : NULL;
    if (!own->sum) return;
    bool matrices = false;
    bool *seen = arena_alloc(arena, ((size_t)flow->program->tensors.count + 1) * sizeof *seen);
    origins(flow, own->sum, tensor, seen, &matrices);
    own->first = !matrices;
    own->last = !matrix_follows(flow, own->sum);
    follow(flow, own, seen);
    own->fan_in *= own->active;
}

/* Products whose results end in one sum: their terms are counted together. */
static void count_meeting(Flow *flow) {
    for (int i = 0; i < flow->flows.count; i++) {
        ParameterFlow *own = flow->flows.items[i];
        own->meets = own->fan_in;
        for (int j = 0; j < flow->flows.count && own->joins; j++) {
            const ParameterFlow *other = flow->flows.items[j];
            if (j != i && other->joins && other->end == own->end) own->meets += other->fan_in;
        }
    }
}

List parameter_flow(Program *program) {
    Flow flow = {.program = program};
    def_use_statements(&flow);
    mark_matrices(&flow);
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_PARAMETER && tensor->facts) find_flow(&flow, tensor);
    }
    count_meeting(&flow);
    return flow.flows;
}
