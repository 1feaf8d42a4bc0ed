/* lower_device: distributes the loops of a kernel among the threads of a GPU.
 *
 * The outer loops of a nest that no statement sums over become one. Its iterations are distributed
 * to threads, columns or blocks.
 *
 *     threads   y[b,s,d] = x[b,s,d] * t[b,s]   one iteration per thread, including inner loops
 *     columns   g[d] += sum[b,s] x[b,s,d]      32 adjacent iterations per block; the other threads
 *                                              of the block share the sum of each
 *     blocks    y[b,s,d] = x[b,s,d] / sum ...  one iteration per block; its threads share the inner
 *                                              loops, rows are in shared memory
 *
 * Each thread sums its own iterations; the sums of the threads are added in a fixed order. A small
 * kernel runs in one block.
 */
#include "lower/lower.h"
#include "base/must.h"

/* Columns per block. */
enum { COLUMNS = 32 };

/* ---- loops inside a block ---- */

static bool by_column(Sharing sharing) {
    return sharing == COLUMNS_OF_THREADS || sharing == COLUMNS_IN_SLICES;
}

/* Joins the sums of the threads into one that all of them hold. */
static void join_sums(Lowering *lower, const Nest *nest, Sharing sharing) {
    const TermOp join = by_column(sharing) ? TERM_COLUMN_SUM : TERM_BLOCK_SUM;
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

static int bind_chain(Lowering *lower, Nest *nest, int length, Nest **loops, long *iterations) {
    int bindings = lower->binding_count;
    *iterations = 1;
    for (int i = 0; i < length; i++) {
        loops[i] = i ? loops[i - 1]->children.items[0] : nest;
        *iterations *= loops[i]->size;
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

void lower_shared_loop(Lowering *lower, Nest *nest, int level, Sharing sharing) {
    Nest *loops[MAX_LOOPS + 1];
    long iterations;
    const int length = shared_chain(lower->kernel, nest, level);
    MUST(length > 0);
    begin_sums(lower, nest);
    lower_scope(lower, FORM_GROUP);
    int bindings = bind_chain(lower, nest, length, loops, &iterations);
    Nest *last = loops[length - 1];
    Lanes *lanes = by_column(sharing) ? NULL : lanes_of(lower, last, length == 1);
    const Term *name = length > 1 ? bind_variable(lower, NULL, "part")
                       : lanes    ? lanes_from(lanes)
                                  : nest_terms(lower, last)->variable;
    static const FormBy sharers[] = {BY_ONE, BY_COLUMN, BY_COLUMN, BY_THREADS, BY_ALL};
    FormNode *loop =
        lower_shared(lower, name, iterations_term(lower, nest, iterations), sharers[sharing]);
    loop->width = lanes_width(lanes);
    if (sharing == COLUMNS_IN_SLICES) {
        loop->values[0] = named(lower, T_I64, "moec_slice_from");
        loop->values[1] = named(lower, T_I64, "moec_slice_to");
    }
    if (length > 1) lower_places_of(lower, loops, length, name, lanes);
    skip_beyond(lower, loops, length);
    lower_iterations(lower, last, level + length - 1, lanes);
    close_loop(lower, bindings);
    join_sums(lower, nest, sharing);
    if (sharing != SHARED_BY_ALL && sharing != COLUMNS_IN_SLICES) end_sums(lower, nest);
    lower_end(lower);
}

/* The body of an iteration that several threads share. */
static void lower_shared_body(Lowering *lower, Nest *nest, int level, Sharing sharing) {
    lower_rows(lower, nest);
    LIST_EACH(Nest, child, &nest->children) {
        if (child->member)
            lower_member(lower, child->member);
        else if (threads_may_share(lower->kernel, child, level + 1))
            lower_shared_loop(lower, child, level + 1, sharing);
        else
            lower_loop(lower, child, level + 1);
    }
}

/* ---- the outer loops ---- */

/* Threads for this number of iterations at a time: a power of two, at least a warp. */
static int threads_for(long iterations, int most) {
    int threads = 32;
    while (threads < iterations && threads < most) threads *= 2;
    return threads;
}

static void lower_inside(Lowering *lower, Nest *last, int length, Sharing sharing, Lanes *lanes) {
    if (sharing == THREADS_ALONE)
        lower_iterations(lower, last, length - 1, lanes);
    else
        lower_shared_body(lower, last, length - 1, sharing);
}

/* own: each block has its own iterations. lanes: iterations that a thread processes together, or
 * NULL. */
static void open_iterations(Lowering *lower, Sharing sharing, const Term *iterations,
                            const Lanes *lanes, bool own) {
    bool columns = sharing != THREADS_ALONE && sharing != SHARED_IN_BLOCK && !own;
    const Term *name = named(lower, T_I64, columns ? "moec_from" : "iteration");
    FormBy by = own                          ? BY_THREADS
                : columns                    ? BY_COLUMNS
                : sharing == SHARED_IN_BLOCK ? BY_BLOCKS
                                             : BY_ALL;
    lower_shared(lower, name, iterations, by)->width = lanes_width(lanes);
    if (columns)
        lower_head(lower, named(lower, T_I64, "iteration"),
                   term(lower->arena, TERM_COLUMN, name, iterations));
}

static Launch lower_chain(Lowering *lower, Nest *nest, int length) {
    Nest *loops[MAX_LOOPS + 1];
    long iterations;
    int bindings = bind_chain(lower, nest, length, loops, &iterations);
    Nest *last = loops[length - 1];
    Sharing sharing = sharing_of(lower->kernel, nest, last, length);
    bool elements = nest->index->axis->kind == AXIS_ELEMENTS;
    Lanes *lanes =
        sharing == THREADS_ALONE && is_innermost(last) ? lanes_of(lower, last, length == 1) : NULL;
    open_iterations(lower, sharing, iterations_term(lower, nest, iterations), lanes, elements);
    lower_places_of(lower, loops, length, named(lower, T_I64, "iteration"), lanes);
    if (!by_column(sharing)) skip_beyond(lower, loops, length);
    lower_inside(lower, last, length, sharing, lanes);
    close_loop(lower, bindings);

    long inside = iterations_inside(last);
    if (elements) return (Launch){0, 256};
    iterations /= lanes_width(lanes);
    if (sharing == THREADS_ALONE) {
        int threads = threads_for(iterations, is_innermost(last) ? 256 : 64);
        return launch_of(ceil_div(iterations, threads), threads);
    }
    if (sharing == COLUMNS_OF_THREADS)
        return launch_of(ceil_div(iterations, COLUMNS), threads_for(8 * inside, 1024));
    return launch_of(iterations, threads_for((inside + 3) / 4, 512));
}

Launch lower_device_nest(Lowering *lower, Nest *nest) {
    int length = chain_of(lower->kernel, nest);
    if (scatters_rows(lower, nest)) return lower_scatter(lower, nest);
    if (length > 0) return lower_chain(lower, nest, length);
    Nest root = {.step = 1};
    list_push(lower->arena, &root.children, nest);
    return lower_device_block(lower, &root);
}

Launch lower_device_block(Lowering *lower, Nest *root) {
    long inside = iterations_inside(root);
    lower_shared_body(lower, root, -1, SHARED_IN_BLOCK);
    return (Launch){1, threads_for(inside, 1024)};
}
