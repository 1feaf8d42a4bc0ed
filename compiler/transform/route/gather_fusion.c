/* gather_fusion: removes copies of gathered rows that only products over dispatched rows read.
 * These products gather rows themselves.
 *
 * Needs:   route.
 * Leaves:  the products read the source of the rows; no copy.
 *
 *     t[r,d] = x[s[r],d]
 *     y[r,f] = sum[d] t[r,d] * w[n[r],d,f]      -->     y[r,f] = sum[d] x[s[r],d] * w[n[r],d,f]
 */
#include "analysis/access.h"
#include "analysis/contraction.h"
#include "ir/ir.h"
#include "passes.h"

typedef struct Gather {
    Program *program;
    const Statement *copy;
} Gather;

static bool is_gathered_row(const Expr *sub) {
    return sub->kind == EXPR_READ && sub->count == 1 && sub->args[0]->kind == EXPR_INDEX;
}

/* True for a read of x with subscripts from row tables, or with the same subscripts for all
 * rows. */
static bool is_gather(const Statement *statement) {
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_NONE ||
        statement->accumulate || statement->once || statement_is_scatter(statement) ||
        statement->target->tensor->role != ROLE_TEMP || statement->value->kind != EXPR_READ)
        return false;
    const Expr *value = statement->value;
    bool rows = false;
    for (int i = 0; i < value->count; i++) {
        const Index *step;
        double offset;
        const Expr *sub = value->args[i];
        if (!is_gathered_row(sub) && sub->kind != EXPR_INDEX &&
            !step_and_offset(sub, &step, &offset))
            return false;
        rows |= is_gathered_row(sub);
    }
    for (int i = 0; i < statement->target->count; i++)
        if (statement->target->args[i]->kind != EXPR_INDEX ||
            statement->target->args[i]->index->of_repeat)
            return false;
    return rows && value->tensor->type == statement->target->tensor->type;
}

static Expr *replace(Program *program, Expr *read, void *data) {
    const Gather *gather = data;
    const Expr *target = gather->copy->target;
    Index *from[MAX_RANK];
    if (read->tensor != target->tensor) return NULL;
    for (int i = 0; i < read->count; i++) from[i] = target->args[i]->index;
    return expr_substitute(program, gather->copy->value, from, read->args, read->count);
}

/* True if the reader is a product over dispatched rows before and after the change. */
static bool takes(Gather *gather, const Statement *reader) {
    Statement trial = *reader;
    ProductForm form;
    if (reader->kind != STATEMENT_LOOP || !grouped_form(gather->program, reader, &form))
        return false;
    rewrite_statement(gather->program, &trial, false, replace, gather);
    return grouped_form(gather->program, &trial, &form);
}

static bool changes_rows(Program *program, const Statement *statement, const Expr *read) {
    List writes = {0};
    writes_of(program->arena, statement, &writes);
    LIST_EACH(const Expr, write, &writes)
        if (write->tensor == read->tensor && !never_meet(write, read)) return true;
    return false;
}

static bool reads(Program *program, const Statement *statement, const Tensor *tensor) {
    List list = {0};
    reads_of(program->arena, statement, &list);
    return accesses_have(&list, tensor);
}

/* True if every reader is in this block, can gather, and reads the same values as the copy. */
static bool can_be_gathered(Gather *gather, const Block *block, int place, int touched) {
    int readers = 0;
    for (int i = place + 1; i < block->statements.count && readers < touched - 1; i++) {
        const Statement *statement = block->statements.items[i];
        if (statement->kind == STATEMENT_REPEAT) return false;
        if (reads(gather->program, statement, gather->copy->target->tensor)) {
            if (!takes(gather, statement)) return false;
            readers++;
        }
        if (changes_rows(gather->program, statement, gather->copy->value)) return false;
    }
    return readers > 0 && readers == touched - 1;
}

static void gathers_in(Program *program, Block *block, const int *touched) {
    List kept = {0};
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        Gather gather = {program, statement};
        if (statement->kind == STATEMENT_REPEAT) gathers_in(program, &statement->body, touched);
        if (!is_gather(statement) ||
            !can_be_gathered(&gather, block, i, touched[statement->target->tensor->id])) {
            list_push(program->arena, &kept, statement);
            continue;
        }
        program->has[HAS_GATHER_FUSION] = true;
        for (int j = i + 1; j < block->statements.count; j++)
            rewrite_statement(program, block->statements.items[j], false, replace, &gather);
    }
    block->statements = kept;
}

void gather_fusion(Program *program) {
    gathers_in(program, &program->body, touches_of(program));
}
