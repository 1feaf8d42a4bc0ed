/* lower_columns: sums of a few long columns on a GPU, in two launches.
 *
 *     g[d] += sum[b,s] x[b,s,d]
 *
 * The blocks of the first launch store the sum of each slice of the columns; the second launch adds
 * these in order.
 */
#include "lower/lower.h"

/* The columns of a nest and the summed loops. */
typedef struct Columns {
    Nest *loops[MAX_LOOPS + 1];
    int length;
    Nest *sum; /* the first summed loop */
    long iterations, terms, slices;
} Columns;

static Columns bind_columns(Lowering *lower, Nest *nest) {
    Columns columns = {.length = nest->map.joined, .iterations = joined_iterations(nest)};
    bind_joined(lower, nest, columns.loops);
    columns.sum = last_joined(nest)->children.items[0];
    columns.terms = joined_iterations(columns.sum);
    columns.slices = columns.sum->map.parts;
    return columns;
}

/* The partial sum of a slice, stored by the first launch and read by the second. */
static const Term *slice_term(Lowering *lower, const Columns *columns, int number) {
    Arena *arena = lower->arena;
    const Term *slice = term(arena, TERM_ADD, whole(lower, columns->slices * number),
                             named(lower, T_I64, "moec_slice"));
    const Term *first = term(arena, TERM_MUL, slice, whole(lower, columns->iterations));
    return scratch_term(lower, term(arena, TERM_ADD, first, named(lower, T_I64, "iteration")));
}

/* Sets the slice of a task, and the column of a thread in it. */
static void begin_slice(Lowering *lower, const Columns *columns, long blocks, long each) {
    Arena *arena = lower->arena;
    const Term *task = named(lower, T_I64, "moec_task"), *first = named(lower, T_I64, "moec_from"),
               *slice = named(lower, T_I64, "moec_slice"),
               *from = named(lower, T_I64, "moec_slice_from");
    lower_shared(lower, task, whole(lower, blocks * columns->slices), BY_BLOCKS);
    const Term *group = term(arena, TERM_MOD, task, whole(lower, blocks));
    lower_head(lower, first, term(arena, TERM_MUL, group, whole(lower, BLOCK_COLUMNS)));
    lower_head(lower, slice, term(arena, TERM_DIV, task, whole(lower, blocks)))->joined = true;
    lower_head(lower, named(lower, T_I64, "iteration"),
               term(arena, TERM_COLUMN, first, whole(lower, columns->iterations)));
    lower_head(lower, from, term(arena, TERM_MUL, slice, whole(lower, each)));
    lower_head(lower, named(lower, T_I64, "moec_slice_to"),
               term(arena, TERM_LEAST_END, term(arena, TERM_ADD, from, whole(lower, each)),
                    columns->sum->bound ? iterations_term(lower, columns->sum, columns->terms)
                                        : whole(lower, columns->terms)));
}

void lower_parts_of_columns(Lowering *lower, Nest *nest) {
    int bindings = lower->binding_count, number = 0;
    const Columns columns = bind_columns(lower, nest);
    long blocks = ceil_div(columns.iterations, BLOCK_COLUMNS);
    begin_slice(lower, &columns, blocks, ceil_div(columns.terms, columns.slices));
    lower_places(lower, columns.loops, columns.length, named(lower, T_I64, "iteration"));
    lower_shared_loop(lower, columns.sum, columns.length);
    LIST_EACH(const Member, member, &lower->kernel->members) {
        if (!reduces_at(member, columns.sum)) continue;
        lower_if(lower,
                 column_owner(lower->arena, named(lower, T_I64, "moec_from"),
                              named(lower, T_I64, "iteration")),
                 ON_SAME_LINE);
        lower_set(lower, slice_term(lower, &columns, number++), member_terms(lower, member)->sum);
        lower_end(lower);
    }
    close_loop(lower, bindings);
    const size_t floats =
        (size_t)(columns.slices * columns.iterations) * (size_t)lower->kernel->members.count;
    if (4 * floats > lower->scratch_bytes) lower->scratch_bytes = 4 * floats;
}

void lower_sums_of_columns(Lowering *lower, Nest *nest) {
    Arena *arena = lower->arena;
    int bindings = lower->binding_count, number = 0;
    const Columns columns = bind_columns(lower, nest);
    lower_shared(lower, named(lower, T_I64, "iteration"), whole(lower, columns.iterations), BY_ALL);
    lower_places(lower, columns.loops, columns.length, named(lower, T_I64, "iteration"));
    begin_sums(lower, columns.sum);
    lower_count(lower, named(lower, T_I64, "moec_slice"), columns.slices, IN_BRACES);
    LIST_EACH(const Member, member, &lower->kernel->members)
        if (reduces_at(member, columns.sum))
            lower_set(lower, member_terms(lower, member)->sum,
                      term(arena, reduction_op(TERM_JOIN_SUM, member),
                           member_terms(lower, member)->sum,
                           slice_term(lower, &columns, number++)));
    lower_end(lower);
    end_sums(lower, columns.sum);
    close_loop(lower, bindings);
}
