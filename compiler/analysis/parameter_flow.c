/* parameter_flow: see parameter_flow.h.
 *
 * The result of a parameter's product is followed while exactly one statement uses it and that use
 * is linear: a term of a sum, a factor, or a sum over the instances of the layer. Other terms are
 * parallel branches. A term that the product was computed from ends the path: a residual
 * connection, also in steps, as (x + a) + f in parallel blocks.
 *
 * A normalization on the path, a factor that depends on the result itself, cancels a factor of the
 * product. Its scale is then the parameter of the residual branch. Biases on the path belong to it.
 *
 * The coefficient of each instance in a sum over instances is the product of all factors on the
 * path. Their sum is constant if it has the same value at random points (sampled.h).
 */
#include "analysis/parameter_flow.h"

#include "analysis/access.h"
#include "analysis/parameter_facts.h"
#include "analysis/sampled.h"
#include "base/must.h"

#include <math.h>

enum { MAX_WAY = 64, MAX_PARTS = 24, MAX_TERMS = 8 };

typedef struct Flow {
    Program *program;
    List statements;    /* Statement *: loops and calls, with bodies of repeats inline */
    List *reads;        /* Expr *, by index in statements */
    Statement **made;   /* by tensor id: the statement that defines it, the first */
    int *made_at;       /* by tensor id: the index of that statement */
    Statement **choice; /* by tensor id: the call that selected it, or NULL */
    bool *has_matrix;   /* by index in statements: it is the product of a parameter */
    bool *leaf;         /* by tensor id: random when values are sampled */
    bool *vector;       /* by tensor id: a scale or a bias of a residual branch */
    Sampler *sampler;
    List flows; /* ParameterFlow * */
} Flow;

/* ---- the program as a list ---- */

static void collect(Statement *statement, void *data) {
    Flow *flow = data;
    if (statement->kind != STATEMENT_REPEAT && !statement_is_scan(statement))
        list_push(flow->program->arena, &flow->statements, statement);
}

static void note_made(Flow *flow, int at, const Expr *target) {
    MUST(target->kind == EXPR_READ);
    int id = target->tensor->id;
    flow->leaf[id] |= flow->made[id] != NULL;
    if (flow->made[id]) return;
    flow->made[id] = flow->statements.items[at];
    flow->made_at[id] = at;
}

static void def_use_statements(Flow *flow) {
    Arena *arena = flow->program->arena;
    size_t tensors = (size_t)flow->program->tensors.count + 1;
    block_walk(&flow->program->body, collect, flow);
    flow->reads = arena_alloc(arena, ((size_t)flow->statements.count + 1) * sizeof *flow->reads);
    flow->has_matrix =
        arena_alloc(arena, ((size_t)flow->statements.count + 1) * sizeof *flow->has_matrix);
    flow->made = arena_alloc(arena, tensors * sizeof *flow->made);
    flow->made_at = arena_alloc(arena, tensors * sizeof *flow->made_at);
    flow->choice = arena_alloc(arena, tensors * sizeof *flow->choice);
    flow->leaf = arena_alloc(arena, tensors * sizeof *flow->leaf);
    flow->vector = arena_alloc(arena, tensors * sizeof *flow->vector);
    flow->sampler = sampler_new(arena, flow->made, flow->choice, flow->leaf);
    for (int i = 0; i < flow->statements.count; i++) {
        Statement *statement = flow->statements.items[i];
        reads_of(arena, statement, &flow->reads[i]);
        if (statement->kind == STATEMENT_LOOP) note_made(flow, i, statement->target);
        LIST_EACH(const Expr, output, &statement->outputs) {
            note_made(flow, i, output);
            if (statement_selects(statement)) flow->choice[output->tensor->id] = statement;
        }
    }
}

/* A value passed from one iteration of a repeat to the next. */
static bool is_carried_flow(const Tensor *tensor) {
    return tensor->role == ROLE_TEMP && tensor->rank > 0 && tensor->axes[0]->kind == AXIS_REPEAT;
}

/* ---- the product of a parameter ---- */

static bool uses_index(const Expr *read, const Index *index) {
    MUST(read->kind == EXPR_READ);
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

/* The index of the first one, or -1. */
static int find_flow_product(Flow *flow, const Tensor *tensor) {
    for (int i = 0; i < flow->statements.count; i++)
        if (is_product_of(flow->statements.items[i], &flow->reads[i], tensor)) return i;
    return -1;
}

static void mark_matrices(Flow *flow) {
    for (int i = 0; i < flow->statements.count; i++) {
        const Statement *statement = flow->statements.items[i];
        for (int k = 0; k < flow->reads[i].count; k++) {
            const Tensor *tensor = ((Expr *)flow->reads[i].items[k])->tensor;
            if (tensor->role == ROLE_PARAMETER && tensor->facts && tensor->facts->product)
                flow->has_matrix[i] |= is_product_of(statement, &flow->reads[i], tensor);
        }
        if (flow->has_matrix[i]) flow->leaf[statement->target->tensor->id] = true;
    }
    LIST_EACH(const Tensor, tensor, &flow->program->tensors)
        flow->leaf[tensor->id] |= is_carried_flow(tensor);
}

/* ---- before and after ---- */

/* A flag per tensor. */
static bool *seen_new(const Flow *flow) {
    const size_t tensors = (size_t)flow->program->tensors.count + 1;
    return arena_alloc(flow->program->arena, tensors * sizeof(bool));
}

/* True for the value of another iteration: of a repeat, or of a scan, whose states are read before
 * they are defined. */
static bool is_of_other_iteration(const Flow *flow, const Tensor *tensor, int at) {
    return is_carried_flow(tensor) || (flow->made[tensor->id] && flow->made_at[tensor->id] >= at);
}

/* All inputs of the operands of a statement, within one iteration of a repeat or a scan;
 * parameters: set if matrices or their rows are among them. */
static void origins(Flow *flow, int at, const Tensor *own, bool *seen, bool *parameters) {
    const List *reads = &flow->reads[at];
    for (int i = 0; i < reads->count; i++) {
        const Tensor *tensor = ((Expr *)reads->items[i])->tensor;
        if (tensor == own || seen[tensor->id]) continue;
        seen[tensor->id] = true;
        bool other = is_of_other_iteration(flow, tensor, at);
        *parameters |= other || (tensor->role == ROLE_PARAMETER && tensor->facts &&
                                 (tensor->facts->product || tensor->facts->lookup));
        if (flow->made[tensor->id] && !other)
            origins(flow, flow->made_at[tensor->id], own, seen, parameters);
    }
}

/* True if another matrix uses the result of the statement. */
static bool matrix_follows(Flow *flow, const Statement *from) {
    MUST(from->kind == STATEMENT_LOOP);
    bool *after = seen_new(flow);
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

/* ---- one step of the path ---- */

typedef enum FactorUse { FACTOR_TIMES, FACTOR_OVER, FACTOR_WHERE, FACTOR_UNLESS } FactorUse;

typedef struct Factor {
    const Expr *expr; /* a factor, a divisor, or the condition of where(c, x, 0), where(c, 0, x) */
    FactorUse use;
} Factor;

/* The linear use of a tensor by one statement: the other terms and the factors. */
typedef struct FlowEdge {
    const Statement *statement;
    const Expr *read;
    const Expr *terms[MAX_PARTS];
    Factor factors[MAX_PARTS];
    int term_count, factor_count;
    int reads; /* of the tensor: 1 on a path */
    bool linear;
} FlowEdge;

static int count_reads(const Expr *expr, const Tensor *tensor) {
    int count = expr->kind == EXPR_READ && expr->tensor == tensor;
    for (int i = 0; i < expr->count; i++) count += count_reads(expr->args[i], tensor);
    return count;
}

static void add_factor(FlowEdge *step, const Expr *expr, FactorUse use) {
    step->linear &= step->factor_count < MAX_PARTS;
    if (step->linear) step->factors[step->factor_count++] = (Factor){expr, use};
}

/* where(c, x, 0) is linear in x. Returns the argument with x, or NULL. */
static const Expr *take_where(FlowEdge *step, const Expr *expr, const Tensor *tensor) {
    bool first = count_reads(expr->args[1], tensor) > 0;
    bool linear =
        !count_reads(expr->args[0], tensor) && expr_is_number(expr->args[first ? 2 : 1], 0);
    step->linear &= linear;
    add_factor(step, expr->args[0], first ? FACTOR_WHERE : FACTOR_UNLESS);
    return expr->args[first ? 1 : 2];
}

static void take_on(FlowEdge *step, const Expr *expr, const Tensor *tensor) {
    if (expr->kind == EXPR_READ && expr->tensor == tensor) {
        step->read = expr;
        return;
    }
    if (expr->kind == EXPR_APPLY && expr->op == OP_WHERE) {
        const Expr *arg = take_where(step, expr, tensor);
        if (step->linear) take_on(step, arg, tensor);
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
        else if (times || divides)
            add_factor(step, arg, divides ? FACTOR_OVER : FACTOR_TIMES);
    }
}

static FlowEdge flow_step(const Statement *statement, const Tensor *tensor) {
    FlowEdge step = {.statement = statement, .linear = true};
    bool loop = statement->kind == STATEMENT_LOOP && !statement->once;
    if (!loop || (statement->reduction != REDUCE_NONE && statement->reduction != REDUCE_SUM) ||
        (step.reads = count_reads(statement->value, tensor)) != 1) {
        step.linear = false;
        return step;
    }
    take_on(&step, statement->value, tensor);
    return step;
}

/* True if an index of a sum runs over instances of the layer. */
static bool is_instance(const Tensor *parameter, const Index *index) {
    for (int i = 0; i < parameter->rank; i++) {
        bool own = i >= parameter->lead && !(parameter->facts->axes[i] & AXIS_SHARED);
        if (!own && parameter->axes[i] == index->axis && index->axis->kind != AXIS_REPEAT)
            return true;
    }
    return false;
}

/* True if the sum, if any, runs over instances only. */
static bool sums_instances(const FlowEdge *step, const Tensor *parameter) {
    const Statement *statement = step->statement;
    for (int i = 0; i < statement->loop_count; i++)
        if (!expr_uses_index(statement->target, statement->loops[i]) &&
            !is_instance(parameter, statement->loops[i]))
            return false;
    return true;
}

/* ---- weights of a sum over instances ---- */

/* The statements from the product of a parameter on, up to the current one. */
typedef struct FlowPath {
    FlowEdge steps[MAX_WAY];
    int count;
    int from;       /* the first step with factors of the latest sum over instances */
    int sum;        /* the step with that sum, or -1 */
    int normalized; /* the last step with a normalization, or -1 */
    double active;  /* instances that are added in it */
    bool resolved;  /* its weights have a constant sum */
    bool unknown;   /* an earlier sum has weights without a constant sum */
    double numbers; /* product of the numbers outside of such sums */
} FlowPath;

enum { DRAWS = 6 };

static double factors_of(Flow *flow, const FlowEdge *step, bool constants, const Bound *at) {
    double product = 1;
    for (int i = 0; i < step->factor_count; i++) {
        const Expr *factor = step->factors[i].expr;
        if (factor->kind == EXPR_NUMBER && !constants) continue;
        double value = sampled_value(flow->sampler, factor, at);
        switch (step->factors[i].use) {
        case FACTOR_TIMES:
            product *= value;
            break;
        case FACTOR_OVER:
            product /= value;
            break;
        case FACTOR_WHERE:
            product = value != 0 ? product : 0;
            break;
        case FACTOR_UNLESS:
            product = value != 0 ? 0 : product;
            break;
        }
    }
    return product;
}

/* Factors of one instance: those of its sum, and of the steps before it. Numbers before and after
 * the sum are factors of the branch, not weights. */
static double instance_weight(Flow *flow, const FlowPath *way, const Bound *at) {
    Bound bound = *at;
    double product = 1;
    for (int i = way->sum; i >= way->from; i--) {
        product *= factors_of(flow, &way->steps[i], i == way->sum, &bound);
        if (i > way->from)
            bound = bound_through(flow->sampler, way->steps[i - 1].statement, way->steps[i].read,
                                  &bound);
    }
    return product;
}

typedef struct InstanceSum {
    double total;
    long count; /* nonzero weights */
} InstanceSum;

static void add_instances(Flow *flow, const FlowPath *way, int loop, Bound *at, InstanceSum *sum) {
    const Statement *statement = way->steps[way->sum].statement;
    while (loop < statement->loop_count &&
           expr_uses_index(statement->target, statement->loops[loop]))
        loop++;
    if (loop == statement->loop_count) {
        double weight = instance_weight(flow, way, at);
        sum->total += weight;
        sum->count += weight != 0;
        return;
    }
    const Index *index = statement->loops[loop];
    for (long i = 0; i < index->axis->size && !isnan(sum->total); i++) {
        bound_set(at, index, i);
        add_instances(flow, way, loop + 1, at, sum);
    }
}

/* The weights of all instances at a random position of the last step's result. */
static InstanceSum sum_weights(Flow *flow, const FlowPath *way, uint64_t seed, bool whole) {
    Bound at = {0};
    double after = 1;
    InstanceSum sum = {0};
    const Statement *last = way->steps[way->count - 1].statement;
    sampler_draw(flow->sampler, seed, whole);
    for (int i = 0; i < last->loop_count; i++)
        if (expr_uses_index(last->target, last->loops[i]))
            bound_set(&at, last->loops[i], sampled_index(flow->sampler, last->loops[i]));
    for (int i = way->count - 1; i > way->sum; i--) {
        after *= factors_of(flow, &way->steps[i], false, &at);
        at = bound_through(flow->sampler, way->steps[i - 1].statement, way->steps[i].read, &at);
    }
    add_instances(flow, way, 0, &at, &sum);
    sum.total *= after;
    return sum;
}

/* Rounded to the digits that do not depend on the draw: 1 and not 1 - 1e-9. */
static double rounded_exponent(double value, int digits) {
    double unit = pow(10, digits - 1 - floor(log10(fabs(value))));
    return round(value * unit) / unit;
}

/* The sum of the weights where it is the same in every draw, or 0. Draws in which no instance is
 * chosen do not count. */
static double constant_sum(Flow *flow, const FlowPath *way) {
    double least = INFINITY, most = -INFINITY;
    for (int i = 1; i <= DRAWS; i++) {
        InstanceSum sum = sum_weights(flow, way, (uint64_t)i, false);
        if (!isfinite(sum.total)) return 0;
        if (!sum.count) continue;
        least = fmin(least, sum.total);
        most = fmax(most, sum.total);
    }
    if (least > most || most == 0 || most - least > 1e-5 * fabs(most)) return 0;
    return rounded_exponent(most, most - least > 1e-11 * fabs(most) ? 5 : 12);
}

static double summed_size(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    double size = 1;
    for (int i = 0; i < statement->loop_count; i++)
        if (!expr_uses_index(statement->target, statement->loops[i]))
            size *= (double)statement->loops[i]->axis->size;
    return size;
}

/* Instances that are added in one sum: those with nonzero weights, if their number does not depend
 * on the values. */
static double active_instances(Flow *flow, const FlowPath *way) {
    double whole = summed_size(way->steps[way->sum].statement);
    long count = 0;
    for (int i = 1; i <= DRAWS; i++) {
        InstanceSum sum = sum_weights(flow, way, (uint64_t)i, true);
        if (isnan(sum.total) || !sum.count || (count && sum.count != count)) return whole;
        count = sum.count;
    }
    return (double)count * sampler_share(flow->sampler);
}

/* Division after the sum, (sum[n] p * e) / total, completes weights as well: tried at each step. */
static void find_weights(Flow *flow, ParameterFlow *own, FlowPath *way) {
    double sum = constant_sum(flow, way);
    way->resolved = sum > 0;
    if (!way->resolved) return;
    own->weights = own->weights > 0 ? own->weights * sum : sum;
    own->share *= sum / way->active;
}

static void begin_sum(Flow *flow, ParameterFlow *own, FlowPath *way) {
    way->unknown |= way->sum >= 0 && !way->resolved;
    way->from = way->sum + 1;
    way->sum = way->count - 1;
    way->active = active_instances(flow, way);
    own->active *= way->active;
    find_weights(flow, own, way);
}

static void count_numbers(FlowPath *way, const FlowEdge *step) {
    for (int i = 0; i < step->factor_count; i++) {
        const Factor *factor = &step->factors[i];
        if (factor->expr->kind != EXPR_NUMBER) continue;
        if (factor->use == FACTOR_TIMES) way->numbers *= factor->expr->number;
        if (factor->use == FACTOR_OVER) way->numbers /= factor->expr->number;
    }
}

/* Numbers scale the share only where the weights of all sums are known. */
static void end_way(ParameterFlow *own, FlowPath *way) {
    way->unknown |= way->sum >= 0 && !way->resolved;
    own->uneven = way->unknown;
    if (way->unknown)
        own->weights = 0;
    else if (way->numbers != 0)
        own->share *= fabs(way->numbers);
}

/* ---- the path ---- */

static bool holds_any(const Expr *expr, const bool *seen) {
    if (expr->kind == EXPR_READ && seen[expr->tensor->id]) return true;
    for (int i = 0; i < expr->count; i++)
        if (holds_any(expr->args[i], seen)) return true;
    return false;
}

static bool is_sum_of_two(const Expr *expr) {
    return expr->kind == EXPR_APPLY && (expr->op == OP_ADD || expr->op == OP_SUB);
}

/* True if the tensor is a sum with such a term, as (x + a) where only x is seen. */
static bool adds_any(const Flow *flow, const Expr *expr, const bool *seen, int terms) {
    if (holds_any(expr, seen)) return true;
    if (is_sum_of_two(expr))
        return adds_any(flow, expr->args[0], seen, terms) ||
               adds_any(flow, expr->args[1], seen, terms);
    if (expr->kind != EXPR_READ || !terms || is_carried_flow(expr->tensor)) return false;
    const Statement *maker = flow->made[expr->tensor->id];
    return maker && maker->kind == STATEMENT_LOOP && maker->reduction == REDUCE_NONE &&
           is_sum_of_two(maker->value) && adds_any(flow, maker->value, seen, terms - 1);
}

/* Inputs of all tensors that an expression reads, without these tensors. */
static void origins_of_reads(Flow *flow, const Expr *expr, bool *seen) {
    bool matrices = false;
    if (expr->kind != EXPR_READ) {
        for (int i = 0; i < expr->count; i++) origins_of_reads(flow, expr->args[i], seen);
    } else if (flow->made[expr->tensor->id] && !is_carried_flow(expr->tensor))
        origins(flow, flow->made_at[expr->tensor->id], NULL, seen, &matrices);
}

/* True if a factor depends on the tensor: a normalization. */
static bool cancels_scale(Flow *flow, const FlowEdge *step, const Tensor *tensor) {
    bool *seen = seen_new(flow);
    for (int i = 0; i < step->factor_count; i++)
        origins_of_reads(flow, step->factors[i].expr, seen);
    return seen[tensor->id];
}

/* True if the value of a statement depends on the tensor, apart from a carried value. */
static bool statement_follows(Flow *flow, int at, const Tensor *tensor) {
    bool matrices = false, *seen = seen_new(flow);
    origins(flow, at, NULL, seen, &matrices);
    return seen[tensor->id];
}

/* The statement that uses a tensor, if it is the only linear use. A use that this statement depends
 * on, as the mean of x in x - mean, is part of a normalization. */
static bool next_step(Flow *flow, const Tensor *tensor, FlowEdge *next) {
    int ways = 0;
    for (int i = 0; i < flow->statements.count && ways < 2; i++) {
        FlowEdge step = flow_step(flow->statements.items[i], tensor);
        if (!step.linear || !step.read) continue;
        ways += !ways || !statement_follows(flow, i, next->statement->target->tensor);
        *next = step;
    }
    return ways == 1;
}

/* Follows the result by one statement; false where the path ends. */
static bool follow_step(Flow *flow, ParameterFlow *own, FlowPath *way, const bool *seen) {
    FlowEdge *step = &way->steps[way->count];
    if (!next_step(flow, own->end, step)) return false;
    bool sums = step->statement->reduction == REDUCE_SUM;
    if (sums && !sums_instances(step, own->tensor)) return false;
    if (cancels_scale(flow, step, own->end)) way->normalized = way->count;
    way->count++;
    if (sums) begin_sum(flow, own, way);
    if (!sums) count_numbers(way, step);
    if (!sums && way->sum >= 0 && !way->resolved && step->factor_count)
        find_weights(flow, own, way);
    for (int i = 0; i < step->term_count; i++)
        if (adds_any(flow, step->terms[i], seen, MAX_TERMS)) {
            own->branch = true;
            return false;
        }
    own->end = step->statement->target->tensor;
    return !is_carried_flow(own->end);
}

static int uses_of_tensor(const Flow *flow, const Tensor *tensor) {
    int uses = 0;
    for (int i = 0; i < flow->statements.count; i++)
        for (int k = 0; k < flow->reads[i].count; k++)
            uses += ((Expr *)flow->reads[i].items[k])->tensor == tensor;
    return uses;
}

/* Marks the vectors in an expression. Returns true if there are any. */
static bool mark_vectors(Flow *flow, const Expr *expr) {
    bool any = false;
    for (int i = 0; i < expr->count; i++) any |= mark_vectors(flow, expr->args[i]);
    const Tensor *tensor = expr->kind == EXPR_READ ? expr->tensor : NULL;
    if (!tensor || tensor->role != ROLE_PARAMETER || !tensor->facts || tensor->facts->product ||
        tensor->facts->lookup || uses_of_tensor(flow, tensor) != 1)
        return any;
    return flow->vector[tensor->id] = true;
}

/* Marks the biases of a residual branch, and its scale if a normalization precedes it. */
static void mark_branch(Flow *flow, const FlowPath *way) {
    bool scaled = way->normalized < 0;
    for (int i = scaled ? 0 : way->normalized; i < way->count; i++) {
        const FlowEdge *step = &way->steps[i];
        for (int k = 0; k < step->term_count; k++) mark_vectors(flow, step->terms[k]);
        for (int k = 0; k < step->factor_count && !scaled; k++)
            scaled = mark_vectors(flow, step->factors[k].expr);
    }
}

static void follow_flow(Flow *flow, ParameterFlow *own, const bool *seen) {
    FlowPath *way = arena_alloc(flow->program->arena, sizeof *way);
    way->sum = way->normalized = -1;
    way->numbers = 1;
    own->end = own->sum->target->tensor;
    while (way->count < MAX_WAY && follow_step(flow, own, way, seen)) continue;
    end_way(own, way);
    if (own->branch) mark_branch(flow, way);
    own->joins = own->branch && way->normalized < 0;
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
                           .share = 1,
                           .product = facts->product,
                           .lookup = facts->lookup};
    list_push(arena, &flow->flows, own);
    for (int j = tensor->lead; j < tensor->rank && facts->product; j++) {
        if (facts->axes[j] & AXIS_SUMMED) own->fan_in *= (double)tensor->axes[j]->size;
        if (facts->axes[j] & AXIS_KEPT) own->fan_out *= (double)tensor->axes[j]->size;
    }
    int sum = facts->product ? find_flow_product(flow, tensor) : -1;
    if (sum < 0) return;
    own->sum = flow->statements.items[sum];
    bool matrices = false;
    bool *seen = seen_new(flow);
    origins(flow, sum, tensor, seen, &matrices);
    own->first = !matrices;
    own->last = !matrix_follows(flow, own->sum);
    follow_flow(flow, own, seen);
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
    LIST_EACH(Tensor, tensor, &program->tensors)
        if (tensor->role == ROLE_PARAMETER && tensor->facts) find_flow(&flow, tensor);
    count_meeting(&flow);
    LIST_EACH(ParameterFlow, own, &flow.flows) own->joins |= flow.vector[own->tensor->id];
    return flow.flows;
}
