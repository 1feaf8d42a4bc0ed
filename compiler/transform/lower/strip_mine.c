/* strip_mine: computes large temporaries in chunks of rows.
 *
 * Needs:   gradient, simplify, route.
 * Leaves:  the statements around a large temporary, in the body of the program or of a repeat, in a
 *          repeat over chunks of its outer axis, or of its two outer axes. Temporaries that only
 *          they use have the size of one chunk. Sums over these axes are accumulated chunk by
 *          chunk.
 *
 *     y[b,s,v] = sum[d] x[b,s,d] * w[d,v]         dw, l = 0
 *     l = sum[b,s,v] f(y[b,s,v])                  repeat i < 4
 *     dy[b,s,v] = g(y[b,s,v])              -->        y[b,s,v] = sum[d] x[2*i+b,s,d] * w[d,v]
 *     dx[b,s,d] = sum[v] dy[b,s,v] * w[d,v]           l += sum[b,s,v] f(y[b,s,v])
 *     dw[d,v] += sum[b,s] x[b,s,d] * dy[b,s,v]        dy[b,s,v] = g(y[b,s,v])
 *                                                     dx[2*i+b,s,d] = sum[v] dy[b,s,v] * w[d,v]
 *                                                     dw[d,v] += sum[b,s] x[2*i+b,s,d] * dy[b,s,v]
 *
 * A statement joins if it depends on one of these statements and another one depends on it. If a
 * statement needs a sum over all chunks before the next chunk can start, the temporary stays whole.
 * Dispatched rows stay whole, too: a product over them covers all groups, and a chunk of rows has
 * no groups.
 *
 * If each element of the two outer axes has its own matrices (slabs), as heads of a chunked
 * recurrence have, chunks do not slow down products. Then all connected statements go into one
 * repeat, except at tensors that are saved for the backward pass. In the body of a repeat only such
 * chunks are made.
 */
#include "transform/lower/strip_mine.h"
#include "base/must.h"

#include "analysis/access.h"
#include "passes.h"

#include <stdlib.h>
#include <string.h>

/* On a CPU a chunk of MIN_BYTES has products at full speed. The accumulation of a weight gradient,
 * which reads and writes all of it once per chunk, is cheap compared with them. On a GPU it is
 * not: a chunk may have a share of the bytes that repeats save for the backward pass, up to
 * MAX_BYTES. */
enum { MIN_BYTES = 64 << 20, MAX_BYTES = 1 << 30, SAVED_SHARE = 8 };

/* ---- accesses ---- */

static void add_leaf(Arena *arena, Statement *statement, ChunkedStatement *step) {
    Leaf *leaf = arena_alloc(arena, sizeof *leaf);
    *leaf = (Leaf){statement, accesses_of(arena, statement)};
    list_push(arena, &step->leaves, leaf);
}

static void collect_statements(Arena *arena, const Statement *statement, ChunkedStatement *step) {
    reads_of(arena, statement, &step->reads);
    writes_of(arena, statement, &step->writes);
    for (int i = 0; i < statement->body.statements.count; i++)
        collect_statements(arena, statement->body.statements.items[i], step);
}

static void collect_step(Arena *arena, Statement *statement, ChunkedStatement *step) {
    const List *body = &statement->body.statements;
    step->statement = statement;
    collect_statements(arena, statement, step);
    if (statement->kind == STATEMENT_LOOP) add_leaf(arena, statement, step);
    for (int i = 0; statement_is_scan(statement) && i < body->count; i++)
        add_leaf(arena, body->items[i], step);
}

static void note_chunk_users(Chunking *chunking, ChunkedStatement *step, const List *accesses) {
    for (int i = 0; i < accesses->count; i++) {
        List *users = &chunking->users[((const Expr *)accesses->items[i])->tensor->id];
        if (!users->count || users->items[users->count - 1] != step)
            list_push(chunking->program->arena, users, step);
    }
}

/* The accesses of all statements of the program except the one whose body the block is. */
static void find_outer_uses(Chunking *chunking) {
    const Program *program = chunking->program;
    const List *body = &program->body.statements;
    ChunkedStatement all = {0};
    for (int i = 0; i < body->count && chunking->block != &program->body; i++) {
        const Statement *statement = body->items[i];
        if (&statement->body != chunking->block)
            collect_statements(program->arena, statement, &all);
    }
    for (int i = 0; i < all.reads.count; i++)
        chunking->outside[((const Expr *)all.reads.items[i])->tensor->id] = true;
    for (int i = 0; i < all.writes.count; i++)
        chunking->outside[((const Expr *)all.writes.items[i])->tensor->id] = true;
}

static Chunking chunking_new(Program *program, Block *block) {
    Arena *arena = program->arena;
    const List *body = &block->statements;
    size_t tensors = (size_t)program->tensors.count + 1;
    Chunking chunking = {.program = program, .block = block, .count = body->count};
    chunking.steps = arena_alloc(arena, ((size_t)body->count + 1) * sizeof *chunking.steps);
    chunking.cuts = arena_alloc(arena, tensors * sizeof *chunking.cuts);
    chunking.local = arena_alloc(arena, tensors * sizeof *chunking.local);
    chunking.outside = arena_alloc(arena, tensors * sizeof *chunking.outside);
    chunking.users = arena_alloc(arena, tensors * sizeof *chunking.users);
    chunking.marks = arena_alloc(arena, tensors * sizeof *chunking.marks);
    for (int cut = 0; cut < 2; cut++)
        chunking.dimensions[cut] = arena_alloc(arena, tensors * sizeof(int));
    for (int i = 0; i < body->count; i++) {
        ChunkedStatement *step = &chunking.steps[i];
        collect_step(arena, body->items[i], step);
        note_chunk_users(&chunking, step, &step->reads);
        note_chunk_users(&chunking, step, &step->writes);
    }
    find_outer_uses(&chunking);
    return chunking;
}

/* Resets the state for another temporary of the same program. */
static void start_again(Chunking *chunking) {
    size_t tensors = (size_t)chunking->program->tensors.count;
    chunking->fails = false;
    memset(chunking->cuts, 0, tensors * sizeof *chunking->cuts);
    memset(chunking->local, 0, tensors * sizeof *chunking->local);
    for (int i = 0; i < chunking->count; i++) {
        chunking->steps[i].member = false;
        chunking->steps[i].where = BEFORE;
    }
}

/* ---- the members ---- */

static long outer_count(const Tensor *whole) {
    return whole->axes[0]->size * (whole->rank > 2 ? whole->axes[1]->size : 1);
}

/* True if each element of its outer axes has several matrices, with at least the rows that a chunk
 * needs; with a given `rows`, any count is sufficient. */
static bool has_slabs(const Tensor *whole, long rows) {
    if (whole->rank <= 4) return false;
    long last = whole->axes[whole->rank - 1]->size;
    return rows > 0 || tensor_elements(whole) / (outer_count(whole) * last) >= STRIP_MIN_ROWS;
}

static bool is_as_large(const Tensor *tensor, const Tensor *than, long rows) {
    if (tensor->role != ROLE_TEMP) return false;
    if (!has_slabs(than, rows)) return tensor_elements(tensor) >= tensor_elements(than);
    return has_slabs(tensor, rows) && !tensor->kept && tensor->axes[0] == than->axes[0] &&
           tensor->axes[1] == than->axes[1];
}

static bool runs_along(const Leaf *leaf, const Index *loop, const Axis *axis) {
    if (loop->axis == axis) return true;
    LIST_EACH(const Expr, access, &leaf->accesses)
        for (int d = 0; d < access->count; d++)
            if (access->tensor->axes[d] == axis && access->args[d]->kind == EXPR_INDEX &&
                access->args[d]->index == loop)
                return true;
    return false;
}

Index *loop_over(const Leaf *leaf, const Axis *axis) {
    Index *found = NULL;
    for (int i = 0; i < leaf->statement->loop_count; i++) {
        Index *loop = leaf->statement->loops[i];
        if (!runs_along(leaf, loop, axis)) continue;
        if (found) return NULL;
        found = loop;
    }
    return found;
}

/* True if every statement of the step loops over the axes that are cut. */
static bool is_strip_along(const Chunking *chunking, const ChunkedStatement *step) {
    LIST_EACH(const Leaf, leaf, &step->leaves) {
        if (leaf->statement->once) return false;
        for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++)
            if (!loop_over(leaf, chunking->axes[cut])) return false;
    }
    return step->leaves.count > 0;
}

static void make_member(Chunking *chunking, ChunkedStatement *step, List *waiting) {
    if (step->member) return;
    step->member = true;
    chunking->fails |= !is_strip_along(chunking, step);
    list_push(chunking->program->arena, waiting, step);
}

/* Makes the step a member, together with all steps that access a temporary as large as `whole`
 * written by a member. If `whole` has slabs, also with those that access a tensor with such slabs
 * that a member accesses. */
static void join_chunks(Chunking *chunking, ChunkedStatement *first, const Tensor *whole) {
    List waiting = {0};
    make_member(chunking, first, &waiting);
    while (waiting.count && !chunking->fails) {
        const ChunkedStatement *step = waiting.items[--waiting.count];
        const int reads = has_slabs(whole, chunking->rows) ? step->reads.count : 0;
        for (int i = 0; i < step->writes.count + reads; i++) {
            const Expr *access = i < reads ? step->reads.items[i] : step->writes.items[i - reads];
            const List *users = &chunking->users[access->tensor->id];
            for (int j = 0; is_as_large(access->tensor, whole, chunking->rows) && j < users->count;
                 j++)
                make_member(chunking, users->items[j], &waiting);
        }
    }
}

static Mark *mark_of(Chunking *chunking, const Expr *access) {
    MUST(access->kind == EXPR_READ);
    Mark *mark = &chunking->marks[access->tensor->id];
    if (mark->round != chunking->round) *mark = (Mark){chunking->round, false, false, -1, -1, -1};
    return mark;
}

/* True for a sum, added to its tensor or the first value of it. */
static bool is_adding(const ChunkedStatement *step) {
    const Statement *statement = step->statement;
    if (statement->kind != STATEMENT_LOOP || statement->target->kind != EXPR_READ) return false;
    bool sum = statement->reduction == REDUCE_NONE || statement->reduction == REDUCE_SUM;
    return sum && !statement_is_scatter(statement) &&
           !accesses_have(&step->reads, statement->target->tensor);
}

static void take_first(int *first, int position) {
    if (position >= 0 && (*first < 0 || position < *first)) *first = position;
}

/* True if the step conflicts with a member or with a step after the members: one of the two
 * writes a tensor that the other accesses. Sets *after to the first such step after the members,
 * or -1. A tensor that both only add to does not count there, because sums are made in any
 * order. */
static bool meets(Chunking *chunking, const ChunkedStatement *step, int *after) {
    bool met = false;
    *after = -1;
    for (int i = 0; i < step->reads.count; i++) {
        const Mark *mark = mark_of(chunking, step->reads.items[i]);
        met |= mark->written;
        take_first(after, mark->after_written);
    }
    bool adds = step->statement->accumulate && is_adding(step);
    for (int i = 0; i < step->writes.count; i++) {
        const Mark *mark = mark_of(chunking, step->writes.items[i]);
        met |= mark->touched;
        take_first(after, adds ? mark->after_used : mark->after_touched);
    }
    return met;
}

static void mark_step(Chunking *chunking, const ChunkedStatement *step, int after) {
    for (int i = 0; i < step->reads.count; i++) {
        Mark *mark = mark_of(chunking, step->reads.items[i]);
        mark->touched = true;
        if (mark->after_touched < 0) mark->after_touched = after;
        if (mark->after_used < 0) mark->after_used = after;
    }
    for (int i = 0; i < step->writes.count; i++) {
        Mark *mark = mark_of(chunking, step->writes.items[i]);
        mark->touched = mark->written = true;
        if (mark->after_touched < 0) mark->after_touched = after;
        if (mark->after_written < 0) mark->after_written = after;
        if (mark->after_used < 0 && !is_adding(step)) mark->after_used = after;
    }
}

static void find_ends(Chunking *chunking) {
    chunking->first = chunking->count;
    for (int i = 0; i < chunking->count; i++) {
        if (!chunking->steps[i].member) continue;
        if (i < chunking->first) chunking->first = i;
        chunking->last = i;
    }
}

/* Moves steps between members before or after all of them, or makes them members. Returns false if
 * none has to join. More members never free a step that has to join; one round may therefore find
 * several. */
static bool place_others(Chunking *chunking, const Tensor *whole) {
    ChunkedStatement *steps = chunking->steps;
    List joining = {0};
    find_ends(chunking);
    chunking->round++;
    for (int i = chunking->first; i <= chunking->last; i++) {
        int after;
        bool met = meets(chunking, &steps[i], &after);
        steps[i].where = steps[i].member ? INSIDE : met ? AFTER : BEFORE;
        if (steps[i].member && after >= 0)
            list_push(chunking->program->arena, &joining, &steps[after]);
        if (steps[i].where == BEFORE) continue;
        mark_step(chunking, &steps[i], steps[i].where == AFTER ? i : -1);
    }
    for (int i = 0; i < joining.count; i++) join_chunks(chunking, joining.items[i], whole);
    return joining.count > 0;
}

bool begins_late(const Chunking *chunking, const ChunkedStatement *step) {
    if (step->where != AFTER || !is_adding(step) || step->statement->accumulate) return false;
    const Tensor *tensor = step->statement->target->tensor;
    const List *users = &chunking->users[tensor->id];
    int i = 0;
    while (i < users->count &&
           !accesses_have(&((const ChunkedStatement *)users->items[i])->writes, tensor))
        i++;
    MUST(i < users->count);
    return users->items[i] == step && chunking->cuts[tensor->id] != UNCUT;
}

/* ---- possible cuts ---- */

/* The dimension in which every access of a member to the tensor stays within the member's own
 * chunk, or -1. */
static int stripped_dimension(const Chunking *chunking, const Tensor *tensor, int cut) {
    unsigned dimensions = (1u << tensor->rank) - 1;
    const List *users = &chunking->users[tensor->id];
    LIST_EACH(const ChunkedStatement, step, users) {
        for (int j = 0; step->member && j < step->leaves.count; j++) {
            const Leaf *leaf = step->leaves.items[j];
            if (!accesses_have(&leaf->accesses, tensor)) continue;
            const Index *loop = loop_over(leaf, chunking->axes[cut]);
            LIST_EACH(const Expr, access, &leaf->accesses)
                for (int d = 0; access->tensor == tensor && d < access->count; d++)
                    if (access->args[d]->kind != EXPR_INDEX || access->args[d]->index != loop)
                        dimensions &= ~(1u << d);
        }
    }
    for (int d = 0; d < tensor->rank; d++)
        if (dimensions >> d & 1) return d;
    return -1;
}

static bool is_sliced(const Chunking *chunking, const Tensor *tensor) {
    for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++) {
        int dimension = stripped_dimension(chunking, tensor, cut);
        if (dimension < 0) return false;
        chunking->dimensions[cut][tensor->id] = dimension;
    }
    return true;
}

/* True if members only add to it; the first may set it to a sum. */
static bool is_summed(const Chunking *chunking, const Tensor *tensor) {
    const List *users = &chunking->users[tensor->id];
    LIST_EACH(const ChunkedStatement, step, users) {
        const Statement *statement = step->statement;
        if (!step->member) continue;
        if (statement->kind != STATEMENT_LOOP) return false;
        bool sum = statement->reduction == REDUCE_SUM && !statement_is_scatter(statement);
        if (accesses_have(&step->reads, tensor) || (!statement->accumulate && !sum)) return false;
    }
    return true;
}

static bool is_local(const Chunking *chunking, const Tensor *tensor) {
    if (tensor->role != ROLE_TEMP || chunking->cuts[tensor->id] != SLICED ||
        chunking->outside[tensor->id])
        return false;
    const List *users = &chunking->users[tensor->id];
    for (int i = 0; i < users->count; i++)
        if (!((const ChunkedStatement *)users->items[i])->member) return false;
    return true;
}

/* Decides how the tensor that a member writes is cut. */
static bool cut_tensor(Chunking *chunking, const Leaf *leaf) {
    const Tensor *tensor = leaf->statement->target->tensor;
    bool sliced = is_sliced(chunking, tensor);
    if (!sliced && !is_summed(chunking, tensor)) return false;
    chunking->cuts[tensor->id] = sliced ? SLICED : SUMMED;
    chunking->local[tensor->id] = is_local(chunking, tensor);
    return true;
}

static bool cut_tensors(Chunking *chunking) {
    for (int i = chunking->first; i <= chunking->last; i++) {
        const ChunkedStatement *step = &chunking->steps[i];
        for (int j = 0; step->member && j < step->leaves.count; j++)
            if (!cut_tensor(chunking, step->leaves.items[j])) return false;
    }
    return true;
}

/* ---- chunk size ---- */

/* The largest divisor of `size` up to `most`, or the next greater one if that is less than half of
 * `most`. */
static long divisor_near(long size, long most) {
    long below = 1, above = size;
    for (long i = 1; i <= size / i; i++) {
        const long pair[] = {i, size / i};
        if (size % i) continue;
        for (int j = 0; j < 2; j++) {
            if (pair[j] <= most && pair[j] > below) below = pair[j];
            if (pair[j] > most && pair[j] < above) above = pair[j];
        }
    }
    return 2 * below >= most ? below : above;
}

/* Whole rows of the inner axis if one of them is at most `wanted` rows, else a part of one. */
static bool choose_sizes(Chunking *chunking, const Tensor *whole, long wanted) {
    long outer = whole->axes[0]->size, inner = whole->rank > 2 ? whole->axes[1]->size : 1;
    chunking->axes[0] = whole->axes[0];
    chunking->axes[1] = NULL;
    chunking->sizes[0] = divisor_near(outer, wanted / inner > 1 ? wanted / inner : 1);
    if (inner > wanted) {
        chunking->sizes[0] = 1;
        chunking->sizes[1] = divisor_near(inner, wanted);
        if (chunking->sizes[1] < inner) chunking->axes[1] = whole->axes[1];
    }
    return chunking->sizes[0] < outer || chunking->axes[1];
}

static bool has_packed_rows(const Tensor *tensor) {
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->axes[i]->kind == AXIS_ROWS) return true;
    return false;
}

static long chunk_bytes(const Program *program) {
    long saved = 0;
    for (int i = 0; i < program->tensors.count && program->target->launches; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_TEMP && tensor->rank && tensor->axes[0]->kind == AXIS_REPEAT)
            saved += 4 * tensor_elements(tensor);
    }
    const long bytes = saved / SAVED_SHARE;
    return bytes < MIN_BYTES ? MIN_BYTES : bytes > MAX_BYTES ? MAX_BYTES : bytes;
}

static long rows_wanted(const Program *program, const Tensor *whole, long rows) {
    long count = outer_count(whole), bytes = 4 * (tensor_elements(whole) / count);
    bool slabs = has_slabs(whole, rows);
    long fitting = (slabs ? program->target->part_bytes : chunk_bytes(program)) / bytes;
    long least = slabs ? 1 : STRIP_MIN_ROWS;
    if (rows <= 0) rows = fitting > least ? fitting : least;
    return rows < count ? rows : 0;
}

/* ---- the pass ---- */

static bool chunk_around(Chunking *chunking, const Tensor *whole, long rows) {
    const List *users = &chunking->users[whole->id];
    if (!choose_sizes(chunking, whole, rows)) return false;
    start_again(chunking);
    for (int i = 0; i < users->count; i++) join_chunks(chunking, users->items[i], whole);
    while (!chunking->fails && place_others(chunking, whole)) continue;
    if (chunking->fails || !cut_tensors(chunking) || !chunking->local[whole->id]) return false;
    const bool slabs = has_slabs(whole, chunking->rows);
    const bool ordered = slabs && !chunking->program->target->launches;
    const int tensors = chunking->program->tensors.count;
    Statement *repeat = repeat_parts(chunking, whole);
    repeat->ordered = ordered;
    chunking->program->has[slabs ? HAS_STRIP_MINED_MATRICES : HAS_STRIP_MINED] = true;
    if (ordered) live_ranges(chunking->program, &repeat->body, chunking->local, tensors);
    return true;
}

static int larger_first(const void *a, const void *b) {
    const Tensor *one = *(Tensor *const *)a, *other = *(Tensor *const *)b;
    long difference = tensor_elements(other) - tensor_elements(one);
    return difference ? (difference > 0 ? 1 : -1) : one->id - other->id;
}

/* Chunks the temporaries of a block, the largest first. */
static void mine_block(Program *program, Block *block, Tensor *const *tensors, int count,
                       long rows) {
    Chunking chunking = {0};
    for (int i = 0; i < count; i++) {
        long wanted = tensors[i]->rank > 1 ? rows_wanted(program, tensors[i], rows) : 0;
        if (!wanted || (block != &program->body && !has_slabs(tensors[i], rows))) continue;
        if (!chunking.program) {
            chunking = chunking_new(program, block);
            chunking.rows = rows;
        }
        if (!chunking.users[tensors[i]->id].count || chunking.outside[tensors[i]->id]) continue;
        if (chunk_around(&chunking, tensors[i], wanted)) chunking = (Chunking){0};
    }
}

/* strip_mine: see the head of this file. rows: per chunk; 0: as many as keep products efficient. */
void strip_mine(Program *program, long rows) {
    int count = 0;
    size_t bytes = ((size_t)program->tensors.count + 1) * sizeof(Tensor *);
    Tensor **tensors = arena_alloc(program->arena, bytes);
    LIST_EACH(Tensor, tensor, &program->tensors)
        if (tensor->role == ROLE_TEMP && tensor->rank > 1 && !has_packed_rows(tensor) &&
            rows_wanted(program, tensor, rows))
            tensors[count++] = tensor;
    qsort(tensors, (size_t)count, sizeof *tensors, larger_first);
    LIST_EACH(Statement, statement, &program->body.statements)
        if (statement->kind == STATEMENT_REPEAT)
            mine_block(program, &statement->body, tensors, count, rows);
    mine_block(program, &program->body, tensors, count, rows);
    if (program->properties & HAS_PRODUCTS) find_products(program); /* over the loops of a chunk */
}
