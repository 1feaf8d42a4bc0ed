/* strip_parts: moves the members of a strip into a repeat over its chunks. See strip_mine.c. */
#include "transform/lower/strip_mine.h"
#include "base/must.h"

#include "analysis/access.h"
#include "ir/ir.h"

/* Creates the axes of one chunk, and the index of the chunks. */
static void make_axes(Chunking *chunking, const Tensor *whole) {
    Program *program = chunking->program;
    long parts = 1;
    for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++) {
        const Axis *axis = chunking->axes[cut];
        MUST(axis->size % chunking->sizes[cut] == 0);
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

/* The chunk of an axis that the index selects. */
static Expr *chunk_of(const Chunking *chunking, int cut) {
    Program *program = chunking->program;
    Expr *number = expr_index(program, chunking->index);
    if (!chunking->axes[1]) return number;
    if (chunking->axes[0]->size == 1) return cut ? number : expr_number(program, 0);
    Expr *inner = expr_number(program, (double)(chunking->axes[1]->size / chunking->sizes[1]));
    if (cut) return expr_apply(program, OP_MOD, number, inner, NULL);
    return expr_apply(program, OP_FLOOR, expr_apply(program, OP_DIV, number, inner, NULL), NULL,
                      NULL);
}

/* A statement that is rewritten for the repeat. */
typedef struct Rewriting {
    const Chunking *chunking;
    Index *loops[2]; /* over the elements of a chunk; NULL: none */
} Rewriting;

/* The cut of a dimension of a tensor, or -1. */
static int cut_of(const Chunking *chunking, const Tensor *tensor, int dimension) {
    for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++)
        if (chunking->dimensions[cut][tensor->id] == dimension) return cut;
    return -1;
}

/* A tensor with the size of one chunk has no subscript for the chunk. */
static Expr *shrink_read(Program *program, Expr *read, void *data) {
    MUST(read->kind == EXPR_READ);
    const Rewriting *rewriting = data;
    const Chunking *chunking = rewriting->chunking;
    if (read->tensor->id >= program->tensors.count || !chunking->local[read->tensor->id])
        return NULL;
    Expr *result = arena_alloc(program->arena, sizeof *result);
    *result = *read;
    result->args = arena_alloc(program->arena, ((size_t)read->count + 1) * sizeof *result->args);
    result->count = 0;
    for (int i = 0; i < read->count; i++) {
        int cut = cut_of(chunking, read->tensor, i);
        if (cut < 0) result->args[result->count++] = read->args[i];
        if (cut >= 0 && rewriting->loops[cut])
            result->args[result->count++] = expr_index(program, rewriting->loops[cut]);
    }
    return result;
}

static void rewrite_member(const Chunking *chunking, const Leaf *leaf) {
    Statement *statement = leaf->statement;
    Program *program = chunking->program;
    Rewriting rewriting = {.chunking = chunking};
    Index *from[2];
    Expr *to[2];
    int count = 0;
    for (int cut = 0; cut < 2 && chunking->axes[cut]; cut++) {
        from[cut] = loop_over(leaf, chunking->axes[cut]);
        MUST(from[cut]);
        to[cut] = chunk_of(chunking, cut);
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
    MUST(kept <= MAX_LOOPS);
    statement->loop_count = kept;
    if (!reduced) statement->reduction = REDUCE_NONE;
    if (chunking->cuts[statement->target->tensor->id] == SUMMED) statement->accumulate = true;
}

static void rewrite_step(const Chunking *chunking, const ChunkedStatement *step) {
    for (int i = 0; i < step->leaves.count; i++) rewrite_member(chunking, step->leaves.items[i]);
}

static bool is_summing(const Chunking *chunking, const ChunkedStatement *step) {
    return step->member && step->statement->kind == STATEMENT_LOOP &&
           chunking->cuts[step->statement->target->tensor->id] == SUMMED;
}

/* A sum that was set starts from 0 instead. */
static void add_start(const Chunking *chunking, const Statement *statement, Block *block) {
    MUST(statement->kind == STATEMENT_LOOP);
    Program *program = chunking->program;
    if (statement->accumulate) return;
    Index *from[MAX_LOOPS];
    Expr *to[MAX_LOOPS];
    for (int i = 0; i < statement->loop_count; i++) {
        from[i] = statement->loops[i];
        to[i] = expr_index(program, index_new(program, from[i]->name, from[i]->axis));
    }
    Expr *target = expr_substitute(program, statement->target, from, to, statement->loop_count);
    statement_assign(program, block, target, expr_number(program, 0), statement->span);
}

static void shrink_tensors(const Chunking *chunking, int count) {
    for (int i = 0; i < count; i++) {
        Tensor *tensor = chunking->program->tensors.items[i];
        if (!chunking->local[i]) continue;
        int kept = 0;
        for (int j = 0; j < tensor->rank; j++) {
            int cut = cut_of(chunking, tensor, j);
            Axis *axis = cut < 0 ? tensor->axes[j] : chunking->within[cut];
            if (axis) tensor->axes[kept++] = axis;
        }
        tensor->rank = kept;
    }
}

/* A sum over all rows of the large temporary becomes a sum per row first, in the loops over the
 * row. The sums over the rows follow at the end of the iteration. */
static void sum_rows(const Chunking *chunking, Block *body, Block *sums, Statement *statement) {
    Program *program = chunking->program;
    const Tensor *target = statement->target ? statement->target->tensor : NULL;
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
    if (!target || target->rank || !looks || !rank || statement->reduction != REDUCE_SUM) {
        list_push(program->arena, &body->statements, statement);
        return;
    }
    MUST(rank <= 2);
    Tensor *row = tensor_new(program, arena_format(program->arena, "%s_row", target->name),
                             ROLE_TEMP, TYPE_REAL, rank, axes, target->span);
    Expr *made = expr_read_indices(program, row, loops);
    statement_assign(program, body, made, statement->value, statement->span);
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
    list_append(chunking->program->arena, &body->statements, &sums.statements);
}

static void add_all(const Chunking *chunking, ChunkPosition where, Block *block) {
    for (int i = chunking->first; i <= chunking->last; i++)
        if (chunking->steps[i].where == where)
            list_push(chunking->program->arena, &block->statements, chunking->steps[i].statement);
}

/* Removes statements that store outside of their tensor. */
static void drop_outside(Block *block) {
    int kept = 0;
    LIST_EACH(Statement, statement, &block->statements) {
        if (statement->kind == STATEMENT_LOOP && statement->target->kind != EXPR_READ) continue;
        block->statements.items[kept++] = statement;
    }
    block->statements.count = kept;
}

Statement *repeat_parts(Chunking *chunking, const Tensor *whole) {
    Program *program = chunking->program;
    Block body = {{0}};
    make_axes(chunking, whole);
    for (int i = 0; i < chunking->first; i++)
        list_push(program->arena, &body.statements, chunking->steps[i].statement);
    add_all(chunking, BEFORE, &body);
    for (int i = chunking->first; i <= chunking->last; i++) {
        const ChunkedStatement *step = &chunking->steps[i];
        const bool late = begins_late(chunking, step);
        if (late || is_summing(chunking, step)) add_start(chunking, step->statement, &body);
        step->statement->accumulate |= late;
    }
    Statement *repeat = statement_repeat(program, &body, chunking->index, false, whole->span);
    add_all(chunking, INSIDE, &repeat->body);
    add_all(chunking, AFTER, &body);
    for (int i = chunking->last + 1; i < chunking->count; i++)
        list_push(program->arena, &body.statements, chunking->steps[i].statement);
    int tensors = program->tensors.count;
    for (int i = chunking->first; i <= chunking->last; i++)
        if (chunking->steps[i].member) rewrite_step(chunking, &chunking->steps[i]);
    drop_outside(&repeat->body);
    shrink_tensors(chunking, tensors);
    for (int i = chunking->first; i <= chunking->last; i++) {
        Statement *statement = chunking->steps[i].statement;
        if (chunking->steps[i].member && statement_is_scan(statement))
            scan_operands(program, statement);
    }
    add_rows(chunking, &repeat->body);
    *chunking->block = body;
    return repeat;
}
