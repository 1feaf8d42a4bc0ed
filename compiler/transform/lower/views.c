/* views: products read slices of an axis without a copy.
 *
 * Needs:   gradient, simplify.
 * Leaves:  no copies that split an axis of a tensor and that only products and loops read.
 *
 *     key[h,n,j,e] = k[64*n+j,h,e]
 *     p[h,n,i,j] = sum[e] q[h,n,i,e] * key[h,n,j,e]    -->    ... q[h,n,i,e] * k[64*n+j,h,e]
 *
 * A library accepts any stride between the rows and between the matrices of an operand.
 */
#include "analysis/contraction.h"
#include "analysis/def_use.h"
#include "ir/rewrite.h"
#include "passes.h"

typedef struct View {
    const Statement *maker;
    bool refused; /* an index outside of a slice is in another slice, but must read 0 */
} View;

static Expr *look_through(Program *program, Expr *read, void *data) {
    View *view = data;
    const Expr *target = view->maker->target;
    if (read->tensor != target->tensor) return NULL;
    Index *from[MAX_RANK];
    for (int i = 0; i < target->count; i++) {
        from[i] = target->args[i]->index;
        view->refused |= !sub_is_inside(read->args[i], read->tensor->axes[i]);
    }
    return expr_substitute(program, view->maker->value, from, read->args, target->count);
}

static bool has_parts(const Expr *read) {
    for (int i = 0; i < read->count; i++)
        if (read->args[i]->kind == EXPR_APPLY) return true;
    return false;
}

/* True if every loop of the copy subscripts its source. */
static bool is_view(const DefUse *def_use, int position) {
    const Statement *maker = def_use->places[position].statement;
    long strides[MAX_LOOPS];
    if (maker->kind != STATEMENT_LOOP || maker->reduction != REDUCE_NONE ||
        !def_use_is_plain(def_use, maker->target->tensor) || maker->value->kind != EXPR_READ ||
        maker->value->tensor->type != maker->target->tensor->type || !has_parts(maker->value) ||
        def_use_changes(def_use, maker->value, position) ||
        !strides_of(maker->value, maker->loops, maker->loop_count, strides))
        return false;
    for (int i = 0; i < maker->loop_count; i++)
        if (!strides[i]) return false;
    return true;
}

static bool reads(const Statement *statement, const Tensor *tensor) {
    bool found = statement->kind == STATEMENT_LOOP &&
                 (expr_reads(statement->value, tensor) || expr_reads(statement->target, tensor));
    for (int i = 0; i < statement->inputs.count; i++)
        found |= expr_reads(statement->inputs.items[i], tensor);
    return found;
}

/* True if a product remains a product. */
static bool may_look(Program *program, const Statement *reader, View *view) {
    if (reader->kind != STATEMENT_LOOP) return false;
    Statement *copy = statement_copy(program, reader, NULL, NULL, 0);
    rewrite_statement(program, copy, false, look_through, view);
    return !view->refused && (!contraction(program, reader) || contraction(program, copy));
}

/* Makes the readers of the copy read its source. Returns false without a change if one of them
 * cannot. */
static bool look(const DefUse *def_use, int position) {
    const Place *place = &def_use->places[position];
    View view = {place->statement, false};
    const Tensor *tensor = place->statement->target->tensor;
    for (int i = 0; i < def_use->count; i++) {
        const Place *reader = &def_use->places[i];
        if (i == position || !reads(reader->statement, tensor)) continue;
        if (reader->block != place->block || !may_look(def_use->program, reader->statement, &view))
            return false;
    }
    for (int i = 0; i < def_use->count; i++)
        if (i != position && reads(def_use->places[i].statement, tensor))
            rewrite_statement(def_use->program, def_use->places[i].statement, false, look_through,
                              &view);
    return true;
}

static void drop(Block *block, const Statement *statement) {
    int kept = 0;
    for (int i = 0; i < block->statements.count; i++)
        if (block->statements.items[i] != statement)
            block->statements.items[kept++] = block->statements.items[i];
    block->statements.count = kept;
}

void views(Program *program) {
    const DefUse *def_use = def_use_new(program);
    for (int i = 0; i < def_use->count; i++)
        if (is_view(def_use, i) && look(def_use, i)) {
            program->has[HAS_VIEW] = true;
            drop(def_use->places[i].block, def_use->places[i].statement);
        }
}
