/* lower_sums: nests on a GPU whose loops are all reduced: sums over everything, in two launches,
 * and scatters, one row of the target at a time.
 *
 *     e[tokens[b,s],d] += x[b,s,d]    one block per token. The block of the first token with a row
 *                                     of e searches later tokens for the same row and adds their
 *                                     values in order. If e has fewer rows than there are tokens,
 *                                     one block per row does so.
 */
#include "loop/lower/lower.h"

#include <string.h>

/* Blocks of a sum in two launches; less work than MIN_WORK is not worth two. */
/* AT_ONCE: entries that a thread checks before it checks the results of the others. */
enum { PARTS = 256, THREADS = 256, AT_ONCE = 8, MIN_WORK = 1 << 18, MAX_ROWS = 1 << 20 };

/* ---- sums over everything ---- */

static bool sums_everything(const Lowering *lower, const Nest *nest) {
    const Member *member;
    double work = 0;
    for (int i = 0; (member = member_at(lower, i)) != NULL; i++) {
        if (!is_inside(member, nest)) continue;
        if (!reduces_at(member, nest)) return false;
        work += statement_work(member->statement);
    }
    return work >= MIN_WORK;
}

bool sums_in_two(const Lowering *lower, const Nest *nest) {
    for (const Nest *at = nest; at; at = at->children.items[0]) {
        if (at->member) return sums_everything(lower, nest);
        if (at->children.count != 1 && !is_innermost(at)) return false;
    }
    return false;
}

const char *join_of(const Member *member) {
    static const char *const joins[] = {"", "MoecSum::join($0, $1)", "MoecMax::join($0, $1)",
                                        "MoecMin::join($0, $1)"};
    return joins[member->statement->reduction];
}

static void leave_part(Lowering *lower, long place, const Member *member) {
    lower_if(lower, term(lower->arena, "moec_thread() == 0"), ON_SAME_LINE);
    lower_set(lower, term(lower->arena, "moec_parts[$0 + moec_block()]", whole(lower, place)),
              member_terms(lower, member)->sum);
    lower_end(lower);
}

void lower_parts_of_sums(Lowering *lower, Nest *nest) {
    Member *member;
    int bindings = lower->binding_count;
    lower_shared_loop(lower, nest, 0, SHARED_BY_ALL);
    for (int i = 0, number = 0; (member = member_at(lower, i)) != NULL; i++)
        if (reduces_at(member, nest)) leave_part(lower, PARTS * number++, member);
    lower->binding_count = bindings;
    const size_t bytes = (size_t)lower->kernel->members.count * PARTS * 4;
    if (bytes > lower->scratch_bytes) lower->scratch_bytes = bytes;
}

Launch lower_sums_of_parts(Lowering *lower, Nest *nest) {
    static const char *const blocks[] = {"", "moec_block_sum($0)", "moec_block_max($0)",
                                         "moec_block_min($0)"};
    Arena *arena = lower->arena;
    Member *member;
    begin_sums(lower, nest);
    for (int i = 0, number = 0; (member = member_at(lower, i)) != NULL; i++) {
        if (!reduces_at(member, nest)) continue;
        const Term *sum = member_terms(lower, member)->sum;
        const Term *part =
            term(arena, "moec_parts[$0 + moec_thread()]", whole(lower, PARTS * number++));
        lower_set(lower, sum, term(arena, join_of(member), sum, part));
        lower_set(lower, sum, term(arena, blocks[member->statement->reduction], sum));
    }
    end_sums(lower, nest);
    return (Launch){"1", PARTS};
}

Launch launch_of_parts(void) {
    return (Launch){"256", THREADS};
}

/* ---- scatters ---- */

static long iterations_of(const Member *member, int from, int to) {
    long iterations = 1;
    for (int i = from; i < to; i++) iterations *= member->path[i]->size;
    return iterations;
}

/* Rows of the target: the possible values of computed subscripts. */
static long rows_of(const Member *member) {
    const Expr *target = member->statement->target;
    double rows = 1;
    for (int i = 0; i < target->count; i++)
        if (is_computed(target->args[i])) rows *= (double)target->tensor->axes[i]->size;
    return rows <= MAX_ROWS ? (long)rows : 0;
}

static Member *only_member(const Lowering *lower, const Nest *nest) {
    Member *member, *only = NULL;
    for (int i = 0; (member = member_at(lower, i)) != NULL; i++) {
        if (!is_inside(member, nest)) continue;
        if (only) return NULL;
        only = member;
    }
    return only;
}

/* The row of an iteration is known outside the loops over columns: no computed subscript uses them,
 * as the second one of t[s + 1, c, c] does. */
static bool row_is_outside_columns(const Member *member) {
    const Expr *target = member->statement->target;
    for (int i = 0; i < target->count; i++)
        for (int k = 0; is_computed(target->args[i]) && k < member->kept; k++)
            if (expr_uses_index(target->args[i], member->order[k])) return false;
    return true;
}

bool scatters_rows(const Lowering *lower, const Nest *nest) {
    const Member *member = only_member(lower, nest);
    if (!member || member->kept == member->depth || !member->statement->accumulate ||
        member->statement->reduction != REDUCE_NONE ||
        member->statement->target->tensor->type != TYPE_REAL)
        return false;
    return rows_of(member) > 1 && row_is_outside_columns(member) &&
           iterations_of(member, member->kept, member->depth) < 1L << 31;
}

/* The row that an iteration adds to, and the condition under which it exists. */
static const Term *row_term(Lowering *lower, const Expr *target, const Term **inside) {
    const Term *row = NULL;
    element_term(lower, target, inside);
    for (int i = 0; i < target->count; i++) {
        if (!is_computed(target->args[i])) continue;
        const Term *sub = integer_term(lower, target->args[i]);
        row = row ? term(lower->arena, "$0 * $1 + $2", row,
                         whole(lower, target->tensor->axes[i]->size), sub)
                  : sub;
    }
    return row;
}

/* Emits `spelling` with `name` and the row that iteration `part` adds to, if it exists. */
static void lower_row_of_part(Lowering *lower, const Member *member, const char *name,
                              const char *spelling) {
    Nest *loops[MAX_LOOPS + 1];
    int count = member->depth - member->kept;
    const Term *inside, *row = row_term(lower, member->statement->target, &inside);
    for (int i = 0; i < count; i++) loops[i] = member->path[member->kept + i];
    lower_places(lower, loops, count, named(lower, "part"));
    if (inside) lower_if(lower, inside, ON_NEXT_LINE);
    lower_do(lower, term(lower->arena, spelling, named(lower, name), row));
    if (inside) lower_end(lower);
}

/* Finds the next iterations that add to `row`: their numbers in order, in `hits`. */
static void lower_hits(Lowering *lower, const Member *member, long iterations) {
    Arena *arena = lower->arena;
    lower_head(lower, "const long", "part", term(arena, "from + moec_thread()"));
    lower_let(lower, "bool", named(lower, "hit"), term(arena, "false"));
    lower_if(lower, term(arena, "part < $0", whole(lower, iterations)), IN_BRACES);
    lower_row_of_part(lower, member, "hit", "$0 = $1 == row");
    lower_end(lower);
    lower_let(lower, "int", named(lower, "found"), NULL);
    lower_let(lower, "const int", named(lower, "before"),
              term(arena, "moec_block_before(hit, &found)"));
    lower_if(lower, named(lower, "hit"), ON_SAME_LINE);
    lower_set(lower, term(arena, "hits[before]"), term(arena, "(int)part"));
    lower_end(lower);
    lower_barrier(lower);
}

/* The iteration with number `place`: adds its value to `sum`, or to that of each lane, or stores
 * it. */
static void lower_iteration(Lowering *lower, Lanes *lanes, Member *member, const Term *place,
                            bool store) {
    const Term *sum = named(lower, "sum");
    lower_head(lower, "const long", "of", place);
    lower_places(lower, member->path + member->kept, member->depth - member->kept,
                 named(lower, "of"));
    if (lanes) {
        sum = term(lower->arena, term_element, sum, lanes_number(lanes));
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
    lower_shared(lower, named(lower, "column"),
                 whole(lower, iterations_of(member, 0, member->kept)), BY_THREADS)
        ->width = lanes_width(lanes);
    if (last) nest_terms(lower, last)->variable = lanes_from(lanes);
    lower_places(lower, member->path, member->kept, named(lower, "column"));
    if (last) nest_terms(lower, last)->variable = variable;
}

/* The iterations that add to a row: the number of one of them; a loop over all, with the number of
 * each. */
typedef struct Additions {
    const Term *first;
    const char *type;
    const Term *from, *to, *place;
} Additions;

/* Sums the values of a row, column by column, and adds the sum to it. */
static void lower_additions(Lowering *lower, Member *member, const Additions *additions) {
    Lanes *lanes = member->kept ? lanes_around(lower, member->path[member->kept - 1]) : NULL;
    begin_columns(lower, member, lanes);
    if (lanes)
        lower_array(lower, "float", named(lower, "sum"), lanes_width(lanes), "{}");
    else
        lower_let(lower, "float", named(lower, "sum"), term_number(lower->arena, "0.0f"));
    lower_for(lower, additions->type, named(lower, "n"), additions->from, additions->to, NULL);
    lower_iteration(lower, lanes, member, additions->place, false);
    lower_end(lower);
    lower_iteration(lower, lanes, member, additions->first, true);
    lower_end(lower);
}

/* Searches the iterations before the block's own for its row. */
static void lower_search_before(Lowering *lower, const Member *member) {
    Arena *arena = lower->arena;
    const Term *step = term(arena, "$0 * moec_threads()", whole(lower, AT_ONCE));
    lower_for(lower, "long", named(lower, "from"), whole(lower, 0), named(lower, "own"), step)
        ->text = " && !earlier";
    lower_let(lower, "const long", named(lower, "end"),
              term(arena, "moec_least(own, from + $0)", step));
    lower_let(lower, "bool", named(lower, "hit"), term(arena, "false"));
    lower_shared(lower, named(lower, "part"), named(lower, "end"), BY_THREADS)->values[0] =
        named(lower, "from");
    lower_row_of_part(lower, member, "hit", "$0 |= $1 == row");
    lower_end(lower);
    lower_do(lower, term(arena, "moec_block_before(hit, &earlier)"));
    lower_end(lower);
}

/* The row of the block's own iteration. If an earlier iteration has the same row, the block of that
 * one adds to it. */
static void lower_first(Lowering *lower, const Member *member) {
    Arena *arena = lower->arena;
    lower_let(lower, "long", named(lower, "row"), term(arena, "-1"));
    lower_scope(lower, FORM_SCOPE);
    lower_head(lower, "const long", "part", named(lower, "own"));
    lower_row_of_part(lower, member, "row", "$0 = $1");
    lower_end(lower);
    lower_let(lower, "int", named(lower, "earlier"), term(arena, "row < 0"));
    lower_search_before(lower, member);
    lower_if(lower, named(lower, "earlier"), ON_SAME_LINE);
    lower_do(lower, term(arena, "continue"));
    lower_end(lower);
}

static void lower_searched(Lowering *lower, Member *member, const Term *first, long iterations) {
    Arena *arena = lower->arena;
    lower_for(lower, "long", named(lower, "from"), first, whole(lower, iterations),
              term(arena, "moec_threads()"));
    lower_hits(lower, member, iterations);
    lower_if(lower, term(arena, "found > 0"), ON_NEXT_LINE);
    lower_additions(lower, member,
                    &(Additions){term(arena, "hits[0]"), "int", whole(lower, 0),
                                 named(lower, "found"), term(arena, "hits[n]")});
    lower_end(lower);
    lower_barrier(lower);
    lower_end(lower);
}

/* The same with the lists of rows of a relation. */
static void lower_listed(Lowering *lower, Member *member, const Relation *relation) {
    Arena *arena = lower->arena;
    const Term *start = named(lower, lower->names[relation->start->id]),
               *list = named(lower, lower->names[relation->list->id]);
    lower->used[relation->start->id] = lower->used[relation->list->id] = true;
    lower_let(lower, "const long", named(lower, "from"),
              term(arena, "$0[row], end = $0[row + 1]", start));
    lower_if(lower, term(arena, "from < end"), ON_NEXT_LINE);
    lower_additions(lower, member,
                    &(Additions){term(arena, "$0[from]", list), "long", named(lower, "from"),
                                 named(lower, "end"), term(arena, "$0[n]", list)});
    lower_end(lower);
}

/* The number of dimensions before the columns, if the last dimensions are the columns, whole and in
 * order; or -1. */
static int before_columns(const Expr *access, const Member *member) {
    int left = access->count;
    for (int i = member->kept - 1; i >= 0; i--) {
        const Expr *sub = left > 0 ? access->args[left - 1] : NULL;
        if (!sub || sub->kind != EXPR_INDEX || sub->index != member->order[i] ||
            access->tensor->axes[left - 1]->size != member->path[i]->size)
            return -1;
        left--;
    }
    return left;
}

/* True if whole rows of a tensor are added to whole rows of the target. */
static bool adds_rows(const Member *member) {
    const Expr *value = member->statement->value, *target = member->statement->target;
    if (value->kind != EXPR_READ) return false;
    int row = before_columns(value, member) - 1, last = before_columns(target, member) - 1;
    if (row < 0 || last < 0 || value->args[row]->kind != EXPR_INDEX ||
        value->args[row]->index != member->order[member->kept] || !is_computed(target->args[last]))
        return false;
    while (last >= 0 && is_computed(target->args[last])) last--;
    for (; last >= 0; last--)
        if (is_computed(target->args[last])) return false;
    return true;
}

/* Uses a template for several columns at a time; rows: of the target. False if that is
 * impossible. */
static bool lower_added_rows(Lowering *lower, const Member *member, const Relation *relation,
                             long rows, Launch *launch) {
    const Expr *value = member->statement->value, *target = member->statement->target;
    const long columns = iterations_of(member, 0, member->kept);
    if (!adds_rows(member)) return false;
    const int width = value->tensor->type == TYPE_BF16 ? 8 : 4;
    if (columns % width) return false;
    const Tensor *lists[] = {relation->start, relation->list};
    for (int i = 0; i < 2; i++) lower->used[lists[i]->id] = true;
    lower->written[target->tensor->id] = true;
    lower_do(lower,
             term(lower->arena,
                  arena_format(lower->arena, "moec_add_rows<%d>($0, $1, $2, $3, $4, $5)", width),
                  named(lower, lower->names[lists[0]->id]),
                  named(lower, lower->names[lists[1]->id]), whole(lower, rows),
                  whole(lower, columns), pointer_term(lower, value), pointer_term(lower, target)));
    long blocks = (rows * columns / width + THREADS - 1) / THREADS;
    *launch = (Launch){arena_format(lower->arena, "%ld", blocks), THREADS};
    return true;
}

Launch lower_scatter(Lowering *lower, Nest *nest) {
    Member *member = only_member(lower, nest);
    const Relation *relation = listed_rows(lower->program, member->statement);
    Launch launch;
    if (member->depth - member->kept != 1) relation = NULL;
    if (relation && lower_added_rows(lower, member, relation, rows_of(member), &launch))
        return launch;
    long rows = rows_of(member), iterations = iterations_of(member, member->kept, member->depth);
    bool by_iteration = !relation && rows > iterations;
    long blocks = by_iteration ? iterations : rows;
    const char *block = by_iteration ? "own" : "row";
    bind_scatter_names(lower);
    for (int i = 0; i < member->depth; i++) bind_loop(lower, member->path[i]);
    if (!relation) lower_array(lower, "__shared__ int", named(lower, "hits"), THREADS, NULL);
    lower_shared(lower, named(lower, block), whole(lower, blocks), BY_BLOCKS);
    if (by_iteration) lower_first(lower, member);
    if (relation)
        lower_listed(lower, member, relation);
    else
        lower_searched(lower, member, by_iteration ? named(lower, "own") : whole(lower, 0),
                       iterations);
    lower_end(lower);
    return (Launch){arena_format(lower->arena, "%ld", blocks), THREADS};
}
