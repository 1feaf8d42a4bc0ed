/* lower_device: loops whose iterations the threads of a GPU share: see map.h.
 *
 * Each thread sums its own iterations; the sums of the threads are added in a fixed order.
 */
#include "lower/lower.h"
#include "base/must.h"

/* ---- loops inside a block ---- */

/* Joins the sums of the threads into one that all of them hold. */
static void join_sums(Lowering *lower, const Nest *nest) {
    const TermOp join = nest->map.by == BY_COLUMN ? TERM_COLUMN_SUM : TERM_BLOCK_SUM;
    LIST_EACH(Member, member, &lower->kernel->members) {
        if (!reduces_at(member, nest)) continue;
        const Term *sum = member_terms(lower, member)->sum, *own = sum;
        if (member->is_online_max) keep_before(lower, member);
        if (member->online_max)
            own = faded(lower->arena, own, member_terms(lower, member->online_max));
        lower_set(lower, sum, term(lower->arena, reduction_op(join, member), own));
    }
}

void lower_places(Lowering *lower, Nest *const *loops, int length, const Term *iteration) {
    Arena *arena = lower->arena;
    long inner = 1;
    for (int i = 0; i < length; i++) inner *= loops[i]->size;
    bool small = inner < 1L << 31;
    for (int i = 0; i < length; i++) {
        inner /= loops[i]->size;
        const Term *place = iteration;
        if (small && length > 1) place = term_cast(arena, T_U32, place);
        if (inner > 1)
            place = term(arena, TERM_DIV, place,
                         i == length - 2 ? nest_size(lower, loops[i + 1], inner)
                         : small         ? term_number(arena, T_U32, (double)inner)
                                         : whole(lower, inner));
        if (i > 0) place = term(arena, TERM_MOD, place, nest_size(lower, loops[i], loops[i]->size));
        lower_place(lower, nest_terms(lower, loops[i])->variable, place);
    }
}

int bind_joined(Lowering *lower, Nest *nest, Nest **loops) {
    int bindings = lower->binding_count;
    for (int i = 0; i < nest->map.joined; i++) {
        loops[i] = i ? loops[i - 1]->children.items[0] : nest;
        bind_loop(lower, loops[i]);
    }
    return bindings;
}

/* Skips an iteration that a bounded loop inside the first one does not run. */
static void skip_beyond(Lowering *lower, Nest *const *loops, int length) {
    for (int i = 1; i < length; i++) {
        if (!loops[i]->bound) continue;
        lower_if(lower,
                 term(lower->arena, TERM_GE, nest_terms(lower, loops[i])->variable,
                      integer_term(lower, loops[i]->bound)),
                 ON_SAME_LINE);
        lower_do(lower, term(lower->arena, TERM_CONTINUE));
        lower_end(lower);
    }
}

static void lower_iterations(Lowering *lower, Nest *last, int level, Lanes *lanes) {
    if (lanes)
        lower_lanes(lower, lanes, last, level);
    else
        lower_body(lower, last, level);
}

/* The index of the innermost loop is that of the first lane. */
static void lower_places_of(Lowering *lower, Nest *const *loops, int length, const Term *iteration,
                            const Lanes *lanes) {
    Nest *last = loops[length - 1];
    const Term *variable = nest_terms(lower, last)->variable;
    if (lanes) nest_terms(lower, last)->variable = lanes_from(lanes);
    lower_places(lower, loops, length, iteration);
    nest_terms(lower, last)->variable = variable;
}

void lower_shared_loop(Lowering *lower, Nest *nest, int level) {
    Nest *loops[MAX_LOOPS + 1];
    const LoopMap *map = &nest->map;
    const int length = map->joined;
    MUST(length > 0);
    begin_sums(lower, nest);
    lower_scope(lower, FORM_GROUP);
    int bindings = bind_joined(lower, nest, loops);
    Nest *last = loops[length - 1];
    Lanes *lanes = lanes_of(lower, last, map->width);
    const Term *name = length > 1 ? bind_variable(lower, NULL, "part")
                       : lanes    ? lanes_from(lanes)
                                  : nest_terms(lower, last)->variable;
    FormNode *loop =
        lower_shared(lower, name, iterations_term(lower, nest, joined_iterations(nest)), map->by);
    loop->width = lanes_width(lanes);
    if (map->by == BY_COLUMN && map->parts) {
        loop->values[0] = named(lower, T_I64, "moec_slice_from");
        loop->values[1] = named(lower, T_I64, "moec_slice_to");
    }
    if (length > 1) lower_places_of(lower, loops, length, name, lanes);
    skip_beyond(lower, loops, length);
    lower_iterations(lower, last, level + length - 1, lanes);
    close_loop(lower, bindings);
    join_sums(lower, nest);
    if (!map->parts) end_sums(lower, nest);
    lower_end(lower);
}

static void lower_child(Lowering *lower, Nest *nest, int level) {
    if (nest->member)
        lower_member(lower, nest->member);
    else if (nest->map.by != BY_ONE)
        lower_shared_loop(lower, nest, level);
    else
        lower_loop(lower, nest, level);
}

/* The body of an iteration that several threads share. */
static void lower_shared_body(Lowering *lower, Nest *nest, int level) {
    lower_rows(lower, nest);
    LIST_EACH(Nest, child, &nest->children) lower_child(lower, child, level + 1);
}

void lower_device_block(Lowering *lower, Nest *nest) {
    if (nest->index)
        lower_child(lower, nest, 0);
    else
        lower_shared_body(lower, nest, -1);
}

/* ---- the outer loops ---- */

static void open_iterations(Lowering *lower, const Nest *nest, const Lanes *lanes) {
    const bool columns = nest->map.by == BY_COLUMNS;
    const Term *name = named(lower, T_I64, columns ? "moec_from" : "iteration"),
               *iterations = iterations_term(lower, nest, joined_iterations(nest));
    lower_shared(lower, name, iterations, nest->map.by)->width = lanes_width(lanes);
    if (columns)
        lower_head(lower, named(lower, T_I64, "iteration"),
                   term(lower->arena, TERM_COLUMN, name, iterations));
}

void lower_outer_loops(Lowering *lower, Nest *nest) {
    Nest *loops[MAX_LOOPS + 1];
    const int length = nest->map.joined;
    int bindings = bind_joined(lower, nest, loops);
    Lanes *lanes = lanes_of(lower, loops[length - 1], nest->map.width);
    open_iterations(lower, nest, lanes);
    lower_places_of(lower, loops, length, named(lower, T_I64, "iteration"), lanes);
    if (nest->map.by != BY_COLUMNS) skip_beyond(lower, loops, length);
    if (nest->map.by == BY_BLOCKS || nest->map.by == BY_COLUMNS)
        lower_shared_body(lower, loops[length - 1], length - 1);
    else
        lower_iterations(lower, loops[length - 1], length - 1, lanes);
    close_loop(lower, bindings);
}
