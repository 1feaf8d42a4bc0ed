/* lower_loops: the loops of a kernel, in order. */
#include "lower/lower.h"

#include <math.h>

/* ---- sums ---- */

const Term *sum_start(Lowering *lower, Reduction reduction) {
    const double start = reduction == REDUCE_SUM   ? 0
                         : reduction == REDUCE_MAX ? -(double)INFINITY
                                                   : (double)INFINITY;
    return term_number(lower->arena, T_F32, start);
}

const Term *zeros(Lowering *lower) {
    return term(lower->arena, TERM_ZEROS);
}

/* The least finite number for online softmax, because the difference of infinities is undefined. */
static const Term *start_of(Lowering *lower, const Member *member) {
    if (member->is_online_max) return term(lower->arena, TERM_LOWEST);
    return sum_start(lower, member->statement->reduction);
}

static const Nest *column_nest(const Member *member) {
    return member->path[member->depth - 1];
}

static long column_size(const Member *member) {
    return member->block >= 0 ? member->block_size : column_nest(member)->size;
}

/* True if the local variable of a tensor can hold its sum. */
static bool is_direct(const Member *member, const Local *local) {
    return local && !member->column && !local->stored && local->first == member &&
           !member->statement->accumulate;
}

/* The column of a sum in a loop over all of them. */
static const Term *column_index(Lowering *lower) {
    return named(lower, T_INT, "j");
}

/* The element of a sum for the current column. */
static const Term *column_of(Lowering *lower, const Term *sum) {
    return term_element(lower->arena, sum, column_index(lower));
}

/* Declares the variables of a sum. */
static void declare_sum(Lowering *lower, const Member *member) {
    const Term *sum = member_terms(lower, member)->sum;
    const Term *start = start_of(lower, member);
    bool zeroed = member->statement->reduction == REDUCE_SUM;
    FormNode *let = member->column
                        ? lower_array(lower, sum, column_size(member), zeroed ? zeros(lower) : NULL)
                        : lower_let(lower, sum, start);
    let->reduces = member->statement->reduction;
    if (member->column && !zeroed) {
        lower_count(lower, column_index(lower), column_size(member), ON_SAME_LINE);
        lower_set(lower, column_of(lower, sum), start);
        lower_end(lower);
    }
}

/* Declares the variables of the sums of a loop, before it. */
void begin_sums(Lowering *lower, const Nest *nest) {
    LIST_EACH(Member, member, &lower->kernel->members) {
        if (!reduces_at(member, nest)) continue;
        Local *local = NULL;
        const Term *scalar = scalar_of(lower, member, &local);
        MemberTerms *terms = member_terms(lower, member);
        terms->sum_is_local = is_direct(member, local);
        terms->sum = terms->sum_is_local ? scalar : bind_real(lower, member->statement, "_sum");
        declare_sum(lower, member);
    }
}

/* A sum over several loops has a partial sum for each iteration of the outer ones, which keeps long
 * sums accurate. */
static bool sums_in_parts(const Member *member, const Nest *nest) {
    int innermost = member->depth - (member->column ? 2 : 1);
    return member->statement->reduction == REDUCE_SUM && innermost > member->kept &&
           member->path[innermost] == nest;
}

static void begin_parts(Lowering *lower, const Nest *nest) {
    LIST_EACH(Member, member, &lower->kernel->members) {
        if (!sums_in_parts(member, nest)) continue;
        const Term *part = bind_real(lower, member->statement, "_part");
        member_terms(lower, member)->part = part;
        FormNode *let = member->column ? lower_array(lower, part, column_size(member), zeros(lower))
                                       : lower_let(lower, part, sum_start(lower, REDUCE_SUM));
        let->is_part = true;
    }
}

static void end_parts(Lowering *lower, const Nest *nest) {
    LIST_EACH(Member, member, &lower->kernel->members) {
        if (!sums_in_parts(member, nest)) continue;
        const MemberTerms *terms = member_terms(lower, member);
        if (!member->column) {
            lower_join(lower, terms->sum, REDUCE_SUM, terms->part);
            continue;
        }
        lower_count(lower, column_index(lower), column_size(member), ON_SAME_LINE);
        lower_join(lower, column_of(lower, terms->sum), REDUCE_SUM, column_of(lower, terms->part));
        lower_end(lower);
    }
}

const Term *nest_size(Lowering *lower, const Nest *nest, long size) {
    const Axis *axis = nest->index->axis;
    return axis->size == size ? size_term(lower, axis) : whole(lower, size);
}

const Term *iterations_term(Lowering *lower, const Nest *nest, long iterations) {
    if (nest->index->axis->kind == AXIS_ELEMENTS) return named(lower, T_I64, "elements");
    if (!nest->bound) return nest_size(lower, nest, iterations);
    const Term *rows = integer_term(lower, nest->bound);
    long inner = iterations / nest->size;
    return inner > 1 ? term(lower->arena, TERM_MUL, rows, whole(lower, inner)) : rows;
}

static const Term *last_of_block(Lowering *lower, const Nest *block) {
    if (block->total % block->step == 0)
        return term(lower->arena, TERM_ADD, nest_terms(lower, block)->variable,
                    whole(lower, block->step));
    return nest_terms(lower, block)->end;
}

void bind_loop(Lowering *lower, Nest *nest) {
    nest_terms(lower, nest)->variable = bind_variable(lower, nest->index, nest->index->name);
    LIST_EACH(Member, member, &lower->kernel->members) {
        for (int i = 0; i < member->depth; i++)
            if (member->path[i] == nest)
                bind_index(lower, member->order[i], nest_terms(lower, nest)->variable);
    }
}

static FormNode *open_loop(Lowering *lower, Nest *nest) {
    bind_loop(lower, nest);
    const Term *from = whole(lower, 0), *to = nest_size(lower, nest, nest->size), *step = NULL;
    if (nest->block) {
        from = nest_terms(lower, nest->block)->variable;
        to = last_of_block(lower, nest->block);
    } else if (nest->step > 1) {
        to = nest_size(lower, nest, nest->total);
        step = whole(lower, nest->step);
    } else {
        to = iterations_term(lower, nest, nest->size);
    }
    return lower_for(lower, nest_terms(lower, nest)->variable, from, to, step);
}

void close_loop(Lowering *lower, int bindings) {
    lower_end(lower);
    lower->binding_count = bindings;
}

/* Stores the sums after the loop. */
void end_sums(Lowering *lower, const Nest *nest) {
    LIST_EACH(Member, member, &lower->kernel->members) {
        if (!reduces_at(member, nest)) continue;
        if (member_terms(lower, member)->sum_is_local) {
            for (int i = 0; i < lower->kernel->locals.count; i++)
                if (((Local *)lower->kernel->locals.items[i])->first == member)
                    lower->known[i] = true;
        } else if (!member->column) {
            lower_store(lower, member, member_terms(lower, member)->sum);
        } else {
            int bindings = lower->binding_count;
            Nest inner = *column_nest(member);
            inner.index = member->order[member->depth - 1];
            open_loop(lower, &inner);
            const Term *place = nest_terms(lower, &inner)->variable;
            if (inner.block)
                place =
                    term(lower->arena, TERM_SUB, place, nest_terms(lower, inner.block)->variable);
            lower_store(lower, member,
                        term_element(lower->arena, member_terms(lower, member)->sum, place));
            close_loop(lower, bindings);
        }
    }
}

/* ---- loops ---- */

void lower_rows(Lowering *lower, const Nest *nest) {
    for (int i = 0; i < lower->kernel->locals.count; i++) {
        const Local *local = lower->kernel->locals.items[i];
        if (local->kind != LOCAL_ROW || local->scope != nest) continue;
        lower_array(lower, lower->locals[i], local->size, NULL)->head = true;
        lower->known[i] = true;
    }
}

void lower_body(Lowering *lower, Nest *nest, int level) {
    if (nest->step > 1 && nest->total % nest->step != 0) {
        nest_terms(lower, nest)->end =
            term_variable_of(lower->arena, nest_terms(lower, nest)->variable, "_to");
        const Term *end = term(lower->arena, TERM_ADD, nest_terms(lower, nest)->variable,
                               whole(lower, nest->step));
        lower_head(lower, nest_terms(lower, nest)->end,
                   term(lower->arena, TERM_LEAST, end, nest_size(lower, nest, nest->total)));
    }
    lower_rows(lower, nest);
    LIST_EACH(Nest, child, &nest->children) {
        if (child->member)
            lower_member(lower, child->member);
        else
            lower_loop(lower, child, level + 1);
    }
}

/* The member that iterates over the rows of a nest in the order of the lists of their targets, or
 * NULL. */
static const Member *listed_member(const Lowering *lower, const Nest *nest) {
    LIST_EACH(const Member, member, &lower->kernel->members)
        if (member->listed && member->path[0] == nest) return member;
    return NULL;
}

/* Target by target, over all rows that are added to it:
 *
 *     for (place)
 *         for (n = start[place]; n < start[place + 1]; n++) { r = list[n]; y[at[r], .] += ... } */
static void lower_places_listed(Lowering *lower, Nest *nest, const Relation *relation, int level) {
    Arena *arena = lower->arena;
    const int bindings = lower->binding_count;
    const long places = list_count(relation);
    const Term *start = array_term(lower, relation->start),
               *list = array_term(lower, relation->list),
               *place = bind_variable(lower, NULL, "place"), *n = bind_variable(lower, NULL, "n");
    lower->used[relation->start->id] = lower->used[relation->list->id] = true;
    FormNode *loop = lower_for(lower, place, whole(lower, 0), whole(lower, places), NULL);
    loop->iterations = places;
    loop->independent = true;
    lower_for(lower, n, term_element(arena, start, place),
              term_element(arena, start, term(arena, TERM_ADD, place, whole(lower, 1))), NULL);
    bind_loop(lower, nest);
    lower_head(lower, nest_terms(lower, nest)->variable, term_element(arena, list, n));
    lower_body(lower, nest, level + 1);
    lower_end(lower);
    close_loop(lower, bindings);
}

void lower_loop(Lowering *lower, Nest *nest, int level) {
    const Member *listed = listed_member(lower, nest);
    if (listed) {
        lower_places_listed(lower, nest, listed->listed, level);
        return;
    }
    begin_sums(lower, nest);
    begin_parts(lower, nest);
    int bindings = lower->binding_count;
    FormNode *loop = open_loop(lower, nest);
    loop->iterations = nest->size;
    loop->independent = nest->map.independent;
    lower_body(lower, nest, level);
    close_loop(lower, bindings);
    end_parts(lower, nest);
    end_sums(lower, nest);
}

/* ---- a whole kernel ---- */

void lower_nests(Lowering *lower, Nest *root) {
    lower_body(lower, root, -1);
}
