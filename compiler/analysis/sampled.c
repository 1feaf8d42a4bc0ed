/* sampled: see sampled.h.
 *
 * Values are computed on demand, from the definition of each tensor, and kept in a direct-mapped
 * cache: an element that another one displaced is computed again. A limit on the work makes the
 * value of an expression that is too large unknown.
 */
#include "analysis/sampled.h"
#include "base/must.h"

#include <math.h>
#include <string.h>

enum { CACHE_BITS = 15, MAX_WORK = 1 << 20, MAX_DEPTH = 200, MAX_CHOICES = 16 };

typedef struct Cached {
    const Tensor *tensor;
    long element;
    double value;
} Cached;

struct Sampler {
    Arena *arena;
    Statement **made, **choice;
    const bool *leaf;
    Cached *cache; /* 1 << CACHE_BITS */
    uint64_t seed;
    bool whole;
    int depth;
    long work;
    const Statement *open[MAX_CHOICES]; /* choices that are not evaluated */
    int open_count;
};

Sampler *sampler_new(Arena *arena, Statement **made, Statement **choice, const bool *leaf) {
    Sampler *sampler = arena_alloc(arena, sizeof *sampler);
    *sampler = (Sampler){.arena = arena, .made = made, .choice = choice, .leaf = leaf};
    sampler->cache = arena_alloc(arena, sizeof *sampler->cache << CACHE_BITS);
    return sampler;
}

void sampler_draw(Sampler *sampler, uint64_t seed, bool whole) {
    memset(sampler->cache, 0, sizeof *sampler->cache << CACHE_BITS);
    sampler->seed = seed;
    sampler->whole = whole;
    sampler->work = 0;
    sampler->open_count = 0;
}

void bound_set(Bound *bound, const Index *index, long value) {
    int i = 0;
    while (i < bound->count && bound->index[i] != index) i++;
    if (i == MAX_BOUND) return;
    if (i == bound->count) bound->count++;
    bound->index[i] = index;
    bound->value[i] = value;
}

static long bound_value(const Bound *bound, const Index *index) {
    for (int i = 0; i < bound->count; i++)
        if (bound->index[i] == index) return bound->value[i];
    return 0;
}

/* ---- random leaves ---- */

static uint64_t sample_bits(const Sampler *sampler, uint64_t a, uint64_t b) {
    return hash_word(hash_word(hash_word(HASH_START, sampler->seed), a), b) * 0x9e3779b97f4a7c15u;
}

long sampled_index(const Sampler *sampler, const Index *index) {
    uint64_t bits = sample_bits(sampler, hash_text(HASH_START, index->name), 0) >> 32;
    return index->axis->size > 0 ? (long)(bits % (uint64_t)index->axis->size) : 0;
}

/* Reals are uniform in -2 .. 2, integers in their range; a choice marks an element or not. */
static double leaf_value(Sampler *sampler, const Tensor *tensor, long element) {
    uint64_t bits = sample_bits(sampler, (uint64_t)tensor->id, (uint64_t)element) >> 32;
    const Statement *choice = sampler->choice[tensor->id];
    if (tensor->type == TYPE_INT)
        return (double)(bits % (uint64_t)(tensor->vocabulary > 0 ? tensor->vocabulary : 1));
    if (!choice) return (double)bits * 0x1p-30 - 2;
    int i = 0;
    while (i < sampler->open_count && sampler->open[i] != choice) i++;
    if (i == sampler->open_count && i < MAX_CHOICES) sampler->open[sampler->open_count++] = choice;
    return sampler->whole || bits % 2;
}

/* ---- definitions ---- */

static bool may_iterate(const Axis *axis) {
    return axis->kind == AXIS_PLAIN && axis->size > 0;
}

static void bind_subscripts(Bound *bound, const Expr *target, const long *subs) {
    for (int i = 0; i < target->count; i++)
        if (target->args[i]->kind == EXPR_INDEX && !target->args[i]->index->of_repeat)
            bound_set(bound, target->args[i]->index, subs[i]);
}

/* True if this statement, in one iteration, stores every element that is read. */
static bool is_definition(const Statement *statement) {
    if (statement->kind != STATEMENT_LOOP || statement->accumulate || statement->once) return false;
    const Expr *target = statement->target;
    for (int i = 0; i < statement->loop_count; i++) {
        bool plain = false, reduced = !expr_uses_index(target, statement->loops[i]);
        for (int j = 0; j < target->count; j++)
            plain |= target->args[j]->kind == EXPR_INDEX &&
                     target->args[j]->index == statement->loops[i];
        if (!plain && !reduced) return false;
        if (reduced && !may_iterate(statement->loops[i]->axis)) return false;
    }
    return true;
}

static double reduced_value(Sampler *sampler, const Statement *statement, Bound *bound, int from) {
    MUST(statement->kind == STATEMENT_LOOP);
    while (from < statement->loop_count &&
           expr_uses_index(statement->target, statement->loops[from]))
        from++;
    if (from == statement->loop_count) return sampled_value(sampler, statement->value, bound);
    const Index *index = statement->loops[from];
    double result = 0;
    for (long i = 0; i < index->axis->size && sampler->work < MAX_WORK; i++) {
        bound_set(bound, index, i);
        double value = reduced_value(sampler, statement, bound, from + 1);
        if (!i)
            result = value;
        else if (statement->reduction == REDUCE_MAX)
            result = fmax(result, value);
        else if (statement->reduction == REDUCE_MIN)
            result = fmin(result, value);
        else
            result += value;
    }
    return result;
}

static Cached *cache_entry(Sampler *sampler, const Tensor *tensor, long element) {
    uint64_t hash = hash_word(hash_word(HASH_START, (uint64_t)tensor->id), (uint64_t)element);
    return &sampler->cache[hash * 0x9e3779b97f4a7c15u >> (64 - CACHE_BITS)];
}

static long element_of(const Tensor *tensor, const long *subs) {
    long element = 0;
    for (int i = 0; i < tensor->rank; i++) element = element * tensor->axes[i]->size + subs[i];
    return element;
}

/* Marks a whole row at once: all its elements go to the cache. */
static double choose_sampled(Sampler *sampler, const Statement *top, int dimension,
                             const long *subs) {
    const Expr *output = top->outputs.items[0];
    const Index *along = output->args[dimension]->index;
    long size = along->axis->size, at[MAX_RANK];
    double *values = arena_alloc(sampler->arena, (size_t)size * sizeof *values), own = 0;
    Bound bound = {0};
    bind_subscripts(&bound, output, subs);
    for (long i = 0; i < size; i++) {
        bound_set(&bound, along, i);
        values[i] = sampled_value(sampler, top->inputs.items[0], &bound);
        if (isnan(values[i])) return NAN;
    }
    memcpy(at, subs, sizeof at);
    for (long i = 0; i < size; i++) {
        long before = 0;
        for (long j = 0; j < size && before < top->top.k; j++)
            before += values[j] > values[i] || (j < i && values[j] == values[i]);
        at[dimension] = i;
        long element = element_of(output->tensor, at);
        double mark = before < top->top.k;
        *cache_entry(sampler, output->tensor, element) = (Cached){output->tensor, element, mark};
        if (i == subs[dimension]) own = mark;
    }
    sampler->work += size;
    return own;
}

static double computed_value(Sampler *sampler, const Tensor *tensor, const long *subs) {
    const Statement *made = sampler->made[tensor->id], *top = sampler->choice[tensor->id];
    int dimension = top ? top_dimension(top, top->outputs.items[0]) : -1;
    if (dimension >= 0 && may_iterate(tensor->axes[dimension]))
        return choose_sampled(sampler, top, dimension, subs);
    if (sampler->leaf[tensor->id] || !made || !is_definition(made) || sampler->depth > MAX_DEPTH)
        return leaf_value(sampler, tensor, element_of(tensor, subs));
    Bound bound = {0};
    bind_subscripts(&bound, made->target, subs);
    return reduced_value(sampler, made, &bound, 0);
}

static double value_of_sample(Sampler *sampler, const Expr *read, const Bound *at) {
    MUST(read->kind == EXPR_READ);
    const Tensor *tensor = read->tensor;
    long subs[MAX_RANK] = {0};
    for (int i = 0; i < read->count; i++) {
        double sub = sampled_value(sampler, read->args[i], at);
        if (!(sub >= 0 && sub < (double)tensor->axes[i]->size)) return isnan(sub) ? NAN : 0;
        subs[i] = (long)sub;
    }
    long element = element_of(tensor, subs);
    Cached *cached = cache_entry(sampler, tensor, element);
    if (cached->tensor == tensor && cached->element == element) return cached->value;
    double value = computed_value(sampler, tensor, subs);
    *cache_entry(sampler, tensor, element) = (Cached){tensor, element, value};
    return value;
}

double sampled_value(Sampler *sampler, const Expr *expr, const Bound *at) {
    double args[3] = {0}, value = NAN;
    if (++sampler->work >= MAX_WORK) return NAN;
    sampler->depth++;
    if (expr->kind == EXPR_NUMBER) value = expr->number;
    if (expr->kind == EXPR_INDEX) value = (double)bound_value(at, expr->index);
    if (expr->kind == EXPR_READ) value = value_of_sample(sampler, expr, at);
    if (expr->kind == EXPR_APPLY && !op_is_random(expr->op)) {
        for (int i = 0; i < expr->count; i++) args[i] = sampled_value(sampler, expr->args[i], at);
        value = op_value(expr->op, args[0], args[1], args[2]);
    }
    sampler->depth--;
    return value;
}

Bound bound_through(Sampler *sampler, const Statement *statement, const Expr *read,
                    const Bound *at) {
    MUST(statement->kind == STATEMENT_LOOP && read->kind == EXPR_READ);
    Bound bound = {0};
    long subs[MAX_RANK] = {0};
    for (int i = 0; i < read->count; i++) {
        double sub = sampled_value(sampler, read->args[i], at);
        subs[i] = isfinite(sub) ? (long)sub : 0;
    }
    bind_subscripts(&bound, statement->target, subs);
    return bound;
}

double sampler_share(const Sampler *sampler) {
    double share = 1;
    for (int i = 0; i < sampler->open_count; i++) {
        const Statement *top = sampler->open[i];
        const Expr *mask = top->outputs.items[0];
        int dimension = top_dimension(top, mask);
        if (dimension >= 0)
            share *= (double)top->top.k / (double)mask->tensor->axes[dimension]->size;
    }
    return share;
}
