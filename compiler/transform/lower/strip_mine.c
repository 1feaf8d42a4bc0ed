/* strip_mine: compute large temporaries a part of their rows at a time.
 *
 * Needs:   gradient, simplify, route; statements in the body of the program, outside of its
 * repeats. Leaves:  the statements around a large temporary in a repeat over parts of its outer
 * axis, or of its two outer axes; what only they use is as large as one part. Sums over these axes
 * are added up part by part.
 *
 *     y[b,s,v] = sum[d] x[b,s,d] * w[d,v]         dw, l = 0
 *     l = sum[b,s,v] f(y[b,s,v])                  repeat i < 4
 *     dy[b,s,v] = g(y[b,s,v])              -->        y[b,s,v] = sum[d] x[2*i+b,s,d] * w[d,v]
 *     dx[b,s,d] = sum[v] dy[b,s,v] * w[d,v]           l += sum[b,s,v] f(y[b,s,v])
 *     dw[d,v] += sum[b,s] x[b,s,d] * dy[b,s,v]        dy[b,s,v] = g(y[b,s,v])
 *                                                     dx[2*i+b,s,d] = sum[v] dy[b,s,v] * w[d,v]
 *                                                     dw[d,v] += sum[b,s] x[2*i+b,s,d] * dy[b,s,v]
 *
 * Whatever depends on one of these statements while another depends on it goes with them. Where one
 * of them needs a sum over all parts before the next part may begin, the temporary stays whole.
 * Packed rows stay whole, too: a product over them is one of all groups, and a part of the rows has
 * no groups.
 */
#include "analysis/access.h"
#include "ir/rewrite.h"
#include "passes.h"

#include <stdlib.h>
#include <string.h>

/* A part is large enough that its products are as fast as the whole's, and that adding a weight's
 * gradient up, which reads and writes all of it once a part, costs little beside them. */
enum { MIN_ROWS = 1024, MIN_BYTES = 64 << 20 };

typedef enum Where { BEFORE, INSIDE, AFTER } Where;

/* A statement of the body, with all that it and what it contains touches. */
typedef struct Step {
    Statement *statement;
    List reads, writes; /* Expr * */
    bool member;        /* computed part by part */
    Where where;        /* beside the repeat that the members become */
} Step;

/* How a tensor that members write is cut. */
typedef enum Cut {
    UNCUT,  /* no member writes it */
    SLICED, /* each part touches elements of its own */
    SUMMED  /* added to by every part, read by none */
} Cut;

/* Of one tensor: who among those that do not stand before the members touches it. Holds for one
 * round of place_others. */
typedef struct Mark {
    int round;
    bool touched, written;
    int after_touched, after_written; /* the first of those behind the members, -1: none */
} Mark;

typedef struct Chunking {
    Program *program;
    Step *steps;
    List *users; /* by tensor->id: Step * that touch it */
    Mark *marks; /* by tensor->id */
    int round;
    int count, first, last; /* of all members: the first and the last */
    Cut *cuts;              /* by tensor->id */
    bool *local;            /* by tensor->id: members alone touch it */
    Axis *axes[2];          /* what is cut; axes[1] NULL: only the first */
    long sizes[2];          /* of a part of them */
    Axis *within[2];        /* the axes of one part; NULL: one element, which the index names */
    Index *index;
} Chunking;

/* ---- who touches what ---- */

static void collect(Arena *arena, const Statement *statement, Step *step) {
    reads_of(arena, statement, &step->reads);
    writes_of(arena, statement, &step->writes);
    for (int i = 0; i < statement->body.statements.count; i++)
        collect(arena, statement->body.statements.items[i], step);
}

static void note_users(Chunking *chunking, Step *step, const List *accesses) {
    for (int i = 0; i < accesses->count; i++) {
        List *users = &chunking->users[((const Expr *)accesses->items[i])->tensor->id];
        if (!users->count || users->items[users->count - 1] != step)
            list_push(chunking->program->arena, users, step);
    }
}

static Chunking chunking_new(Program *program) {
    const List *body = &program->body.statements;
    size_t tensors = (size_t)program->tensors.count + 1;
    Chunking chunking = {.program = program, .count = body->count};
    chunking.steps =
        arena_alloc(program->arena, ((size_t)body->count + 1) * sizeof *chunking.steps);
    chunking.cuts = arena_alloc(program->arena, tensors * sizeof *chunking.cuts);
    chunking.local = arena_alloc(program->arena, tensors * sizeof *chunking.local);
    chunking.users = arena_alloc(program->arena, tensors * sizeof *chunking.users);
    chunking.marks = arena_alloc(program->arena, tensors * sizeof *chunking.marks);
    for (int i = 0; i < body->count; i++) {
        Step *step = &chunking.steps[i];
        step->statement = body->items[i];
        collect(program->arena, body->items[i], step);
        note_users(&chunking, step, &step->reads);
        note_users(&chunking, step, &step->writes);
    }
    return chunking;
}

/* As new, for another temporary of the same program. */
static void start_again(Chunking *chunking) {
    size_t tensors = (size_t)chunking->program->tensors.count;
    memset(chunking->cuts, 0, tensors * sizeof *chunking->cuts);
    memset(chunking->local, 0, tensors * sizeof *chunking->local);
    for (int i = 0; i < chunking->count; i++) {
        chunking->steps[i].member = false;
        chunking->steps[i].where = BEFORE;
    }
}

static bool names(const List *accesses, const Tensor *tensor) {
    for (int i = 0; i < accesses->count; i++)
        if (((const Expr *)accesses->items[i])->tensor == tensor) return true;
    return false;
}

static bool touches(const Step *step, const Tensor *tensor) {
    return names(&step->reads, tensor) || names(&step->writes, tensor);
}

/* ---- the members ---- */

static bool is_as_large(const Tensor *tensor, const Tensor *than) {
    return tensor->role == ROLE_TEMP && tensor_elements(tensor) >= tensor_elements(than);
}

/* Makes it a member, and with it everyone who touches a temporary as large as `whole` that a member
 * writes. */
static void join(Chunking *chunking, Step *first, const Tensor *whole) {
    Arena *arena = chunking->program->arena;
    List waiting = {0};
    first->member = true;
    list_push(arena, &waiting, first);
    while (waiting.count) {
        const Step *step = waiting.items[--waiting.count];
        for (int i = 0; i < step->writes.count; i++) {
            const Tensor *tensor = ((const Expr *)step->writes.items[i])->tensor;
            const List *users = &chunking->users[tensor->id];
            for (int j = 0; is_as_large(tensor, whole) && j < users->count; j++) {
                Step *user = users->items[j];
                if (user->member) continue;
                user->member = true;
                list_push(arena, &waiting, user);
            }
        }
    }
}

static Mark *mark_of(Chunking *chunking, const Expr *access) {
    Mark *mark = &chunking->marks[access->tensor->id];
    if (mark->round != chunking->round) *mark = (Mark){chunking->round, false, false, -1, -1};
    return mark;
}

static void take_first(int *first, int place) {
    if (place >= 0 && (*first < 0 || place < *first)) *first = place;
}

/* Does the step meet one of those that do not stand before the members: does one of the two write
 * what the other touches? *after: the first such step behind the members, or -1. */
static bool meets(Chunking *chunking, const Step *step, int *after) {
    bool met = false;
    *after = -1;
    for (int i = 0; i < step->reads.count; i++) {
        const Mark *mark = mark_of(chunking, step->reads.items[i]);
        met |= mark->written;
        take_first(after, mark->after_written);
    }
    for (int i = 0; i < step->writes.count; i++) {
        const Mark *mark = mark_of(chunking, step->writes.items[i]);
        met |= mark->touched;
        take_first(after, mark->after_touched);
    }
    return met;
}

static void mark_accesses(Chunking *chunking, const List *accesses, bool write, int after) {
    for (int i = 0; i < accesses->count; i++) {
        Mark *mark = mark_of(chunking, accesses->items[i]);
        mark->touched = true;
        mark->written |= write;
        if (mark->after_touched < 0) mark->after_touched = after;
        if (write && mark->after_written < 0) mark->after_written = after;
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

/* Who stands between members goes before or after all of them, or joins; false when nobody has to.
 * With more members nobody who had to join is free again, so one round may find several. */
static bool place_others(Chunking *chunking, const Tensor *whole) {
    Step *steps = chunking->steps;
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
        int behind = steps[i].where == AFTER ? i : -1;
        mark_accesses(chunking, &steps[i].reads, false, behind);
        mark_accesses(chunking, &steps[i].writes, true, behind);
    }
    for (int i = 0; i < joining.count; i++) join(chunking, joining.items[i], whole);
    return joining.count > 0;
}

/* ---- whether they can be cut ---- */

/* The only loop of a statement over an axis, or NULL. */
static Index *loop_over(const Statement *statement, const Axis *axis) {
    Index *found = NULL;
    for (int i = 0; i < statement->loop_count; i++) {
        if (statement->loops[i]->axis != axis) continue;
        if (found) return NULL;
        found = statement->loops[i];
    }
    return found;
}

static int dimension_over(const Tensor *tensor, const Axis *axis) {
    int found = -1;
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->axes[i] != axis) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

/* Every access of the tensor by a member names elements of the member's own part. */
static bool is_sliced(const Chunking *chunking, const Tensor *tensor) {
    for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++) {
        int dimension = dimension_over(tensor, chunking->axes[cut]);
        if (dimension < 0) return false;
        for (int i = chunking->first; i <= chunking->last; i++) {
            const Step *step = &chunking->steps[i];
            if (!step->member) continue;
            const Index *loop = loop_over(step->statement, chunking->axes[cut]);
            for (int j = 0; j < step->reads.count + step->writes.count; j++) {
                const Expr *access = j < step->reads.count
                                         ? step->reads.items[j]
                                         : step->writes.items[j - step->reads.count];
                const Expr *sub = access->tensor == tensor ? access->args[dimension] : NULL;
                if (sub && (sub->kind != EXPR_INDEX || sub->index != loop)) return false;
            }
        }
    }
    return true;
}

/* Members only add to it: the first may set it, to a sum. */
static bool is_summed(const Chunking *chunking, const Tensor *tensor) {
    for (int i = chunking->first; i <= chunking->last; i++) {
        const Step *step = &chunking->steps[i];
        const Statement *statement = step->statement;
        if (!step->member || !touches(step, tensor)) continue;
        bool sum = statement->reduction == REDUCE_SUM && !statement_is_scatter(statement);
        if (names(&step->reads, tensor) || (!statement->accumulate && !sum)) return false;
    }
    return true;
}

static bool is_local(const Chunking *chunking, const Tensor *tensor) {
    if (tensor->role != ROLE_TEMP || chunking->cuts[tensor->id] != SLICED) return false;
    for (int i = 0; i < chunking->count; i++)
        if (!chunking->steps[i].member && touches(&chunking->steps[i], tensor)) return false;
    return true;
}

/* Decides for each tensor that members write how it is cut. */
static bool cut_tensors(Chunking *chunking) {
    for (int i = chunking->first; i <= chunking->last; i++) {
        const Step *step = &chunking->steps[i];
        const Statement *statement = step->statement;
        if (!step->member) continue;
        if (statement->kind != STATEMENT_LOOP || statement->once) return false;
        for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++)
            if (!loop_over(statement, chunking->axes[cut])) return false;
        const Tensor *tensor = statement->target->tensor;
        bool sliced = is_sliced(chunking, tensor);
        if (!sliced && !is_summed(chunking, tensor)) return false;
        chunking->cuts[tensor->id] = sliced ? SLICED : SUMMED;
        chunking->local[tensor->id] = is_local(chunking, tensor);
    }
    return true;
}

/* ---- the size of a part ---- */

/* The largest divisor of `size` that is at most `most`, or the next above where that is less than
 * half of it. */
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

/* Whole runs of the inner axis where one of them is no more than the rows wanted, else a part of
 * one run. */
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

static long rows_wanted(const Tensor *whole, long rows) {
    long count = whole->axes[0]->size * (whole->rank > 2 ? whole->axes[1]->size : 1);
    long fitting = MIN_BYTES / (4 * (tensor_elements(whole) / count));
    if (rows <= 0) rows = fitting > MIN_ROWS ? fitting : MIN_ROWS;
    return rows < count ? rows : 0;
}

/* ---- the members rewritten ---- */

/* The axes of one part, and the index of the parts. */
static void make_axes(Chunking *chunking, const Tensor *whole) {
    Program *program = chunking->program;
    long parts = 1;
    for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++) {
        const Axis *axis = chunking->axes[cut];
        parts *= axis->size / chunking->sizes[cut];
        chunking->within[cut] =
            chunking->sizes[cut] == 1
                ? NULL
                : axis_new(program, axis->name, chunking->sizes[cut], AXIS_PLAIN, axis->span);
    }
    Axis *axis = axis_new(program, arena_format(program->arena, "%s_part", whole->name), parts,
                          AXIS_REPEAT, whole->span);
    chunking->index = index_new(program, "chunk", axis);
}

/* Which part of an axis the index stands for. */
static Expr *part_of(const Chunking *chunking, int cut) {
    Program *program = chunking->program;
    Expr *number = expr_index(program, chunking->index);
    if (!chunking->axes[1]) return number;
    if (chunking->axes[0]->size == 1) return cut ? number : expr_number(program, 0);
    Expr *inner = expr_number(program, (double)(chunking->axes[1]->size / chunking->sizes[1]));
    if (cut) return expr_apply(program, OP_MOD, number, inner, NULL);
    return expr_apply(program, OP_FLOOR, expr_apply(program, OP_DIV, number, inner, NULL), NULL,
                      NULL);
}

/* One statement on its way into the repeat. */
typedef struct Rewriting {
    const Chunking *chunking;
    Index *loops[2]; /* over the parts; NULL: none */
} Rewriting;

/* A tensor as large as one part has no other parts to tell apart. */
static Expr *shrink_read(Program *program, Expr *read, void *data) {
    const Rewriting *rewriting = data;
    const Chunking *chunking = rewriting->chunking;
    if (read->tensor->id >= program->tensors.count || !chunking->local[read->tensor->id])
        return NULL;
    Expr *result = arena_alloc(program->arena, sizeof *result);
    *result = *read;
    result->args = arena_alloc(program->arena, ((size_t)read->count + 1) * sizeof *result->args);
    result->count = 0;
    for (int i = 0; i < read->count; i++) {
        int cut = read->tensor->axes[i] == chunking->axes[0]   ? 0
                  : read->tensor->axes[i] == chunking->axes[1] ? 1
                                                               : -1;
        if (cut < 0) result->args[result->count++] = read->args[i];
        if (cut >= 0 && rewriting->loops[cut])
            result->args[result->count++] = expr_index(program, rewriting->loops[cut]);
    }
    return result;
}

static void rewrite_member(const Chunking *chunking, Statement *statement) {
    Program *program = chunking->program;
    Rewriting rewriting = {.chunking = chunking};
    Index *from[2];
    Expr *to[2];
    int count = 0;
    for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++) {
        from[cut] = loop_over(statement, chunking->axes[cut]);
        to[cut] = part_of(chunking, cut);
        if (chunking->within[cut]) {
            Index *loop = index_new(program, from[cut]->name, chunking->within[cut]);
            Expr *size = expr_number(program, (double)chunking->sizes[cut]);
            rewriting.loops[cut] = loop;
            to[cut] = expr_apply(program, OP_ADD, expr_apply(program, OP_MUL, to[cut], size, NULL),
                                 expr_index(program, loop), NULL);
        }
        count++;
    }
    statement->target = expr_substitute(program, statement->target, from, to, count);
    if (statement->target->kind != EXPR_READ) return;
    statement->value = expr_substitute(program, statement->value, from, to, count);
    rewrite_statement(program, statement, true, shrink_read, &rewriting);
    int kept = 0, reduced = 0;
    for (int i = 0; i < statement->loop_count; i++) {
        Index *loop = statement->loops[i];
        for (int cut = 0; cut < count; cut++)
            if (loop == from[cut]) loop = rewriting.loops[cut];
        if (!loop) continue;
        statement->loops[kept++] = loop;
        reduced += !expr_uses_index(statement->target, loop);
    }
    statement->loop_count = kept;
    if (!reduced) statement->reduction = REDUCE_NONE;
    if (chunking->cuts[statement->target->tensor->id] == SUMMED) statement->accumulate = true;
}

/* What a member set to a sum starts from 0 instead. */
static void add_start(const Chunking *chunking, const Statement *statement, Block *block) {
    Program *program = chunking->program;
    if (statement->accumulate || chunking->cuts[statement->target->tensor->id] != SUMMED) return;
    Index *from[MAX_LOOPS];
    Expr *to[MAX_LOOPS];
    for (int i = 0; i < statement->loop_count; i++) {
        from[i] = statement->loops[i];
        to[i] = expr_index(program, index_new(program, from[i]->name, from[i]->axis));
    }
    Expr *target = expr_substitute(program, statement->target, from, to, statement->loop_count);
    statement_loop(program, block, target, false, REDUCE_NONE, NULL, 0, expr_number(program, 0),
                   statement->span);
}

static void shrink_tensors(const Chunking *chunking, int count) {
    for (int i = 0; i < count; i++) {
        Tensor *tensor = chunking->program->tensors.items[i];
        if (!chunking->local[i]) continue;
        int kept = 0;
        for (int j = 0; j < tensor->rank; j++) {
            Axis *axis = tensor->axes[j];
            for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++)
                if (axis == chunking->axes[cut]) axis = chunking->within[cut];
            if (axis) tensor->axes[kept++] = axis;
        }
        tensor->rank = kept;
    }
}

/* A sum of all rows that looks into the large temporary is one of each row first, in the loops that
 * have the row at hand. What such a sum makes of the rows is left for the end of the iteration. */
static void sum_rows(const Chunking *chunking, Block *body, Block *sums, Statement *statement) {
    Program *program = chunking->program;
    const Tensor *target = statement->target->tensor;
    List reads = {0};
    bool looks = false;
    Index *loops[2];
    Axis *axes[2];
    int rank = 0;
    reads_of(program->arena, statement, &reads);
    for (int i = 0; i < reads.count; i++) {
        const Tensor *tensor = ((Expr *)reads.items[i])->tensor;
        looks |= chunking->local[tensor->id] && tensor->rank > statement->loop_count;
    }
    for (int i = 0; i < statement->loop_count && i < 2; i++) {
        loops[rank] = statement->loops[i];
        axes[rank++] = loops[i]->axis;
    }
    if (target->rank || !looks || !rank || statement->reduction != REDUCE_SUM) {
        list_push(program->arena, &body->statements, statement);
        return;
    }
    Tensor *row = tensor_new(program, arena_format(program->arena, "%s_row", target->name),
                             ROLE_TEMP, TYPE_REAL, rank, axes, target->span);
    Expr *made = expr_read_indices(program, row, loops);
    statement_loop(program, body, made, false, REDUCE_NONE, NULL, 0, statement->value,
                   statement->span);
    for (int i = 0; i < rank; i++) loops[i] = index_new(program, loops[i]->name, axes[i]);
    statement_loop(program, sums, expr_read(program, statement->target->tensor, NULL), true,
                   REDUCE_SUM, loops, rank, expr_read_indices(program, row, loops),
                   statement->span);
}

static void add_rows(const Chunking *chunking, Block *body) {
    const List members = body->statements;
    Block sums = {{0}};
    body->statements = (List){0};
    for (int i = 0; i < members.count; i++) sum_rows(chunking, body, &sums, members.items[i]);
    for (int i = 0; i < sums.statements.count; i++)
        list_push(chunking->program->arena, &body->statements, sums.statements.items[i]);
}

static void add_all(const Chunking *chunking, Where where, Block *block) {
    for (int i = chunking->first; i <= chunking->last; i++)
        if (chunking->steps[i].where == where)
            list_push(chunking->program->arena, &block->statements, chunking->steps[i].statement);
}

/* What would be stored outside its tensor is stored nowhere. */
static void drop_outside(Block *block) {
    int kept = 0;
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        if (statement->kind == STATEMENT_LOOP && statement->target->kind != EXPR_READ) continue;
        block->statements.items[kept++] = statement;
    }
    block->statements.count = kept;
}

static void rewrite_body(Chunking *chunking, const Tensor *whole) {
    Program *program = chunking->program;
    Block body = {{0}};
    make_axes(chunking, whole);
    for (int i = 0; i < chunking->first; i++)
        list_push(program->arena, &body.statements, chunking->steps[i].statement);
    add_all(chunking, BEFORE, &body);
    for (int i = chunking->first; i <= chunking->last; i++)
        if (chunking->steps[i].member) add_start(chunking, chunking->steps[i].statement, &body);
    Statement *repeat = statement_repeat(program, &body, chunking->index, false, whole->span);
    add_all(chunking, INSIDE, &repeat->body);
    add_all(chunking, AFTER, &body);
    for (int i = chunking->last + 1; i < chunking->count; i++)
        list_push(program->arena, &body.statements, chunking->steps[i].statement);
    int tensors = program->tensors.count;
    for (int i = chunking->first; i <= chunking->last; i++)
        if (chunking->steps[i].member) rewrite_member(chunking, chunking->steps[i].statement);
    drop_outside(&repeat->body);
    shrink_tensors(chunking, tensors);
    add_rows(chunking, &repeat->body);
    program->body = body;
}

/* ---- the pass ---- */

static bool chunk_around(Chunking *chunking, const Tensor *whole, long rows) {
    const List *users = &chunking->users[whole->id];
    if (!choose_sizes(chunking, whole, rows)) return false;
    start_again(chunking);
    for (int i = 0; i < users->count; i++) join(chunking, users->items[i], whole);
    while (place_others(chunking, whole)) continue;
    if (!cut_tensors(chunking) || !chunking->local[whole->id]) return false;
    rewrite_body(chunking, whole);
    return true;
}

static int larger_first(const void *a, const void *b) {
    const Tensor *one = *(Tensor *const *)a, *other = *(Tensor *const *)b;
    long difference = tensor_elements(other) - tensor_elements(one);
    return difference ? (difference > 0 ? 1 : -1) : one->id - other->id;
}

/* strip_mine: see the head of this file. rows: of one part; 0: as many as keep products efficient.
 * */
void strip_mine(Program *program, long rows) {
    int count = 0;
    size_t bytes = ((size_t)program->tensors.count + 1) * sizeof(Tensor *);
    Tensor **tensors = arena_alloc(program->arena, bytes);
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_TEMP && tensor->rank > 1 && !has_packed_rows(tensor) &&
            rows_wanted(tensor, rows))
            tensors[count++] = tensor;
    }
    qsort(tensors, (size_t)count, sizeof *tensors, larger_first);
    Chunking chunking = {0};
    for (int i = 0; i < count; i++) {
        long wanted = tensors[i]->rank > 1 ? rows_wanted(tensors[i], rows) : 0;
        if (!wanted) continue;
        if (!chunking.program) chunking = chunking_new(program);
        if (chunk_around(&chunking, tensors[i], wanted)) chunking = (Chunking){0};
    }
}
