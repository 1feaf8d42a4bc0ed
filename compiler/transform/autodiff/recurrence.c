/* recurrence: the reverse scan of a scan.
 *
 * The adjoint of the state is a recurrence from the last position to the first. Only this
 * recurrence is sequential. All other contributions are sums over all positions after it:
 *
 *     scan s: S[s,h] = a[s,h] * S[s-1,h]        scan s downwards: d_S[s-1,h] += d_S[s,h] * a[s,h]
 *             + x[s,h]                    -->   d_a[s,h] = d_S[s,h] * S[s-1,h]
 *                                               d_x[s,h] = d_S[s,h]
 */
#include "transform/autodiff/gradient.h"
#include "base/must.h"

typedef struct Scanned {
    Backward *backward;
    bool *defined; /* by tensor id */
} Scanned;

/* The scan adds to the adjoints of its tensors; they start with the contributions so far, or with
 * 0. */
static void begin_adjoints(const Scanned *scanned, const Statement *scan) {
    MUST(statement_is_scan(scan));
    Backward *backward = scanned->backward;
    LIST_EACH(const Statement, inner, &scan->body.statements) {
        Tensor *tensor = inner->target->tensor;
        scanned->defined[tensor->id] = true;
        if (backward->adjoints[tensor->id].needed) adjoint_flush(backward, tensor, true);
    }
}

/* Processes the statements of the body from last to first, with `position` as position. */
static void reverse_body(Backward *backward, const Statement *scan, Index *position) {
    MUST(statement_is_scan(scan));
    Index *from = scan->index;
    Expr *to = expr_index(backward->program, position);
    for (int i = scan->body.statements.count - 1; i >= 0; i--) {
        const Statement *inner = scan->body.statements.items[i];
        Statement *copy = statement_copy(backward->program, inner, &from, &to, 1);
        if (!position->of_repeat && copy->loop_count < MAX_LOOPS)
            copy->loops[copy->loop_count++] = position;
        reverse_loop(backward, copy);
    }
}

void reverse_scan(Backward *backward, const Statement *scan) {
    Program *program = backward->program;
    Scanned scanned = {.backward = backward};
    scanned.defined = arena_alloc(program->arena, (size_t)backward->count * sizeof(bool));
    begin_adjoints(&scanned, scan);
    Block *outside = backward->block, aside = {{0}};
    Index *position = index_new(program, scan->index->name, scan->index->axis);
    Statement *reverse = statement_scan(program, &aside, position, !scan->reverse, scan->span);
    backward->scanned = scanned.defined;
    backward->recurring = true;
    backward->block = &reverse->body;
    reverse_body(backward, scan, position);
    backward->block = outside;
    backward->recurring = false;
    if (reverse->body.statements.count) {
        scan_operands(program, reverse);
        list_push(program->arena, &outside->statements, reverse);
    }
    reverse_body(backward, scan, index_new(program, scan->index->name, scan->index->axis));
    backward->scanned = NULL;
}
