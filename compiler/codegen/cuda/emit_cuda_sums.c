/* emit_cuda_sums: nests of a device whose loops all put together what they compute: sums over
 * everything, in two launches, and scatters, row by row of the target.
 *
 *     e[tokens[b,s],d] += x[b,s,d]    a block for each token; where it is the first that names its
 *                                     row of e, it looks through those behind it for that row and
 *                                     adds what belongs to them, in their order; where e has fewer
 *                                     rows than there are tokens, a block for each row does so
 */
#include "codegen/emit.h"
#include "schedule/nest.h"

#include <string.h>

/* Blocks of a sum in two launches; fewer operations than MIN_WORK are not worth two. */
/* AT_ONCE: places that a thread looks at between two looks at what the others have found. */
enum { PARTS = 256, THREADS = 256, AT_ONCE = 8, MIN_WORK = 1 << 18, MAX_ROWS = 1 << 20 };

/* ---- sums over everything ---- */

static bool sums_everything(const Emitter *emitter, const Nest *nest) {
    const Member *member;
    double work = 0;
    for (int i = 0; (member = member_at(emitter, i)) != NULL; i++) {
        if (!is_inside(member, nest)) continue;
        if (!reduces_at(member, nest)) return false;
        work += statement_work(member->statement);
    }
    return work >= MIN_WORK;
}

bool sums_in_two(const Emitter *emitter, const Nest *nest) {
    for (const Nest *at = nest; at; at = at->children.items[0]) {
        if (at->member) return sums_everything(emitter, nest);
        if (at->children.count != 1 && !is_innermost(at)) return false;
    }
    return false;
}

const char *join_of(const Member *member) {
    static const char *const joins[] = {"", "MoecSum::join($0, $1)", "MoecMax::join($0, $1)",
                                        "MoecMin::join($0, $1)"};
    return joins[member->statement->reduction];
}

static void leave_part(Emitter *emitter, long place, const Member *member) {
    lower_if(emitter, term(emitter->arena, "moec_thread() == 0"), ON_SAME_LINE);
    lower_set(emitter, term(emitter->arena, "moec_parts[$0 + moec_block()]", whole(emitter, place)),
              member->sum);
    lower_end(emitter);
}

void emit_parts_of_sums(Emitter *emitter, Nest *nest) {
    Member *member;
    int bindings = emitter->binding_count;
    emit_shared_loop(emitter, nest, 0, SHARED_BY_ALL);
    for (int i = 0, number = 0; (member = member_at(emitter, i)) != NULL; i++)
        if (reduces_at(member, nest)) leave_part(emitter, PARTS * number++, member);
    emitter->binding_count = bindings;
    const size_t bytes = (size_t)emitter->kernel->members.count * PARTS * 4;
    if (bytes > emitter->scratch_bytes) emitter->scratch_bytes = bytes;
}

Launch emit_sums_of_parts(Emitter *emitter, Nest *nest) {
    static const char *const blocks[] = {"", "moec_block_sum($0)", "moec_block_max($0)",
                                         "moec_block_min($0)"};
    Arena *arena = emitter->arena;
    Member *member;
    begin_sums(emitter, nest);
    for (int i = 0, number = 0; (member = member_at(emitter, i)) != NULL; i++) {
        if (!reduces_at(member, nest)) continue;
        const Term *sum = member->sum;
        const Term *part =
            term(arena, "moec_parts[$0 + moec_thread()]", whole(emitter, PARTS * number++));
        lower_set(emitter, sum, term(arena, join_of(member), sum, part));
        lower_set(emitter, sum, term(arena, blocks[member->statement->reduction], sum));
    }
    end_sums(emitter, nest);
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

/* Rows of the target: the places that computed subscripts can name. */
static long rows_of(const Member *member) {
    const Expr *target = member->statement->target;
    double rows = 1;
    for (int i = 0; i < target->count; i++)
        if (is_computed(target->args[i])) rows *= (double)target->tensor->axes[i]->size;
    return rows <= MAX_ROWS ? (long)rows : 0;
}

static Member *only_member(const Emitter *emitter, const Nest *nest) {
    Member *member, *only = NULL;
    for (int i = 0; (member = member_at(emitter, i)) != NULL; i++) {
        if (!is_inside(member, nest)) continue;
        if (only) return NULL;
        only = member;
    }
    return only;
}

bool scatters_rows(const Emitter *emitter, const Nest *nest) {
    const Member *member = only_member(emitter, nest);
    if (!member || member->kept == member->depth || !member->statement->accumulate ||
        member->statement->reduction != REDUCE_NONE ||
        member->statement->target->tensor->type != TYPE_REAL)
        return false;
    return rows_of(member) > 1 && iterations_of(member, member->kept, member->depth) < 1L << 31;
}

/* The row that an iteration adds to, and the condition under which there is one. */
static const Term *row_term(Emitter *emitter, const Expr *target, const Term **inside) {
    const Term *row = NULL;
    element_term(emitter, target, inside);
    for (int i = 0; i < target->count; i++) {
        if (!is_computed(target->args[i])) continue;
        const Term *sub = integer_term(emitter, target->args[i]);
        row = row ? term(emitter->arena, "$0 * $1 + $2", row,
                         whole(emitter, target->tensor->axes[i]->size), sub)
                  : sub;
    }
    return row;
}

/* Does what `spelling` says with `name` and the row that iteration `part` adds to, if there is one.
 * */
static void emit_row_of_part(Emitter *emitter, const Member *member, const char *name,
                             const char *spelling) {
    Nest *loops[MAX_LOOPS + 1];
    int count = member->depth - member->kept;
    const Term *inside, *row = row_term(emitter, member->statement->target, &inside);
    for (int i = 0; i < count; i++) loops[i] = member->path[member->kept + i];
    emit_places(emitter, loops, count, named(emitter, "part"));
    if (inside) lower_if(emitter, inside, ON_NEXT_LINE);
    lower_do(emitter, term(emitter->arena, spelling, named(emitter, name), row));
    if (inside) lower_end(emitter);
}

/* Which of the next iterations add to `row`: their numbers in order, in `hits`. */
static void emit_hits(Emitter *emitter, const Member *member, long iterations) {
    Arena *arena = emitter->arena;
    lower_head(emitter, "const long", "part", term(arena, "from + moec_thread()"));
    lower_let(emitter, "bool", named(emitter, "hit"), term(arena, "false"));
    lower_if(emitter, term(arena, "part < $0", whole(emitter, iterations)), IN_BRACES);
    emit_row_of_part(emitter, member, "hit", "$0 = $1 == row");
    lower_end(emitter);
    lower_let(emitter, "int", named(emitter, "found"), NULL);
    lower_let(emitter, "const int", named(emitter, "before"),
              term(arena, "moec_block_before(hit, &found)"));
    lower_if(emitter, named(emitter, "hit"), ON_SAME_LINE);
    lower_set(emitter, term(arena, "hits[before]"), term(arena, "(int)part"));
    lower_end(emitter);
    lower_barrier(emitter);
}

/* The iteration whose number is `place`, and what it does with `sum`, or with that of each lane. */
static void emit_iteration(Emitter *emitter, Lanes *lanes, Member *member, const Term *place,
                           bool store) {
    const Term *sum = named(emitter, "sum");
    lower_head(emitter, "const long", "of", place);
    emit_places(emitter, member->path + member->kept, member->depth - member->kept,
                named(emitter, "of"));
    if (lanes) {
        sum = term(emitter->arena, "$0[$1]", sum, lanes_number(lanes));
        begin_lanes(emitter, lanes);
    }
    if (store)
        emit_store(emitter, member, sum);
    else
        lower_join(emitter, sum, REDUCE_SUM, real_term(emitter, member->statement->value));
    if (lanes) end_lanes(emitter, lanes);
}

/* The places of the columns that a thread takes. */
static void begin_columns(Emitter *emitter, const Member *member, Lanes *lanes) {
    Nest *last = lanes ? member->path[member->kept - 1] : NULL;
    const Term *variable = last ? last->variable : NULL;
    lower_shared(emitter, named(emitter, "column"),
                 whole(emitter, iterations_of(member, 0, member->kept)), BY_THREADS)
        ->width = lanes_width(lanes);
    if (last) last->variable = lanes_from(lanes);
    emit_places(emitter, member->path, member->kept, named(emitter, "column"));
    if (last) last->variable = variable;
}

/* The iterations that add to a row: the number of one of them; a loop over all, and in it the
 * number of each. */
typedef struct Additions {
    const Term *first;
    const char *type;
    const Term *from, *to, *place;
} Additions;

/* Adds up what belongs to a row, column by column, and adds the sum to it. */
static void emit_additions(Emitter *emitter, Member *member, const Additions *additions) {
    Lanes *lanes = member->kept ? lanes_around(emitter, member->path[member->kept - 1]) : NULL;
    begin_columns(emitter, member, lanes);
    if (lanes)
        lower_array(emitter, "float", named(emitter, "sum"), lanes_width(lanes), "{}");
    else
        lower_let(emitter, "float", named(emitter, "sum"), term_number(emitter->arena, "0.0f"));
    lower_for(emitter, additions->type, named(emitter, "n"), additions->from, additions->to, NULL);
    emit_iteration(emitter, lanes, member, additions->place, false);
    lower_end(emitter);
    emit_iteration(emitter, lanes, member, additions->first, true);
    lower_end(emitter);
}

/* Looks through the iterations before the block's own for its row. */
static void emit_search_before(Emitter *emitter, const Member *member) {
    Arena *arena = emitter->arena;
    const Term *step = term(arena, "$0 * moec_threads()", whole(emitter, AT_ONCE));
    lower_for(emitter, "long", named(emitter, "from"), whole(emitter, 0), named(emitter, "own"),
              step)
        ->text = " && !earlier";
    lower_let(emitter, "const long", named(emitter, "end"),
              term(arena, "moec_least(own, from + $0)", step));
    lower_let(emitter, "bool", named(emitter, "hit"), term(arena, "false"));
    lower_shared(emitter, named(emitter, "part"), named(emitter, "end"), BY_THREADS)->values[0] =
        named(emitter, "from");
    emit_row_of_part(emitter, member, "hit", "$0 |= $1 == row");
    lower_end(emitter);
    lower_do(emitter, term(arena, "moec_block_before(hit, &earlier)"));
    lower_end(emitter);
}

/* The row of the block's own iteration, and whether one before has it already: then that one's
 * block adds to it. */
static void emit_first(Emitter *emitter, const Member *member) {
    Arena *arena = emitter->arena;
    lower_let(emitter, "long", named(emitter, "row"), term(arena, "-1"));
    lower_scope(emitter, FORM_SCOPE);
    lower_head(emitter, "const long", "part", named(emitter, "own"));
    emit_row_of_part(emitter, member, "row", "$0 = $1");
    lower_end(emitter);
    lower_let(emitter, "int", named(emitter, "earlier"), term(arena, "row < 0"));
    emit_search_before(emitter, member);
    lower_if(emitter, named(emitter, "earlier"), ON_SAME_LINE);
    lower_do(emitter, term(arena, "continue"));
    lower_end(emitter);
}

static void emit_searched(Emitter *emitter, Member *member, const Term *first, long iterations) {
    Arena *arena = emitter->arena;
    lower_for(emitter, "long", named(emitter, "from"), first, whole(emitter, iterations),
              term(arena, "moec_threads()"));
    emit_hits(emitter, member, iterations);
    lower_if(emitter, term(arena, "found > 0"), ON_NEXT_LINE);
    emit_additions(emitter, member,
                   &(Additions){term(arena, "hits[0]"), "int", whole(emitter, 0),
                                named(emitter, "found"), term(arena, "hits[n]")});
    lower_end(emitter);
    lower_barrier(emitter);
    lower_end(emitter);
}

/* The same where a relation has listed the rows of each entry. */
static void emit_listed(Emitter *emitter, Member *member, const Relation *relation) {
    Arena *arena = emitter->arena;
    const Term *start = named(emitter, emitter->names[relation->start->id]),
               *list = named(emitter, emitter->names[relation->list->id]);
    emitter->used[relation->start->id] = emitter->used[relation->list->id] = true;
    lower_let(emitter, "const long", named(emitter, "from"),
              term(arena, "$0[row], end = $0[row + 1]", start));
    lower_if(emitter, term(arena, "from < end"), ON_NEXT_LINE);
    emit_additions(emitter, member,
                   &(Additions){term(arena, "$0[from]", list), "long", named(emitter, "from"),
                                named(emitter, "end"), term(arena, "$0[n]", list)});
    lower_end(emitter);
}

/* The last dimensions are the columns, whole and in order; returns how many dimensions are left, or
 * -1. */
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

/* Whole rows of a tensor are added to whole rows of the target. */
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

/* By a template, several columns at a time; rows: of the target. False when that cannot be. */
static bool emit_added_rows(Emitter *emitter, const Member *member, const Relation *relation,
                            long rows, Launch *launch) {
    const Expr *value = member->statement->value, *target = member->statement->target;
    const long columns = iterations_of(member, 0, member->kept);
    if (!adds_rows(member)) return false;
    const int width = value->tensor->type == TYPE_BF16 ? 8 : 4;
    if (columns % width) return false;
    const Tensor *lists[] = {relation->start, relation->list};
    for (int i = 0; i < 2; i++) emitter->used[lists[i]->id] = true;
    emitter->written[target->tensor->id] = true;
    lower_do(emitter,
             term(emitter->arena,
                  arena_format(emitter->arena, "moec_add_rows<%d>($0, $1, $2, $3, $4, $5)", width),
                  named(emitter, emitter->names[lists[0]->id]),
                  named(emitter, emitter->names[lists[1]->id]), whole(emitter, rows),
                  whole(emitter, columns), pointer_term(emitter, value),
                  pointer_term(emitter, target)));
    long blocks = (rows * columns / width + THREADS - 1) / THREADS;
    *launch = (Launch){arena_format(emitter->arena, "%ld", blocks), THREADS};
    return true;
}

Launch emit_scatter(Emitter *emitter, Nest *nest) {
    Member *member = only_member(emitter, nest);
    const Relation *relation = listed_rows(emitter->program, member->statement);
    Launch launch;
    if (member->depth - member->kept != 1) relation = NULL;
    if (relation && emit_added_rows(emitter, member, relation, rows_of(member), &launch))
        return launch;
    long rows = rows_of(member), iterations = iterations_of(member, member->kept, member->depth);
    bool by_iteration = !relation && rows > iterations;
    long blocks = by_iteration ? iterations : rows;
    const char *block = by_iteration ? "own" : "row";
    bind_scatter_names(emitter);
    for (int i = 0; i < member->depth; i++) bind_loop(emitter, member->path[i]);
    if (!relation) lower_array(emitter, "__shared__ int", named(emitter, "hits"), THREADS, NULL);
    lower_shared(emitter, named(emitter, block), whole(emitter, blocks), BY_BLOCKS);
    if (by_iteration) emit_first(emitter, member);
    if (relation)
        emit_listed(emitter, member, relation);
    else
        emit_searched(emitter, member, by_iteration ? named(emitter, "own") : whole(emitter, 0),
                      iterations);
    lower_end(emitter);
    return (Launch){arena_format(emitter->arena, "%ld", blocks), THREADS};
}
