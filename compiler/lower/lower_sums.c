/* lower_sums: nests on a GPU whose loops are all reduced: sums over everything, in two launches,
 * and scatters, one row of the target at a time: see map_scatter.c.
 */
#include "lower/lower.h"

/* Entries that a thread checks before it checks the results of the others. */
enum { AT_ONCE = 8 };

/* ---- sums over everything ---- */

TermOp reduction_op(TermOp of_sum, const Member *member) {
    return (TermOp)(of_sum + member->statement->reduction - REDUCE_SUM);
}

const Term *scratch_term(Lowering *lower, const Term *offset) {
    return term_element(lower->arena, named(lower, T_F32, "moec_parts"), offset);
}

static void leave_part(Lowering *lower, long place, const Member *member) {
    Arena *arena = lower->arena;
    const Term *part = term(arena, TERM_ADD, whole(lower, place), term(arena, TERM_BLOCK));
    lower_if(lower, first_thread(arena), ON_SAME_LINE);
    lower_set(lower, scratch_term(lower, part), member_terms(lower, member)->sum);
    lower_end(lower);
}

void lower_parts_of_sums(Lowering *lower, Nest *nest) {
    int bindings = lower->binding_count, number = 0;
    lower_shared_loop(lower, nest, 0);
    LIST_EACH(Member, member, &lower->kernel->members)
        if (reduces_at(member, nest)) leave_part(lower, nest->map.parts * number++, member);
    lower->binding_count = bindings;
    const size_t bytes = (size_t)lower->kernel->members.count * (size_t)nest->map.parts * 4;
    if (bytes > lower->scratch_bytes) lower->scratch_bytes = bytes;
}

void lower_sums_of_parts(Lowering *lower, Nest *nest) {
    Arena *arena = lower->arena;
    int number = 0;
    begin_sums(lower, nest);
    LIST_EACH(Member, member, &lower->kernel->members) {
        if (!reduces_at(member, nest)) continue;
        const Term *sum = member_terms(lower, member)->sum;
        const Term *part = term(arena, TERM_ADD, whole(lower, nest->map.parts * number++),
                                term(arena, TERM_THREAD));
        lower_set(lower, sum,
                  term(arena, reduction_op(TERM_JOIN_SUM, member), sum, scratch_term(lower, part)));
        lower_set(lower, sum, term(arena, reduction_op(TERM_BLOCK_SUM, member), sum));
    }
    end_sums(lower, nest);
}

/* ---- scatters ---- */

/* The row that an iteration adds to, and the condition under which it exists. */
static const Term *row_term(Lowering *lower, const Expr *target, const Term **inside) {
    Arena *arena = lower->arena;
    const Term *row = NULL;
    element_term(lower, target, inside);
    for (int i = 0; i < target->count; i++) {
        if (!is_computed(target->args[i])) continue;
        const Term *sub = integer_term(lower, target->args[i]);
        const Term *size = whole(lower, target->tensor->axes[i]->size);
        row = row ? term(arena, TERM_ADD, term(arena, TERM_MUL, row, size), sub) : sub;
    }
    return row;
}

/* The row that iteration `part` adds to; opens a condition if it may not exist. */
static const Term *open_row_of_part(Lowering *lower, const Member *member) {
    Nest *loops[MAX_LOOPS + 1];
    int count = member->depth - member->kept;
    const Term *inside, *row = row_term(lower, member->statement->target, &inside);
    for (int i = 0; i < count; i++) loops[i] = member->path[member->kept + i];
    lower_places(lower, loops, count, named(lower, T_I64, "part"));
    for (int i = 0; i < count; i++) {
        if (!loops[i]->bound) continue;
        const Term *run = term(lower->arena, TERM_LT, nest_terms(lower, loops[i])->variable,
                               integer_term(lower, loops[i]->bound));
        inside = inside ? term(lower->arena, TERM_AND, run, inside) : run;
    }
    if (inside) lower_if(lower, inside, ON_NEXT_LINE);
    return row;
}

/* Sets `hit` if iteration `part` adds to the row; joins: if it has not been set before. */
static void lower_hit(Lowering *lower, const Member *member, bool joins) {
    FormBlock *block = lower->block;
    const Term *hit = named(lower, T_BOOL, "hit"), *row = open_row_of_part(lower, member),
               *same = term(lower->arena, TERM_EQ, row, named(lower, T_I64, "row"));
    if (joins)
        lower_do(lower, term(lower->arena, TERM_OR_INTO, hit, same));
    else
        lower_set(lower, hit, same);
    lower->block = block;
}

static const Term *hits_term(Lowering *lower, const Term *number) {
    return term_element(lower->arena, named(lower, T_INT, "hits"), number);
}

/* Finds the next iterations that add to `row`: their numbers in order, in `hits`. */
static void lower_hits(Lowering *lower, const Member *member, long iterations) {
    Arena *arena = lower->arena;
    const Term *part = named(lower, T_I64, "part"), *hit = named(lower, T_BOOL, "hit"),
               *found = named(lower, T_INT, "found"), *before = named(lower, T_INT, "before"),
               *from = named(lower, T_I64, "from");
    lower_head(lower, part, term(arena, TERM_ADD, from, term(arena, TERM_THREAD)));
    lower_let(lower, hit, term_number(arena, T_BOOL, 0));
    lower_if(lower, term(arena, TERM_LT, part, whole(lower, iterations)), IN_BRACES);
    lower_hit(lower, member, false);
    lower_end(lower);
    lower_let(lower, found, NULL);
    lower_constant(lower, before, term(arena, TERM_BLOCK_BEFORE, hit, found));
    lower_if(lower, hit, ON_SAME_LINE);
    lower_set(lower, hits_term(lower, before), term_cast(arena, T_INT, part));
    lower_end(lower);
    lower_barrier(lower);
}

/* The iteration with number `place`: adds its value to `sum`, or to that of each lane, or stores
 * it. */
static void lower_iteration(Lowering *lower, Lanes *lanes, Member *member, const Term *place,
                            bool store) {
    const Term *sum = named(lower, T_F32, "sum"), *of = named(lower, T_I64, "of");
    lower_head(lower, of, place);
    lower_places(lower, member->path + member->kept, member->depth - member->kept, of);
    if (lanes) {
        sum = term_element(lower->arena, sum, lanes_number(lanes));
        begin_lanes(lower, lanes);
    }
    if (store)
        lower_store(lower, member, sum);
    else
        lower_join(lower, sum, REDUCE_SUM, real_term(lower, member->statement->value));
    if (lanes) end_lanes(lower, lanes);
}

/* The columns of a thread. */
static void begin_columns(Lowering *lower, const Member *member, Lanes *lanes) {
    Nest *last = lanes ? member->path[member->kept - 1] : NULL;
    const Term *variable = last ? nest_terms(lower, last)->variable : NULL;
    const Term *column = named(lower, T_I64, "column");
    lower_shared(lower, column, whole(lower, scatter_iterations(member, 0, member->kept)),
                 BY_THREADS)
        ->width = lanes_width(lanes);
    if (last) nest_terms(lower, last)->variable = lanes_from(lanes);
    lower_places(lower, member->path, member->kept, column);
    if (last) nest_terms(lower, last)->variable = variable;
}

/* The iterations that add to a row: the number of one of them; a loop over all, with the number of
 * each. */
typedef struct Additions {
    const Term *first, *number, *from, *to, *place;
} Additions;

/* Sums the values of a row, column by column, and adds the sum to it. */
static void lower_additions(Lowering *lower, Member *member, const Additions *additions) {
    Lanes *lanes = member->kept
                       ? lanes_of(lower, member->path[member->kept - 1], member->path[0]->map.width)
                       : NULL;
    const Term *sum = named(lower, T_F32, "sum");
    begin_columns(lower, member, lanes);
    if (lanes)
        lower_array(lower, sum, lanes_width(lanes), term(lower->arena, TERM_EMPTY));
    else
        lower_let(lower, sum, sum_start(lower, REDUCE_SUM));
    lower_for(lower, additions->number, additions->from, additions->to, NULL);
    lower_iteration(lower, lanes, member, additions->place, false);
    lower_end(lower);
    lower_iteration(lower, lanes, member, additions->first, true);
    lower_end(lower);
}

/* Searches the iterations before the block's own for its row. */
static void lower_search_before(Lowering *lower, const Member *member) {
    Arena *arena = lower->arena;
    const Term *from = named(lower, T_I64, "from"), *own = named(lower, T_I64, "own"),
               *end = named(lower, T_I64, "end"), *hit = named(lower, T_BOOL, "hit"),
               *earlier = named(lower, T_INT, "earlier");
    const Term *step = term(arena, TERM_MUL, whole(lower, AT_ONCE), term(arena, TERM_THREADS));
    lower_for(lower, from, whole(lower, 0), own, step)->values[3] = term(arena, TERM_NOT, earlier);
    lower_constant(lower, end, term(arena, TERM_LEAST_END, own, term(arena, TERM_ADD, from, step)));
    lower_let(lower, hit, term_number(arena, T_BOOL, 0));
    lower_shared(lower, named(lower, T_I64, "part"), end, BY_THREADS)->values[0] = from;
    lower_hit(lower, member, true);
    lower_end(lower);
    lower_do(lower, term(arena, TERM_BLOCK_BEFORE, hit, earlier));
    lower_end(lower);
}

/* The row of the block's own iteration. If an earlier iteration has the same row, the block of that
 * one adds to it. */
static void lower_first(Lowering *lower, const Member *member) {
    Arena *arena = lower->arena;
    const Term *row = named(lower, T_I64, "row"), *earlier = named(lower, T_INT, "earlier");
    FormBlock *block = lower->block;
    lower_let(lower, row, whole(lower, -1));
    lower_scope(lower, FORM_SCOPE);
    lower_head(lower, named(lower, T_I64, "part"), named(lower, T_I64, "own"));
    lower_set(lower, row, open_row_of_part(lower, member));
    lower->block = block;
    lower_let(lower, earlier, term(arena, TERM_LT, row, whole(lower, 0)));
    lower_search_before(lower, member);
    lower_if(lower, earlier, ON_SAME_LINE);
    lower_do(lower, term(arena, TERM_CONTINUE));
    lower_end(lower);
}

static void lower_searched(Lowering *lower, Member *member, const Term *first, long iterations) {
    Arena *arena = lower->arena;
    const Term *found = named(lower, T_INT, "found"), *n = named(lower, T_INT, "n");
    lower_for(lower, named(lower, T_I64, "from"), first, whole(lower, iterations),
              term(arena, TERM_THREADS));
    lower_hits(lower, member, iterations);
    lower_if(lower, term(arena, TERM_GT, found, whole(lower, 0)), ON_NEXT_LINE);
    lower_additions(lower, member,
                    &(Additions){hits_term(lower, whole(lower, 0)), n, whole(lower, 0), found,
                                 hits_term(lower, n)});
    lower_end(lower);
    lower_barrier(lower);
    lower_end(lower);
}

/* The same with the lists of rows of a relation. */
static void lower_listed(Lowering *lower, Member *member, const Relation *relation) {
    Arena *arena = lower->arena;
    const Term *start = array_term(lower, relation->start),
               *list = array_term(lower, relation->list), *row = named(lower, T_I64, "row"),
               *from = named(lower, T_I64, "from"), *end = named(lower, T_I64, "end"),
               *n = named(lower, T_I64, "n");
    const Term *next = term(arena, TERM_ADD, row, whole(lower, 1));
    lower->used[relation->start->id] = lower->used[relation->list->id] = true;
    lower_constant(lower, from, term_element(arena, start, row));
    lower_constant(lower, end, term_element(arena, start, next))->joined = true;
    lower_if(lower, term(arena, TERM_LT, from, end), ON_NEXT_LINE);
    lower_additions(
        lower, member,
        &(Additions){term_element(arena, list, from), n, from, end, term_element(arena, list, n)});
    lower_end(lower);
}

/* By a template for several columns at a time. */
void lower_added_rows(Lowering *lower, const LaunchMap *map) {
    const Member *member = scatter_member(lower->kernel, map->nest);
    const Expr *value = member->statement->value, *target = member->statement->target;
    const Tensor *lists[] = {map->listed->start, map->listed->list};
    for (int i = 0; i < 2; i++) lower->used[lists[i]->id] = true;
    lower->written[target->tensor->id] = true;
    lower_do(lower, term(lower->arena, TERM_ADD_ROWS, whole(lower, map->nest->map.width),
                         array_term(lower, lists[0]), array_term(lower, lists[1]),
                         whole(lower, map->rows), whole(lower, joined_iterations(map->nest)),
                         pointer_term(lower, value), pointer_term(lower, target)));
}

void lower_scatter(Lowering *lower, const LaunchMap *map) {
    Member *member = scatter_member(lower->kernel, map->nest);
    const bool by_term = map->form == LAUNCH_SEARCHED_TERMS;
    const Term *block = named(lower, T_I64, by_term ? "own" : "row");
    const long terms = scatter_iterations(member, member->kept, member->depth);
    bind_scatter_names(lower);
    for (int i = 0; i < member->depth; i++) bind_loop(lower, member->path[i]);
    if (!map->listed)
        lower_array(lower, named(lower, T_INT, "hits"), map->launch.threads, NULL)->shared = true;
    lower_shared(lower, block, whole(lower, map->launch.blocks), BY_BLOCKS);
    if (by_term) lower_first(lower, member);
    if (map->listed)
        lower_listed(lower, member, map->listed);
    else
        lower_searched(lower, member, by_term ? block : whole(lower, 0), terms);
    lower_end(lower);
}
