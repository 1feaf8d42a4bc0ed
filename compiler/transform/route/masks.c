/* masks: how many entries of a mask are not zero: at most, and as expected.
 *
 *     chosen[s,n] = top(p[s,n], k)               k of |n| along n
 *     few[s,a] = chosen[s,a + 2]                 at most k along a, k / |n| as expected
 *     on[s,n] = chosen[s,n] * (p[s,n] > 0.1)     at most k along n, half of k / |n| as expected
 *     at[s,n] = id[s] == n                       at most 1 along n
 *
 * Without a stated share, a comparison of data is expected to hold for MASK_SHARE of the entries.
 */
#include "transform/route/route.h"

#include "base/must.h"

#include <math.h>

/* A subscript that is different for all values of its indices: i, i + 3, i % 8 with at most 8
 * values, i * 4 + j with 4 values of j. Adds its indices. */
static bool is_one_to_one(const Expr *sub, Index **along, int *count) {
    if (sub->kind == EXPR_INDEX) {
        MUST(*count < MAX_LOOPS);
        along[(*count)++] = sub->index;
        return true;
    }
    if (sub->kind != EXPR_APPLY || sub->count != 2) return false;
    const Expr *a = sub->args[0], *b = sub->args[1];
    if (b->kind == EXPR_NUMBER && (sub->op == OP_ADD || sub->op == OP_SUB))
        return is_one_to_one(a, along, count);
    if (b->kind == EXPR_NUMBER && sub->op == OP_MOD)
        return a->kind == EXPR_INDEX && (double)a->index->axis->size <= b->number &&
               is_one_to_one(a, along, count);
    bool digit = sub->op == OP_ADD && b->kind == EXPR_INDEX && a->kind == EXPR_APPLY &&
                 a->op == OP_MUL && expr_is_number(a->args[1], (double)b->index->axis->size);
    return digit && is_one_to_one(a->args[0], along, count) && is_one_to_one(b, along, count);
}

static double entries_along(const MaskCount *count) {
    double entries = 1;
    for (int i = 0; i < count->along_count; i++) entries *= (double)count->along[i]->axis->size;
    return entries;
}

static double share_along(const MaskCount *count) {
    const double entries = entries_along(count);
    return count->along_count && (double)count->most < entries ? (double)count->most / entries : 1;
}

/* The smaller of two limits. */
static void take_limit(MaskCount *count, const MaskCount *other) {
    if (share_along(other) >= share_along(count)) return;
    count->along_count = other->along_count;
    count->most = other->most;
    for (int i = 0; i < other->along_count; i++) count->along[i] = other->along[i];
}

static MaskCount count_in(const Routing *routing, Expr *expr, int depth);

/* A condition on the number of an entry may hold for all or no entries of a part: real[s,n + 0]
 * with real[s,z] = chosen[s,z] * (z < 8). */
static void set_share_of_part(const Routing *routing, const Expr *read, int depth,
                              MaskCount *count) {
    bool part_of_axis = false;
    for (int i = 0; i < read->count; i++) part_of_axis |= read->args[i]->kind == EXPR_APPLY;
    Expr *value = part_of_axis && read->tensor->share <= 0 ? value_of_read(routing, read) : NULL;
    if (!value) return;
    const MaskCount part = count_in(routing, value, depth + 1);
    count->share = part.share;
    count->assumed = part.assumed;
}

/* The limit of a tensor holds for a part of it: the subscripts of the limited dimensions must be
 * different for different values of their indices, and no other subscript may use these. */
static MaskCount count_in_read(const Routing *routing, const Expr *read, int depth) {
    MaskCount made = {.share = 1}, own;
    const Statement *maker = mask_maker(routing, read->tensor);
    if (!maker || depth > MAX_MASK_DEPTH) return made;
    own = mask_count(routing, maker, depth + 1);
    set_share_of_part(routing, read, depth, &own);
    const MaskCount unlimited = {.share = own.share, .truth = own.truth, .assumed = own.assumed};
    made = unlimited;
    const Expr *target = mask_target(maker);
    for (int i = 0; i < own.along_count; i++)
        for (int j = 0; j < target->count; j++)
            if (target->args[j]->kind == EXPR_INDEX && target->args[j]->index == own.along[i] &&
                !is_one_to_one(read->args[j], made.along, &made.along_count))
                return unlimited;
    for (int j = 0; j < target->count; j++) {
        bool limited = false;
        for (int i = 0; i < own.along_count; i++)
            limited |=
                target->args[j]->kind == EXPR_INDEX && target->args[j]->index == own.along[i];
        for (int i = 0; i < made.along_count && !limited; i++)
            if (expr_uses_index(read->args[j], made.along[i])) return unlimited;
    }
    made.most = own.most;
    made.least = entries_along(&made) == entries_along(&own) ? own.least : 0;
    return made;
}

/* i == e with e independent of i: one entry along i. */
static bool count_equal(const Expr *a, const Expr *b, MaskCount *made) {
    if (a->kind != EXPR_INDEX || a->index->of_repeat || expr_uses_index(b, a->index)) return false;
    made->along[0] = a->index;
    made->along_count = 1;
    made->most = 1;
    made->assumed = false;
    made->share = 1 / (double)a->index->axis->size;
    return true;
}

typedef struct OneIndex {
    Index *index;
    bool others;
} OneIndex;

static void find_one_index(Expr *expr, void *data) {
    OneIndex *one = data;
    if (expr->kind == EXPR_READ) one->others = true;
    if (expr->kind != EXPR_INDEX) return;
    if (one->index && one->index != expr->index) one->others = true;
    one->index = expr->index;
}

double value_for(const Expr *expr, Index *const *indices, const double *values, int count) {
    double args[3] = {0, 0, 0};
    if (expr->kind == EXPR_NUMBER) return expr->number;
    for (int i = 0; i < count; i++)
        if (expr->kind == EXPR_INDEX && expr->index == indices[i]) return values[i];
    MUST(expr->kind == EXPR_APPLY);
    for (int i = 0; i < expr->count; i++)
        args[i] = value_for(expr->args[i], indices, values, count);
    return op_value(expr->op, args[0], args[1], args[2]);
}

/* A condition on one position: its true values are known. */
static bool count_positions(Expr *expr, MaskCount *made) {
    OneIndex one = {NULL, false};
    expr_walk(expr, find_one_index, &one);
    if (one.others || !one.index || one.index->of_repeat) return false;
    long size = one.index->axis->size;
    for (long i = 0; i < size; i++)
        made->most += value_for(expr, &one.index, &(double){(double)i}, 1) != 0;
    made->along[0] = one.index;
    made->along_count = 1;
    made->assumed = false;
    made->share = (double)made->most / (double)size;
    return true;
}

/* The distance of two reads of a tensor that differ in one index: number[s] and number[s - 2]; or
 * 0. */
static double shift_of_reads(const Expr *a, const Expr *b, int *dimension) {
    double shift = 0;
    if (a->kind != EXPR_READ || b->kind != EXPR_READ || a->tensor != b->tensor) return 0;
    for (int i = 0; i < a->count; i++) {
        const Expr *first = a->args[i], *second = b->args[i];
        if (expr_equal(first, second)) continue;
        if (shift || second->kind != EXPR_APPLY || second->op != OP_SUB ||
            second->args[1]->kind != EXPR_NUMBER || !expr_equal(first, second->args[0]))
            return 0;
        shift = second->args[1]->number;
        *dimension = i;
    }
    return shift;
}

/* number[s] == number[s - 1] with number[s] = sum[t] (c[t] and t <= s): the running count of c is
 * the same if c does not hold. */
static bool count_same(const Routing *routing, const Expr *a, const Expr *b, int depth,
                       MaskCount *made) {
    int dimension = 0;
    const double shift = shift_of_reads(a, b, &dimension);
    const Statement *maker = shift >= 1 ? mask_maker(routing, a->tensor) : NULL;
    if (!maker || depth > MAX_MASK_DEPTH || maker->kind != STATEMENT_LOOP ||
        maker->reduction != REDUCE_SUM || maker->target->args[dimension]->kind != EXPR_INDEX ||
        maker->value->kind != EXPR_APPLY || maker->value->op != OP_AND)
        return false;
    const Index *position = maker->target->args[dimension]->index;
    Expr *const *args = maker->value->args;
    const bool first = expr_uses_index(args[0], position);
    const Expr *order = args[first ? 0 : 1];
    if (expr_uses_index(args[first ? 1 : 0], position) || order->kind != EXPR_APPLY ||
        order->op != OP_LE || order->args[1]->kind != EXPR_INDEX ||
        order->args[1]->index != position)
        return false;
    const MaskCount counted = count_in(routing, args[first ? 1 : 0], depth + 1);
    made->share = pow(1 - counted.share, shift);
    return true;
}

/* tokens[s] == 10: one of the numbers that the tensor can have. */
static void count_number(const Expr *a, const Expr *b, MaskCount *made) {
    if (a->kind == EXPR_READ && a->tensor->type == TYPE_INT && a->tensor->vocabulary > 1 &&
        b->kind == EXPR_NUMBER)
        made->share = 1 / (double)a->tensor->vocabulary;
}

/* row < number of rows: the expected number counts these rows. */
static bool is_existing_row(const Expr *expr) {
    return expr->op == OP_LT && expr->args[0]->kind == EXPR_INDEX &&
           expr->args[0]->index->axis->kind == AXIS_ROWS;
}

/* ---- masks of masks ---- */

/* The element that a choice of the largest values ranks, if it never changes; or NULL. */
static Expr *ranked(const Routing *routing, const Statement *top, const Expr *mark) {
    const Expr *output = mask_target(top);
    Expr *operand = top->inputs.items[0];
    Index *from[MAX_RANK];
    if (routing->def_use->writes[operand->tensor->id].count > 1) return NULL;
    for (int i = 0; i < output->count; i++) {
        if (output->args[i]->kind != EXPR_INDEX) return NULL;
        from[i] = output->args[i]->index;
    }
    return expr_substitute(routing->program, operand, from, mark->args, mark->count);
}

/* True if `few` chooses a part of the entries that `many` chooses: the first ones. */
static bool is_prefix_choice(const Routing *routing, const Expr *few, const Expr *many) {
    const Statement *first = mask_maker(routing, few->tensor),
                    *all = mask_maker(routing, many->tensor);
    if (!first || !all || !statement_selects(first) || !statement_selects(all)) return false;
    const Expr *a = ranked(routing, first, few), *b = ranked(routing, all, many);
    return a && b && first->top.k <= all->top.k && first->top.dimension == all->top.dimension &&
           expr_equal(a, b);
}

/* True if the mask `many` is not zero wherever `few` is not zero. */
static bool is_submask(const Routing *routing, const Expr *few, const Expr *many, int depth) {
    if (expr_equal(few, many)) return true;
    if (many->kind == EXPR_NUMBER) return many->number != 0;
    if (depth > MAX_MASK_DEPTH) return false;
    if (few->kind == EXPR_APPLY) {
        const bool product = few->op == OP_MUL || few->op == OP_AND,
                   guarded = few->op == OP_WHERE && expr_is_number(few->args[2], 0);
        return (product || guarded) && (is_submask(routing, few->args[0], many, depth + 1) ||
                                        is_submask(routing, few->args[1], many, depth + 1));
    }
    if (few->kind != EXPR_READ) return false;
    if (many->kind == EXPR_READ && is_prefix_choice(routing, few, many)) return true;
    const Expr *value = value_of_read(routing, few);
    return value && is_submask(routing, value, many, depth + 1);
}

static bool same_limit(const MaskCount *a, const MaskCount *b) {
    bool same = a->along_count && a->along_count == b->along_count;
    for (int i = 0; same && i < a->along_count; i++) same = a->along[i] == b->along[i];
    return same;
}

/* a - b or a != b: entries of one mask that the other lacks. */
static MaskCount count_difference(const Routing *routing, const Expr *expr, const MaskCount *a,
                                  const MaskCount *b) {
    MaskCount made = *a;
    made.assumed |= b->assumed;
    made.least = 0;
    if (is_submask(routing, expr->args[1], expr->args[0], 0)) {
        made.share = a->share - b->share;
        if (!same_limit(a, b)) return made;
        made.most -= b->least;
        made.least = a->least > b->most ? a->least - b->most : 0;
        return made;
    }
    made.truth = expr->op == OP_NE;
    made.share = a->share + b->share - 2 * a->share * b->share;
    made.most += b->most;
    if (!same_limit(a, b)) made.along_count = 0;
    return made;
}

/* where(c, 0, e) */
static MaskCount count_outside(const Routing *routing, Expr *expr, const MaskCount *condition,
                               int depth) {
    MaskCount made = count_in(routing, expr->args[2], depth);
    made.share *= 1 - condition->share;
    made.assumed |= condition->assumed;
    made.least = 0;
    return made;
}

/* The powers of values that are not far below zero: those that a condition does not leave out. */
static MaskCount count_powers(const Routing *routing, Expr *expr, const MaskCount *made,
                              int depth) {
    const Expr *limit = expr->args[1];
    Expr *condition = limit->kind == EXPR_NUMBER && limit->number <= LEAST_POWER
                          ? left_out(routing, expr->args[0], 0)
                          : NULL;
    if (!condition) return *made;
    const MaskCount count = count_in(routing, condition, depth);
    return (MaskCount){.share = count.share, .truth = true, .assumed = count.assumed};
}

/* An entry of either mask: of one by a condition, or of both. The limits hold for both. */
static MaskCount count_either(const MaskCount *a, const MaskCount *b, bool both) {
    MaskCount made = {.truth = a->truth && b->truth, .assumed = a->assumed || b->assumed};
    if (!same_limit(a, b)) return made;
    made.along_count = a->along_count;
    for (int i = 0; i < a->along_count; i++) made.along[i] = a->along[i];
    made.most = both ? a->most + b->most : a->most > b->most ? a->most : b->most;
    made.least = both ? (a->least > b->least ? a->least : b->least)
                      : (a->least < b->least ? a->least : b->least);
    return made;
}

/* where(c, a, b) */
static MaskCount count_choice(const Routing *routing, Expr *expr, const MaskCount *condition,
                              const MaskCount *a, int depth) {
    const MaskCount b = count_in(routing, expr->args[2], depth);
    MaskCount made = count_either(a, &b, false);
    made.share = condition->share * a->share + (1 - condition->share) * b.share;
    made.assumed |= condition->assumed;
    return made;
}

static MaskCount count_equality(const Routing *routing, const Expr *a, const Expr *b,
                                const MaskCount *compared, int depth) {
    MaskCount made = *compared;
    if (!count_equal(a, b, &made) && !count_equal(b, a, &made) &&
        !count_same(routing, a, b, depth, &made) && !count_same(routing, b, a, depth, &made))
        count_number(a, b, &made);
    return made;
}

/* True if the count of the result depends on those of the arguments. */
static bool counts_arguments(OpCode op) {
    static const bool counts[OP_COUNT] = {
        [OP_MUL] = true, [OP_AND] = true, [OP_WHERE] = true, [OP_NE] = true,  [OP_GT] = true,
        [OP_OR] = true,  [OP_SUB] = true, [OP_NOT] = true,   [OP_STOP] = true};
    return counts[op];
}

static MaskCount count_in_apply(const Routing *routing, Expr *expr, int depth) {
    if (is_existing_row(expr)) return (MaskCount){.share = 1, .truth = true};
    bool truth = op_table[expr->op].kind == OP_KIND_TRUTH;
    MaskCount made = {.share = truth ? MASK_SHARE : 1, .truth = truth, .assumed = truth};
    if (truth && count_positions(expr, &made)) return made;
    MaskCount a = {.share = 1}, b = {.share = 1};
    if (counts_arguments(expr->op)) a = count_in(routing, expr->args[0], depth);
    if (counts_arguments(expr->op) && expr->count > 1) b = count_in(routing, expr->args[1], depth);
    switch (expr->op) {
    case OP_MUL:
    case OP_AND:
        take_limit(&a, &b);
        a.least = 0;
        a.share *= b.share;
        a.assumed |= b.assumed;
        a.truth = made.truth || (a.truth && b.truth);
        return a;
    case OP_WHERE:
        if (expr_is_number(expr->args[1], 0)) return count_outside(routing, expr, &a, depth);
        if (!expr_is_number(expr->args[2], 0)) return count_choice(routing, expr, &a, &b, depth);
        take_limit(&a, &b);
        a.least = 0;
        a.share *= b.share;
        a.assumed |= b.assumed;
        a.truth = b.truth;
        return a;
    case OP_EQ:
        return count_equality(routing, expr->args[0], expr->args[1], &made, depth);
    case OP_NE:
        if (expr_is_number(expr->args[1], 0)) {
            a.truth = true;
            return a;
        }
        return a.truth && b.truth ? count_difference(routing, expr, &a, &b) : made;
    case OP_GT:
        if (a.truth && expr_is_number(expr->args[1], 0)) return a;
        return count_powers(routing, expr, &made, depth);
    case OP_OR:
        made = count_either(&a, &b, true);
        made.truth = true;
        made.share = a.share + b.share - a.share * b.share;
        return made;
    case OP_SUB:
        if (!a.truth || !b.truth) return made;
        return count_difference(routing, expr, &a, &b);
    case OP_NOT:
        made.share = 1 - a.share;
        made.assumed = a.assumed;
        return made;
    case OP_MAX:
        made.assumed = expr_is_number(expr->args[1], 0);
        if (made.assumed) made.share = MASK_SHARE;
        return made;
    case OP_STOP:
        return a;
    default:
        return made;
    }
}

/* A tensor that is no mask has entries that are not zero: its share is 1 as a factor. */
static MaskCount count_in(const Routing *routing, Expr *expr, int depth) {
    if (expr->kind == EXPR_NUMBER)
        return (MaskCount){.share = expr->number != 0,
                           .truth = expr->number == 0 || expr->number == 1};
    if (expr->kind == EXPR_INDEX) return (MaskCount){.share = 1};
    if (expr->kind == EXPR_READ) return count_in_read(routing, expr, depth);
    return count_in_apply(routing, expr, depth);
}

static MaskCount count_chosen(const Statement *top) {
    const Expr *output = top->outputs.items[0];
    int dimension = top_dimension(top, output);
    MaskCount made = {.share = 1, .truth = true};
    MUST(dimension >= 0);
    made.along[0] = output->args[dimension]->index;
    made.along_count = 1;
    made.most = made.least = top->top.k;
    made.share = share_along(&made);
    return made;
}

/* The entries of the mask that the statement makes. */
MaskCount mask_count(const Routing *routing, const Statement *maker, int depth) {
    if (maker->kind == STATEMENT_CALL) return count_chosen(maker);
    MaskCount made = count_in(routing, maker->value, depth);
    if (maker->reduction != REDUCE_NONE)
        made = (MaskCount){.share = 1, .truth = made.truth && maker->reduction != REDUCE_SUM};
    if (maker->target->tensor->share > 0) {
        made.share = maker->target->tensor->share;
        made.assumed = false;
    }
    return made;
}

/* False if the value cannot be 0 or 1 only. Unlike the count of a product, this stops at the first
 * factor that has other values. */
static bool may_be_truth(const Routing *routing, const Expr *expr, int depth) {
    if (expr->kind == EXPR_NUMBER) return expr->number == 0 || expr->number == 1;
    if (expr->kind == EXPR_READ) {
        const Statement *maker = mask_maker(routing, expr->tensor);
        return maker && depth <= MAX_MASK_DEPTH &&
               (maker->kind == STATEMENT_CALL || may_be_truth(routing, maker->value, depth + 1));
    }
    if (expr->kind != EXPR_APPLY) return false;
    Expr *const *args = expr->args;
    switch (expr->op) {
    case OP_MUL:
    case OP_SUB:
        return may_be_truth(routing, args[0], depth) && may_be_truth(routing, args[1], depth);
    case OP_WHERE:
        return may_be_truth(routing, args[expr_is_number(args[1], 0) ? 2 : 1], depth);
    case OP_STOP:
        return may_be_truth(routing, args[0], depth);
    default:
        return op_table[expr->op].kind == OP_KIND_TRUTH;
    }
}

bool is_zero_or_one(const Routing *routing, Expr *expr) {
    return may_be_truth(routing, expr, 0) && count_in(routing, expr, 0).truth;
}

double condition_share(const Routing *routing, Expr *condition) {
    const MaskCount count = count_in(routing, condition, 0);
    return count.assumed || count.share >= 1 ? 0 : count.share;
}

/* The only equation or top that sets the tensor, if it sets all of it; or NULL. */
Statement *mask_maker(const Routing *routing, const Tensor *tensor) {
    const DefUse *def_use = routing->def_use;
    if (tensor->id >= def_use->tensor_count || def_use->writes[tensor->id].count != 1) return NULL;
    const TensorAccess *write = def_use->writes[tensor->id].items[0];
    Statement *statement = def_use->points[write->position].statement;
    if (statement->kind == STATEMENT_CALL)
        return statement_selects(statement) && mask_target(statement)->tensor == tensor ? statement
                                                                                        : NULL;
    return def_use_is_plain(def_use, tensor) ? statement : NULL;
}

Expr *mask_target(const Statement *maker) {
    return maker->kind == STATEMENT_CALL ? maker->outputs.items[0] : maker->target;
}

Expr *value_of_read(const Routing *routing, const Expr *read) {
    const Statement *maker = mask_maker(routing, read->tensor);
    if (!maker || maker->kind != STATEMENT_LOOP || maker->reduction != REDUCE_NONE) return NULL;
    Index *from[MAX_RANK];
    for (int i = 0; i < read->count; i++) from[i] = maker->target->args[i]->index;
    return expr_substitute(routing->program, maker->value, from, read->args, read->count);
}

static void note_random_value(Expr *expr, void *data) {
    if (expr->kind == EXPR_APPLY && op_is_random(expr->op)) *(bool *)data = true;
}

bool has_random_value(Expr *expr) {
    bool random = false;
    expr_walk(expr, note_random_value, &random);
    return random;
}

/* ---- the current mask ---- */

/* The number of rows: as many as the mask can have, and as expected. A loop over a single row would
 * always run. */
static void set_rows(Routing *routing, const MaskCount *count) {
    const Expr *target = mask_target(routing->choice);
    double most = 1, expected = count->share > 0 && count->share < 1 ? count->share : 1;
    for (int i = 0; i < routing->rank; i++) {
        const Axis *axis = routing->mask->axes[routing->mask_dims[i]];
        const Index *index = target->args[routing->mask_dims[i]]->index;
        bool limited = false;
        for (int j = 0; j < count->along_count; j++) limited |= count->along[j] == index;
        most *= limited ? 1 : (double)axis->size;
        expected *= axis_expected(axis);
        routing->counted |= axis->expected > 0;
    }
    double limit = 1;
    for (int j = 0; j < count->along_count; j++) limit *= (double)count->along[j]->axis->size;
    if (count->along_count) most *= (double)count->most < limit ? (double)count->most : limit;
    if (routing->counted && most < 2) most = 2;
    Axis *rows = routing->rows = arena_alloc(routing->program->arena, sizeof *rows);
    *rows = (Axis){.name = arena_format(routing->program->arena, "%s_rows", routing->mask->name),
                   .size = (long)most,
                   .kind = AXIS_ROWS,
                   .expected = routing->counted ? expected : 0,
                   .span = routing->choice->span};
}

void start_mask(Routing *routing, Statement *choice, Statement *home) {
    Program *program = routing->program;
    const Expr *output = mask_target(choice);
    *routing = (Routing){.program = program,
                         .done = routing->done,
                         .dense = routing->dense,
                         .sites = routing->sites,
                         .row_tensors = routing->row_tensors,
                         .choice = choice,
                         .home = home,
                         .mask = output->tensor,
                         .counted = choice->kind == STATEMENT_LOOP,
                         .first_site = routing->sites.count};
    for (int i = 0; i < output->count; i++) {
        const Expr *sub = output->args[i];
        if (sub->kind != EXPR_INDEX || sub->index->of_repeat)
            routing->stacked = true;
        else
            routing->mask_dims[routing->rank++] = i;
    }
    routing->def_use = def_use_new(program);
    MaskCount count = mask_count(routing, choice, 0);
    if (count.share >= 1 && choice->kind == STATEMENT_LOOP) {
        count.assumed = true; /* nothing is known about its entries */
        count.share = MASK_SHARE;
    }
    routing->truth = count.truth;
    routing->assumed = count.assumed;
    set_rows(routing, &count);
}

bool masks_positions(const Routing *routing) {
    for (int i = 0; i < routing->rank; i++) {
        const AxisKind kind = routing->mask->axes[routing->mask_dims[i]]->kind;
        if (kind != AXIS_BATCH && kind != AXIS_SEQUENCE) return false;
    }
    return true;
}
