/* parameter_facts: the role of each parameter, see parameter_facts.h.
 *
 * The value of a statement is split into terms, and these into factors. A factor of parameters
 * alone that is summed over one of its own axes with other factors is the operand of a product;
 * otherwise it scales them. A term of its own is added.
 *
 *     sum[d] x[s,d] * tanh(w[d,f])         terms: 1; factors: x[s,d], tanh(w[d,f])
 *     h[s,f] + bias[f]                     terms: h[s,f], bias[f]
 *
 * A product of two equations, p[s,d,f] = x[s,d] * w[d,f] and sum[d] p[s,d,f], counts as a product
 * too: each sum is analyzed a second time with its operands substituted.
 */
#include "analysis/parameter_facts.h"

#include "analysis/reach.h"
#include "ir/call.h"
#include "base/must.h"

#include <stdint.h>

/* A parameter in a tensor computed from parameters alone: its axis j runs along dimension at[j] of
 * the tensor, -1: along none. */
typedef struct Origin {
    Tensor *parameter;
    int at[MAX_RANK];
} Origin;

typedef struct Finder {
    Program *program;
    List *origins;      /* Origin *, by tensor id; empty: not computed from parameters alone */
    int *writes;        /* by tensor id */
    bool *open;         /* by tensor id: parameters that this round analyzes */
    const bool *counts; /* by tensor id: tensors whose uses count in this round; NULL: all */
    const Statement **makers; /* by tensor id: the last statement that writes it */
    bool written_out; /* the current sum has substituted operands: only products between two axes of
                         their own count */
    const Statement *statement;
} Finder;

typedef enum ParameterRole { WAY_PRODUCT, WAY_SCALE, WAY_SHIFT, WAY_OTHER } ParameterRole;

/* ---- values of parameters alone ---- */

/* True if every value is computed from parameters alone. Subscripts do not matter. */
static bool only_parameters(const Finder *finder, const Expr *expr) {
    if (expr->kind == EXPR_READ) return finder->origins[expr->tensor->id].count > 0;
    for (int i = 0; expr->kind == EXPR_APPLY && i < expr->count; i++)
        if (!only_parameters(finder, expr->args[i])) return false;
    return true;
}

static bool is_made_of_parameters(const Finder *finder, const Expr *expr) {
    return expr_has_reads(expr) && only_parameters(finder, expr);
}

/* True if the value is the same at every position: nothing is looked up. */
static bool has_fixed_size(const Expr *expr) {
    for (int i = 0; i < expr->count; i++)
        if (expr->kind == EXPR_READ ? expr_has_reads(expr->args[i])
                                    : !has_fixed_size(expr->args[i]))
            return false;
    return true;
}

static bool is_listed_use(const List *origins, const Origin *origin) {
    const int rank = origin->parameter->rank;
    LIST_EACH(const Origin, other, origins) {
        int same = other->parameter == origin->parameter ? 0 : -1;
        while (same >= 0 && same < rank && other->at[same] == origin->at[same]) same++;
        if (same == rank) return true;
    }
    return false;
}

static void add_origin(Finder *finder, const Origin *inner, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    const Expr *target = finder->statement->target;
    List *origins = &finder->origins[target->tensor->id];
    Origin *origin = arena_alloc(finder->program->arena, sizeof *origin);
    origin->parameter = inner->parameter;
    for (int j = 0; j < inner->parameter->rank; j++) {
        const Expr *sub = inner->at[j] < 0 ? NULL : read->args[inner->at[j]];
        origin->at[j] = -1;
        for (int k = 0; sub && k < target->count; k++)
            if (expr_equal(sub, target->args[k])) origin->at[j] = k;
    }
    if (!is_listed_use(origins, origin)) list_push(finder->program->arena, origins, origin);
}

static void add_origins(Finder *finder, const Expr *expr) {
    if (expr->kind == EXPR_READ) {
        const List *inner = &finder->origins[expr->tensor->id];
        for (int i = 0; i < inner->count; i++) add_origin(finder, inner->items[i], expr);
        return;
    }
    for (int i = 0; i < expr->count; i++) add_origins(finder, expr->args[i]);
}

/* ---- one use ---- */

static bool looks_up(const Expr *sub) {
    return expr_has_reads(sub) ||
           (sub->kind == EXPR_INDEX && sub->index->axis->kind == AXIS_SEQUENCE);
}

/* The number of other factors with the index. */
static int having(const List *others, const Index *index) {
    int count = 0;
    for (int i = 0; i < others->count; i++) count += expr_uses_index(others->items[i], index);
    return count;
}

static unsigned axis_in_product(const Statement *statement, const Expr *sub, const List *others) {
    MUST(statement->kind == STATEMENT_LOOP);
    unsigned uses = 0;
    for (int i = 0; i < statement->loop_count; i++) {
        const Index *index = statement->loops[i];
        if (!expr_uses_index(sub, index)) continue;
        int met = having(others, index);
        if (!expr_uses_index(statement->target, index))
            uses |= met ? AXIS_SUMMED : 0;
        else
            uses |= met ? AXIS_SHARED : AXIS_KEPT;
    }
    return uses;
}

/* True if the sum over this subscript is one of a product without this factor, too. */
static bool summed_anyway(const Statement *statement, const Expr *sub, const List *others) {
    MUST(statement->kind == STATEMENT_LOOP);
    for (int i = 0; i < statement->loop_count; i++)
        if (expr_uses_index(sub, statement->loops[i]) && having(others, statement->loops[i]) > 1)
            return true;
    return false;
}

/* True if it is the operand of a product: one of its own axes is summed over with the other
 * factors. A mere factor of one of two operands, as `scale` in sum[d] x[d] * scale[d] * w[d,f], is
 * not. Sets the uses of its axes. */
static bool in_product(const Finder *finder, const Origin *origin, const Expr *read,
                       const List *others, unsigned *axes) {
    MUST(read->kind == EXPR_READ);
    const Tensor *parameter = origin->parameter;
    bool summed = false, kept = false, anyway = false;
    for (int j = 0; j < parameter->rank; j++) {
        axes[j] = 0;
        if (origin->at[j] < 0) continue;
        const Expr *sub = read->args[origin->at[j]];
        axes[j] = axis_in_product(finder->statement, sub, others);
        if (j < parameter->lead) continue;
        kept |= (axes[j] & AXIS_KEPT) != 0;
        if (!(axes[j] & AXIS_SUMMED)) continue;
        summed = true;
        anyway |= summed_anyway(finder->statement, sub, others);
    }
    return summed && (kept || !anyway);
}

/* Rows are looked up if each has remaining dimensions. */
static bool note_lookup(ParameterFacts *facts, const Origin *origin, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    const Tensor *parameter = origin->parameter;
    int looked_up = 0, own = parameter->rank - parameter->lead;
    for (int j = 0; j < parameter->rank; j++)
        if (origin->at[j] >= 0 && looks_up(read->args[origin->at[j]])) {
            facts->axes[j] |= AXIS_LOOKED_UP;
            looked_up += j >= parameter->lead;
        }
    return looked_up > 0 && looked_up < own;
}

/* True if an axis is already summed over in the definition of the tensor. */
static bool is_reduced(const Origin *origin) {
    for (int j = 0; j < origin->parameter->rank; j++)
        if (origin->at[j] < 0) return true;
    return false;
}

static bool keeps_axis(const Tensor *parameter, const unsigned *axes) {
    for (int j = parameter->lead; j < parameter->rank; j++)
        if (axes[j] & AXIS_KEPT) return true;
    return false;
}

static void note_origin(Finder *finder, const Origin *origin, const Expr *read, ParameterRole way,
                        const List *others) {
    ParameterFacts *facts = origin->parameter->facts;
    unsigned axes[MAX_RANK];
    if (!finder->open[origin->parameter->id]) return;
    bool product = way == WAY_PRODUCT && in_product(finder, origin, read, others, axes);
    if (finder->written_out && !(product && keeps_axis(origin->parameter, axes))) return;
    if (product) {
        facts->product = true;
        for (int j = 0; j < origin->parameter->rank; j++) facts->axes[j] |= axes[j];
        return;
    }
    if (facts->product && is_reduced(origin)) return; /* a low-rank product, a norm */
    if (note_lookup(facts, origin, read))
        facts->lookup = true;
    else if (way == WAY_PRODUCT || way == WAY_SCALE)
        facts->scale = true;
    else if (way == WAY_SHIFT)
        facts->shift = true;
    else
        facts->other = true;
    for (int j = 0; j < origin->parameter->rank; j++)
        if (!(facts->axes[j] & AXIS_LOOKED_UP)) facts->axes[j] |= AXIS_POINTWISE;
}

static bool has_origin(const Finder *finder, const Expr *expr, const Tensor *parameter) {
    const List *origins = expr->kind == EXPR_READ ? &finder->origins[expr->tensor->id] : NULL;
    for (int i = 0; origins && i < origins->count; i++)
        if (((Origin *)origins->items[i])->parameter == parameter) return true;
    for (int i = 0; i < expr->count; i++)
        if (has_origin(finder, expr->args[i], parameter)) return true;
    return false;
}

/* Notes the use of every parameter in an expression of parameters alone. A product of the
 * expression with itself is not one with another factor. */
static void note_use(Finder *finder, const Expr *expr, ParameterRole way, const List *others) {
    for (int i = 0; expr->kind == EXPR_APPLY && i < expr->count; i++)
        note_use(finder, expr->args[i], way, others);
    if (expr->kind != EXPR_READ) return;
    const List *origins = &finder->origins[expr->tensor->id];
    LIST_EACH(const Origin, origin, origins) {
        List strangers = {0};
        for (int j = 0; others && j < others->count; j++)
            if (!has_origin(finder, others->items[j], origin->parameter))
                list_push(finder->program->arena, &strangers, others->items[j]);
        bool alone = (way == WAY_PRODUCT || way == WAY_SCALE) && !strangers.count;
        note_origin(finder, origin, expr, alone ? WAY_OTHER : way, &strangers);
    }
}

/* ---- one statement ---- */

static void find_parameter_uses(Finder *finder, const Expr *expr, bool sum);

static void list_factors(Arena *arena, const Expr *expr, List *factors) {
    bool splits = expr->kind == EXPR_APPLY &&
                  (expr->op == OP_MUL || expr->op == OP_DIV || expr->op == OP_NEG);
    for (int i = 0; splits && i < expr->count; i++) list_factors(arena, expr->args[i], factors);
    if (!splits) list_push(arena, factors, (void *)(uintptr_t)expr);
}

static void find_in_term(Finder *finder, const Expr *term, bool sum, bool added) {
    Arena *arena = finder->program->arena;
    List factors = {0};
    list_factors(arena, term, &factors);
    for (int i = 0; i < factors.count; i++) {
        const Expr *factor = factors.items[i];
        List others = {0};
        for (int j = 0; j < factors.count; j++)
            if (j != i && expr_has_reads(factors.items[j]))
                list_push(arena, &others, factors.items[j]);
        if (!is_made_of_parameters(finder, factor))
            find_parameter_uses(finder, factor, sum && !others.count);
        else if (others.count)
            note_use(finder, factor, sum ? WAY_PRODUCT : WAY_SCALE, &others);
        else
            note_use(finder, factor, added ? WAY_SHIFT : WAY_OTHER, NULL);
    }
}

static bool is_sum(const Expr *expr) {
    return expr->kind == EXPR_APPLY && (expr->op == OP_ADD || expr->op == OP_SUB);
}

static void find_in_terms(Finder *finder, const Expr *expr, bool sum, bool added) {
    if (!is_sum(expr)) {
        find_in_term(finder, expr, sum, added);
        return;
    }
    for (int i = 0; i < 2; i++) {
        bool constant = !expr_has_reads(expr->args[1 - i]);
        find_in_terms(finder, expr->args[i], sum, added || !constant);
    }
}

/* An expression that is not of parameters alone; sum: its terms are summed over. */
static void find_parameter_uses(Finder *finder, const Expr *expr, bool sum) {
    bool product = expr->kind == EXPR_APPLY &&
                   (expr->op == OP_MUL || expr->op == OP_DIV || expr->op == OP_NEG);
    if (product || is_sum(expr) || is_made_of_parameters(finder, expr)) {
        find_in_terms(finder, expr, sum, false);
        return;
    }
    bool masked = expr->kind == EXPR_APPLY && (expr->op == OP_WHERE || expr->op == OP_STOP);
    for (int i = 0; expr->kind == EXPR_APPLY && i < expr->count; i++) {
        if (is_made_of_parameters(finder, expr->args[i]))
            note_use(finder, expr->args[i], WAY_OTHER, NULL);
        else
            find_parameter_uses(finder, expr->args[i], sum && masked);
    }
}

/* The elementwise product that alone defines a tensor, or NULL. */
static const Statement *product_behind(const Finder *finder, const Expr *read) {
    const Tensor *tensor = read->kind == EXPR_READ ? read->tensor : NULL;
    const Statement *maker = tensor ? finder->makers[tensor->id] : NULL;
    if (!maker || tensor->role != ROLE_TEMP || finder->writes[tensor->id] != 1 ||
        maker->reduction != REDUCE_NONE || maker->value->kind != EXPR_APPLY)
        return NULL;
    for (int i = 0; i < maker->target->count; i++)
        if (maker->target->args[i]->kind != EXPR_INDEX) return NULL;
    return maker->value->op == OP_MUL || maker->value->op == OP_NEG ? maker : NULL;
}

enum { MAX_EQUATIONS = 4 }; /* maximum number of equations of one product */

/* The factors of a product, with operands that are products substituted; the expression itself if
 * there are none. */
static const Expr *write_out(Finder *finder, const Expr *expr, int equations) {
    const Statement *maker = equations < MAX_EQUATIONS ? product_behind(finder, expr) : NULL;
    if (maker) {
        Index *from[MAX_RANK];
        for (int i = 0; i < expr->count; i++) from[i] = maker->target->args[i]->index;
        const Expr *value = expr_substitute(finder->program, maker->value, from,
                                            (Expr *const *)expr->args, expr->count);
        return write_out(finder, value, equations + 1);
    }
    if (expr->kind != EXPR_APPLY || (expr->op != OP_MUL && expr->op != OP_NEG)) return expr;
    Expr *args[3] = {NULL, NULL, NULL};
    bool same = true;
    for (int i = 0; i < expr->count; i++) {
        args[i] = (Expr *)(uintptr_t)write_out(finder, expr->args[i], equations);
        same &= args[i] == expr->args[i];
    }
    return same ? expr : expr_apply(finder->program, expr->op, args[0], args[1], args[2]);
}

static void find_written_out(Finder *finder, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Expr *value = write_out(finder, statement->value, 0);
    if (value == statement->value) return;
    finder->written_out = true;
    find_parameter_uses(finder, value, true);
    finder->written_out = false;
}

static void find_in_loop(Finder *finder, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Tensor *target = statement->target->tensor;
    bool made = is_made_of_parameters(finder, statement->value) &&
                has_fixed_size(statement->value) && target->role == ROLE_TEMP &&
                finder->writes[target->id] == 1;
    if (made && !finder->origins[target->id].count) add_origins(finder, statement->value);
    if (!made || statement->reduction == REDUCE_SUM)
        find_parameter_uses(finder, statement->value, statement->reduction == REDUCE_SUM);
    if (statement->reduction == REDUCE_SUM) find_written_out(finder, statement);
}

/* The row of a call states the dimension of each operand that it sums over in a product. */
static void find_in_call(Finder *finder, const Statement *statement) {
    for (int i = 0; i < statement->inputs.count && statement->row->sums; i++) {
        const int summed = statement->row->sums(statement, i);
        const List *origins = &finder->origins[call_input(statement, i)->tensor->id];
        LIST_EACH(const Origin, origin, origins) {
            ParameterFacts *facts = origin->parameter->facts;
            if (!finder->open[origin->parameter->id]) continue;
            *(summed >= 0 ? &facts->product : &facts->shift) = true;
            for (int j = 0; j < origin->parameter->rank; j++)
                facts->axes[j] |= summed < 0                ? AXIS_POINTWISE
                                  : origin->at[j] == summed ? AXIS_SUMMED
                                                            : AXIS_KEPT;
        }
    }
}

static bool counts_as_use(const Finder *finder, const Statement *statement) {
    if (statement->once || !finder->counts) return !statement->once;
    if (statement->kind == STATEMENT_LOOP) return finder->counts[statement->target->tensor->id];
    for (int i = 0; i < statement->outputs.count; i++)
        if (finder->counts[((Expr *)statement->outputs.items[i])->tensor->id]) return true;
    return false;
}

static void find_in_statement(Statement *statement, void *data) {
    Finder *finder = data;
    finder->statement = statement;
    if (!counts_as_use(finder, statement)) return;
    if (statement->kind == STATEMENT_LOOP) find_in_loop(finder, statement);
    if (statement->kind == STATEMENT_CALL) find_in_call(finder, statement);
}

/* ---- the pass ---- */

static void count_writes(Statement *statement, void *data) {
    Finder *finder = data;
    if (statement->kind != STATEMENT_LOOP) return;
    finder->writes[statement->target->tensor->id]++;
    finder->makers[statement->target->tensor->id] = statement;
}

static void begin_facts(Finder *finder, Tensor *tensor) {
    Arena *arena = finder->program->arena;
    Origin *self = arena_alloc(arena, sizeof *self);
    self->parameter = tensor;
    for (int j = 0; j < tensor->rank; j++) self->at[j] = j;
    list_push(arena, &finder->origins[tensor->id], self);
    tensor->facts = arena_alloc(arena, sizeof *tensor->facts);
    tensor->facts->trained = true;
    finder->open[tensor->id] = true;
}

static bool is_used_parameter(const ParameterFacts *facts) {
    return facts->product || facts->lookup || facts->scale || facts->shift || facts->other;
}

void parameter_facts(Program *program) {
    size_t count = (size_t)program->tensors.count + 1;
    Finder finder = {.program = program};
    finder.origins = arena_alloc(program->arena, count * sizeof *finder.origins);
    finder.writes = arena_alloc(program->arena, count * sizeof *finder.writes);
    finder.open = arena_alloc(program->arena, count * sizeof *finder.open);
    finder.makers = arena_alloc(program->arena, count * sizeof *finder.makers);
    block_walk(&program->body, count_writes, &finder);
    LIST_EACH(Tensor, tensor, &program->tensors)
        if (tensor->role == ROLE_PARAMETER) begin_facts(&finder, tensor);
    if (program->loss) {
        const Reach reach = gradient_reach(program);
        finder.counts = reach.to_loss;
        block_walk(&program->body, find_in_statement, &finder);
        for (int i = 0; i < program->tensors.count; i++) {
            const Tensor *tensor = program->tensors.items[i];
            if (tensor->role != ROLE_PARAMETER) continue;
            tensor->facts->trained = reach.to_loss[i];
            finder.open[i] = !is_used_parameter(tensor->facts);
        }
    }
    finder.counts = NULL;
    block_walk(&program->body, find_in_statement, &finder);
}

bool is_trained(const Tensor *parameter) {
    return !parameter->frozen && (!parameter->facts || parameter->facts->trained);
}

bool is_matrix(const Tensor *parameter) {
    const ParameterFacts *facts = parameter->facts;
    return facts && is_trained(parameter) && (facts->product || facts->lookup);
}

MatrixSide matrix_side_of(const Tensor *parameter, int axis) {
    const ParameterFacts *facts = parameter->facts;
    const unsigned use = facts->axes[axis];
    if (axis < parameter->lead) return SIDE_AHEAD;
    if (facts->product && !(use & (AXIS_SUMMED | AXIS_KEPT)) && use & AXIS_SHARED)
        return SIDE_AHEAD;
    if (facts->product) return use & AXIS_SUMMED ? SIDE_ROWS : SIDE_COLUMNS;
    return facts->lookup && !(use & AXIS_LOOKED_UP) ? SIDE_COLUMNS : SIDE_ROWS;
}

OwnNumber *tensor_own(const Tensor *parameter, const char *name) {
    return list_named(&parameter->own, offsetof(OwnNumber, name), name);
}
