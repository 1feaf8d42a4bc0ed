/* views: products and, on a GPU, recurrences read their operands without a copy.
 *
 * Needs:   gradient, simplify.
 * Leaves:  no copies that split an axis of a tensor and that only products and loops read. On a
 *          GPU, no copies in a scan that only its body reads.
 *
 *     key[h,n,j,e] = k[64*n+j,h,e]
 *     p[h,n,i,j] = sum[e] q[h,n,i,e] * key[h,n,j,e]    -->    ... q[h,n,i,e] * k[64*n+j,h,e]
 *
 * A library accepts any stride between the rows and between the matrices of an operand. All columns
 * of a state would need a copy in a scan. Without it, blocks of a GPU divide the columns:
 *
 *     scan s downwards:
 *         part[e,f] = t[s-1,f,e]
 *         d[s-1,e,c] += sum[f] d[s,f,c] * part[e,f]   -->    ... d[s,f,c] * t[s-1,f,e]
 */
#include "analysis/contraction.h"
#include "base/must.h"
#include "analysis/def_use.h"
#include "ir/ir.h"
#include "passes.h"

typedef struct AxisView {
    const Statement *maker;
    bool refused; /* an index outside of a slice is in another slice, but must read 0 */
} AxisView;

static Expr *look_through(Program *program, Expr *read, void *data) {
    AxisView *view = data;
    const Expr *target = view->maker->target;
    if (read->tensor != target->tensor) return NULL;
    Index *from[MAX_RANK];
    for (int i = 0; i < target->count; i++) {
        MUST(target->args[i]->kind == EXPR_INDEX);
        from[i] = target->args[i]->index;
        view->refused |= !sub_is_inside(read->args[i], read->tensor->axes[i]);
    }
    return expr_substitute(program, view->maker->value, from, read->args, target->count);
}

static bool has_parts(const Expr *read) {
    MUST(read->kind == EXPR_READ);
    for (int i = 0; i < read->count; i++)
        if (read->args[i]->kind == EXPR_APPLY) return true;
    return false;
}

/* True if every loop of the copy subscripts its source. */
static bool is_view(const DefUse *def_use, int position) {
    const Statement *maker = def_use->points[position].statement;
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

/* True if a product remains a product. */
static bool may_look(Program *program, const Statement *reader, AxisView *view) {
    if (reader->kind != STATEMENT_LOOP) return false;
    Statement *copy = statement_copy(program, reader, NULL, NULL, 0);
    rewrite_statement(program, copy, false, look_through, view);
    find_product(program, copy);
    return !view->refused && (!product_shape(program, reader) || product_shape(program, copy));
}

/* Makes the readers of the copy read its source. Returns false without a change if one of them
 * cannot. */
static bool look_for_slices(const DefUse *def_use, int position) {
    const ProgramPoint *maker = &def_use->points[position];
    AxisView view = {maker->statement, false};
    const List *accesses = &def_use->accesses[maker->statement->target->tensor->id];
    for (int i = 0; i < accesses->count; i++) {
        const ProgramPoint *reader =
            &def_use->points[((TensorAccess *)accesses->items[i])->position];
        if (reader != maker && (reader->block != maker->block ||
                                !may_look(def_use->program, reader->statement, &view)))
            return false;
    }
    for (int i = 0; i < accesses->count; i++) {
        const ProgramPoint *reader =
            &def_use->points[((TensorAccess *)accesses->items[i])->position];
        if (reader == maker) continue;
        rewrite_statement(def_use->program, reader->statement, false, look_through, &view);
        find_product(def_use->program, reader->statement);
    }
    return true;
}

/* ---- scans ---- */

/* True if the statement of the body copies a tensor that the body does not write. */
static bool is_copy_in(const Statement *scan, const Statement *maker) {
    if (maker->reduction != REDUCE_NONE || maker->accumulate || maker->value->kind != EXPR_READ ||
        maker->target->tensor->role != ROLE_TEMP ||
        maker->value->tensor->type != maker->target->tensor->type)
        return false;
    for (int i = 0; i < maker->target->count; i++) {
        const Expr *sub = maker->target->args[i];
        if (sub->kind != EXPR_INDEX || sub->index->of_repeat) return false;
        for (int j = 0; j < i; j++)
            if (expr_equal(sub, maker->target->args[j])) return false;
    }
    for (int i = 0; i < scan->body.statements.count; i++) {
        const Tensor *written = ((Statement *)scan->body.statements.items[i])->target->tensor;
        if (written == maker->value->tensor) return false;
        if (written == maker->target->tensor && scan->body.statements.items[i] != maker)
            return false;
    }
    return true;
}

static bool only_at(const DefUse *def_use, const Tensor *tensor, int position) {
    const List *accesses = &def_use->accesses[tensor->id];
    for (int i = 0; i < accesses->count; i++)
        if (((TensorAccess *)accesses->items[i])->position != position) return false;
    return true;
}

/* Replaces the reads of the copy in the body. Returns false without a change if one is outside. */
static bool read_original(Program *program, Statement *scan, int number) {
    AxisView view = {scan->body.statements.items[number], false};
    const List *body = &scan->body.statements;
    for (int write = 0; write < 2; write++)
        for (int i = number + 1; i < body->count && !view.refused; i++) {
            Statement *reader = body->items[i];
            if (!write) reader = statement_copy(program, reader, NULL, NULL, 0);
            rewrite_statement(program, reader, false, look_through, &view);
        }
    return !view.refused;
}

static void view_in_scan(const DefUse *def_use, int position) {
    Statement *scan = def_use->points[position].statement;
    bool changed = false;
    for (int i = 0; i + 1 < scan->body.statements.count; i++) {
        const Statement *maker = scan->body.statements.items[i];
        if (!is_copy_in(scan, maker) || !only_at(def_use, maker->target->tensor, position) ||
            !read_original(def_use->program, scan, i))
            continue;
        list_remove(&scan->body.statements, maker);
        changed = true;
        i--;
    }
    if (changed) scan_operands(def_use->program, scan);
}

void views(Program *program) {
    const DefUse *def_use = def_use_new(program);
    for (int i = 0; i < def_use->count; i++) {
        const ProgramPoint *point = &def_use->points[i];
        if (program->target->launches) {
            if (statement_is_scan(point->statement)) view_in_scan(def_use, i);
        } else if (is_view(def_use, i) && look_for_slices(def_use, i)) {
            program->has[HAS_VIEW] = true;
            list_remove(&point->block->statements, point->statement);
        }
    }
}
