/* gradient: the backward pass, derived symbolically and appended to the program.
 *
 * Needs:   a forward program with program->loss; every statement has at most one reduction, on top.
 * Leaves:  a gradient tensor for every parameter. Statements only add to it; the runtime zeroes it.
 *          The adjoint of the loss is the input `loss_scale`. On request, an output for every real
 *          input. A repeat gets a reverse repeat.
 *
 *     h[b,f] = sum[d] x[b,d] * w[d,f]          d_y[b,f] = ...
 *     y[b,f] = tanh(h[b,f])              -->   d_h[b,f] = d_y[b,f] * (1 - y[b,f] * y[b,f])
 *     loss = sum[b,f] ... y[b,f] ...           d_w[d,f] += sum[b] x[b,d] * d_h[b,f]
 *
 * No gradient passes through a comparison, floor, sign, stop or top. The gradient of a maximum or
 * minimum goes to the first entry with that value.
 */
#include "transform/autodiff/gradient.h"
#include "base/must.h"
#include "ir/call.h"
#include "passes.h"

#include <string.h>

/* ---- tensors that need an adjoint ---- */

static void find_needed(Backward *backward) {
    const Reach reach = gradient_reach(backward->program);
    for (int i = 0; i < backward->count; i++)
        backward->adjoints[i].needed = reach.from_parameter[i] && reach.to_loss[i];
}

/* ---- lifetimes of tensors ---- */

/* A read or write of a tensor. */
typedef struct AdjointUse {
    Tensor *tensor;
    Expr *slice;       /* leading subscript, NULL for rank 0 */
    Statement *repeat; /* NULL: outside */
    int position;      /* of the statement, or of the repeat that encloses it, in the program */
    bool write, step;  /* step: a subscript is the index of the repeat */
} AdjointUse;

typedef struct Uses {
    Arena *arena;
    List *lists; /* AdjointUse *, by tensor id */
    Statement *repeat;
    int position;
    bool write;
} Uses;

static void add_use(Expr *expr, void *data) {
    Uses *uses = data;
    if (expr->kind != EXPR_READ) return;
    AdjointUse *use = arena_alloc(uses->arena, sizeof *use);
    *use = (AdjointUse){expr->tensor, expr->count ? expr->args[0] : NULL,
                        uses->repeat, uses->position,
                        uses->write,  false};
    for (int i = 0; uses->repeat && i < expr->count; i++)
        use->step |= expr_uses_index(expr->args[i], uses->repeat->index);
    list_push(uses->arena, &uses->lists[expr->tensor->id], use);
}

static void add_target_use(Expr *target, Uses *uses) {
    MUST(target->kind == EXPR_READ);
    uses->write = true;
    add_use(target, uses);
    uses->write = false;
    for (int i = 0; i < target->count; i++) expr_walk(target->args[i], add_use, uses);
}

static void add_uses(const Statement *statement, Uses *uses) {
    if (statement->kind == STATEMENT_LOOP) {
        expr_walk(statement->value, add_use, uses);
        add_target_use(statement->target, uses);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], add_use, uses);
    for (int i = 0; i < statement->outputs.count; i++)
        add_target_use(statement->outputs.items[i], uses);
    for (int i = 0; i < statement->body.statements.count; i++)
        add_uses(statement->body.statements.items[i], uses);
}

static List *find_uses(const Backward *backward) {
    const Program *program = backward->program;
    List *lists = arena_alloc(program->arena, (size_t)backward->count * sizeof(List));
    for (int i = 0; i < program->body.statements.count; i++) {
        Statement *statement = program->body.statements.items[i];
        Statement *repeat = statement->kind == STATEMENT_REPEAT ? statement : NULL;
        Uses uses = {program->arena, lists, repeat, i, false};
        add_uses(statement, &uses);
    }
    return lists;
}

/* The repeat whose iterations contain all uses of the tensor, if no iteration writes elements of
 * its own; else NULL. */
static Statement *find_home(const List *uses) {
    if (!uses->count) return NULL;
    Statement *repeat = ((AdjointUse *)uses->items[0])->repeat;
    LIST_EACH(const AdjointUse, use, uses)
        if (use->repeat != repeat || use->step || use->tensor->role != ROLE_TEMP) return NULL;
    return repeat;
}

/* True if slice is the step (offset 0) or the step plus one (offset 1). */
static bool is_step_slice(const Expr *slice, const Index *step, int offset) {
    if (!offset) return slice->kind == EXPR_INDEX && slice->index == step;
    return slice->kind == EXPR_APPLY && slice->op == OP_ADD &&
           is_step_slice(slice->args[0], step, 0) && expr_is_number(slice->args[1], offset);
}

/* True if one repeat carries the tensor: [0] is written before, [i] read and [i+1] written in it,
 * the last one read after it. */
static bool is_carried_adjoint(const Tensor *tensor, const List *uses) {
    const AdjointUse *step = NULL;
    if (!tensor->rank || tensor->axes[0]->kind != AXIS_REPEAT || tensor->role != ROLE_TEMP)
        return false;
    for (int i = 0; i < uses->count; i++)
        if (((AdjointUse *)uses->items[i])->repeat) step = uses->items[i];
    if (!step) return false;
    LIST_EACH(const AdjointUse, use, uses) {
        bool last = expr_is_number(use->slice, (double)(tensor->axes[0]->size - 1));
        if (use->repeat && use->repeat != step->repeat) return false;
        if (use->repeat && use->write && !is_step_slice(use->slice, step->repeat->index, 1))
            return false;
        if (use->repeat && !is_step_slice(use->slice, step->repeat->index, 0) &&
            !is_step_slice(use->slice, step->repeat->index, 1))
            return false;
        if (!use->repeat && use->position < step->position && !expr_is_number(use->slice, 0))
            return false;
        if (!use->repeat && use->position > step->position && (use->write || !last)) return false;
    }
    return true;
}

/* ---- statements in reverse ---- */

Expr *reverse_in_step(const Backward *backward, Expr *expr) {
    if (!backward->repeat) return expr;
    Expr *step = expr_index(backward->program, backward->step);
    return expr_substitute(backward->program, expr, &backward->repeat->index, &step, 1);
}

/* One read of the value, and the factors of its derivative. */
typedef struct Path {
    Expr *read;
    List factors; /* Expr * */
} Path;

bool adjoint_needed(const Backward *backward, const Expr *expr) {
    return expr->kind == EXPR_READ && expr->tensor->id < backward->count &&
           backward->adjoints[expr->tensor->id].needed;
}

/* Follows the value down to its reads; `result` is an expression for the value of expr. */
static void find_paths(const Backward *backward, Expr *expr, Expr *result, List factors,
                       List *paths) {
    Arena *arena = backward->program->arena;
    if (adjoint_needed(backward, expr)) {
        Path *path = arena_alloc(arena, sizeof *path);
        path->read = expr;
        list_append(arena, &path->factors, &factors);
        list_push(arena, paths, path);
    }
    if (expr->kind != EXPR_APPLY) return;
    for (int i = 0; i < expr->count; i++) {
        Expr *factor = derive(backward->program, expr, i, result);
        if (!factor || expr_is_number(factor, 0)) continue;
        List below = {0};
        list_append(arena, &below, &factors);
        if (!expr_is_number(factor, 1)) list_push(arena, &below, factor);
        find_paths(backward, expr->args[i], expr->args[i], below, paths);
    }
}

/* Joins paths to the same read: their derivatives are added after the `common` first factors. */
static void join_paths(Program *program, List *paths, int common) {
    for (int i = 0; i < paths->count; i++) {
        Path *path = paths->items[i];
        Expr *sum = NULL;
        for (int j = paths->count - 1; j > i; j--) {
            const Path *other = paths->items[j];
            if (!expr_equal(path->read, other->read)) continue;
            if (!sum) sum = expr_product(program, &path->factors, common);
            sum = expr_apply(program, OP_ADD, sum, expr_product(program, &other->factors, common),
                             NULL);
            list_remove(paths, other);
        }
        if (!sum) continue;
        path->factors.count = common;
        if (!expr_is_number(sum, 1)) list_push(program->arena, &path->factors, sum);
    }
}

Expr *reverse_like(Backward *backward, const Expr *operand, const char *prefix, Index **loops,
                   int *loop_count) {
    MUST(operand->kind == EXPR_READ);
    Program *program = backward->program;
    Axis *axes[MAX_RANK];
    *loop_count = 0;
    for (int i = 0; i < operand->count; i++) {
        if (operand->args[i]->kind != EXPR_INDEX || operand->args[i]->index->of_repeat) continue;
        loops[*loop_count] = operand->args[i]->index;
        axes[*loop_count] = operand->args[i]->index->axis;
        *loop_count += 1;
    }
    const char *name = arena_format(program->arena, "%s_%s", prefix, operand->tensor->name);
    Tensor *tensor =
        tensor_new(program, name, ROLE_TEMP, TYPE_REAL, *loop_count, axes, operand->span);
    return expr_read_indices(program, tensor, loops);
}

/* Selects the entry of a maximum or minimum that receives the gradient: the first one that equals
 * it.
 *
 *     y[s] = max[n,d] x[s,n,d]  -->  first[s] = min[n,d] where(x[s,n,d] == y[s], 3 * n + d, 15)
 *
 * with the factor 3 * n + d == first[s]. */
static Expr *taking_entry(Backward *backward, const Statement *statement, Expr *value,
                          Expr *target) {
    Program *program = backward->program;
    Expr *number = expr_number(program, 0), *size = expr_number(program, 1);
    Index *reduced[MAX_LOOPS], *loops[MAX_RANK];
    int count = 0, kept;
    for (int i = 0; i < statement->loop_count; i++) {
        Index *index = statement->loops[i];
        if (expr_uses_index(target, index)) continue;
        Expr *extent = expr_number(program, (double)index->axis->size);
        number = expr_apply(program, OP_MUL, number, extent, NULL);
        number = expr_apply(program, OP_ADD, number, expr_index(program, index), NULL);
        size = expr_apply(program, OP_MUL, size, extent, NULL);
        reduced[count++] = index;
    }
    MUST(count <= MAX_LOOPS);
    Expr *first = reverse_like(backward, target, "first", loops, &kept);
    Expr *equal = expr_apply(program, OP_EQ, value, target, NULL);
    statement_loop(program, backward->block, first, false, REDUCE_MIN, reduced, count,
                   expr_apply(program, OP_WHERE, equal, number, size), statement->span);
    return expr_apply(program, OP_EQ, number, first, NULL);
}

/* observed[i,b,s] = t[b,s]  -->  observed[i,b,s] = d_t[b,s]: all readers of t follow this copy, so
 * its adjoint is complete here; that of a tensor in a scan after the reverse scan. */
static void give_adjoint(Backward *backward, const Statement *statement) {
    Program *program = backward->program;
    if (backward->scanned && backward->recurring) return;
    Expr *read = reverse_in_step(backward, statement->value);
    Expr *adjoint = adjoint_needed(backward, read) ? adjoint_read(backward, read) : NULL;
    statement_assign(program, backward->block, reverse_in_step(backward, statement->target),
                     adjoint ? adjoint : expr_number(program, 0), statement->span);
}

void reverse_loop(Backward *backward, const Statement *statement) {
    Program *program = backward->program;
    if (statement->target->tensor->of_adjoint) {
        give_adjoint(backward, statement);
        return;
    }
    if (statement->once || !adjoint_needed(backward, statement->target)) return;
    Expr *target = reverse_in_step(backward, statement->target);
    Expr *value = reverse_in_step(backward, statement->value);
    Expr *adjoint = adjoint_read(backward, target);
    if (!adjoint) return;
    List factors = {0}, paths = {0};
    list_push(program->arena, &factors, adjoint);
    if (statement->reduction == REDUCE_MAX || statement->reduction == REDUCE_MIN)
        list_push(program->arena, &factors, taking_entry(backward, statement, value, target));
    int common = factors.count;
    bool is_value = statement->reduction == REDUCE_NONE && !statement->accumulate &&
                    !statement_is_scatter(statement);
    find_paths(backward, value, is_value ? target : value, factors, &paths);
    join_paths(program, &paths, common);
    LIST_EACH(Path, path, &paths) {
        if (backward->scanned && backward->scanned[path->read->tensor->id] != backward->recurring)
            continue;
        adjoint_add(backward, path->read, statement->loops, statement->loop_count, &path->factors,
                    statement->span);
    }
}

static void reverse_block(Backward *backward, const Block *block, int count);

/* Writes pending contributions of tensors outside, and zeroes those that the iterations add to. */
static void enter_repeat(Backward *backward, const Statement *repeat, const List *uses) {
    Program *program = backward->program;
    for (int id = 0; id < backward->count; id++) {
        const Adjoint *adjoint = &backward->adjoints[id];
        Tensor *tensor = program->tensors.items[id];
        bool read = false, write = false;
        LIST_EACH(const AdjointUse, use, &uses[id])
            if (use->repeat == repeat) *(use->write ? &write : &read) = true;
        if (!adjoint->needed || adjoint->home || tensor->role == ROLE_PARAMETER || !(read || write))
            continue;
        if (!adjoint->sliced)
            adjoint_flush(backward, tensor, read);
        else
            adjoint_flush_slice(backward, tensor,
                                expr_number(program, (double)(tensor->axes[0]->size - 1)), true);
    }
}

/* Writes the contributions of this step to the slice of the previous step. */
static void leave_step(Backward *backward, const Statement *repeat, const List *uses) {
    for (int id = 0; id < backward->count; id++) {
        const Adjoint *adjoint = &backward->adjoints[id];
        if (!adjoint->needed || !adjoint->sliced) continue;
        bool here = false;
        for (int i = 0; i < uses[id].count; i++)
            here |= ((AdjointUse *)uses[id].items[i])->repeat == repeat;
        if (here)
            adjoint_flush_slice(backward, backward->program->tensors.items[id],
                                expr_index(backward->program, backward->step), true);
    }
}

static Statement *reverse_repeat(Backward *backward, Statement *repeat, const List *uses) {
    Program *program = backward->program;
    enter_repeat(backward, repeat, uses);
    Block *outside = backward->block;
    backward->step = index_new(program, repeat->index->name, repeat->index->axis);
    Statement *reverse = statement_repeat(program, outside, backward->step, true, repeat->span);
    backward->repeat = repeat;
    backward->block = &reverse->body;
    reverse_block(backward, &repeat->body, repeat->body.statements.count);
    leave_step(backward, repeat, uses);
    backward->repeat = NULL;
    backward->block = outside;
    return reverse;
}

static void reverse_block(Backward *backward, const Block *block, int count) {
    for (int i = count - 1; i >= 0; i--) {
        Statement *statement = block->statements.items[i];
        if (statement->kind == STATEMENT_LOOP)
            reverse_loop(backward, statement);
        else if (statement->row && statement->row->gradient)
            statement->row->gradient(backward, statement);
    }
}

/* ---- the pass ---- */

static void seed(Backward *backward) {
    Program *program = backward->program;
    List factors = {0};
    if (program->cotangent) {
        adjoint_add(backward, expr_read(program, program->loss, NULL), NULL, 0, &factors,
                    program->loss->span);
        return;
    }
    Tensor *scale =
        tensor_new(program, "loss_scale", ROLE_INPUT, TYPE_REAL, 0, NULL, program->loss->span);
    scale->path = "loss_scale";
    scale->input = MOEC_INPUT_SCALAR;
    scale->scalar = MOEC_SCALAR_LOSS_SCALE;
    list_push(program->arena, &factors, expr_read(program, scale, NULL));
    adjoint_add(backward, expr_read(program, program->loss, NULL), NULL, 0, &factors,
                program->loss->span);
}

static void find_program_points(Backward *backward, const List *uses) {
    for (int id = 0; id < backward->count; id++) {
        Adjoint *adjoint = &backward->adjoints[id];
        adjoint->home = find_home(&uses[id]);
        adjoint->sliced =
            adjoint->needed && is_carried_adjoint(backward->program->tensors.items[id], &uses[id]);
    }
}

static void reverse_program(Backward *backward, const List *uses, bool recompute) {
    const Block forward = backward->program->body; /* the backward pass is appended to the same
                                                      list */
    int count = forward.statements.count;
    Statement **items = arena_alloc(backward->program->arena, (size_t)count * sizeof *items);
    memcpy(items, forward.statements.items, (size_t)count * sizeof *items);
    for (int i = count - 1; i >= 0; i--) {
        const Block one = {.statements = {.items = (void **)&items[i], .count = 1}};
        if (items[i]->kind != STATEMENT_REPEAT)
            reverse_block(backward, &one, 1);
        else
            rematerialize(backward->program, items[i], reverse_repeat(backward, items[i], uses),
                          recompute);
    }
}

/* Moves updates of states after all readers of the old values. */
static void updates_last(Program *program) {
    List *all = &program->body.statements, kept = {0}, last = {0};
    LIST_EACH(Statement, statement, all)
        list_push(program->arena, statement->once ? &last : &kept, statement);
    list_append(program->arena, &kept, &last);
    *all = kept;
}

/* The adjoints of real inputs become outputs, "gradient:NAME", before all others. */
static void give_inputs(Backward *backward) {
    Program *program = backward->program;
    List all = {0};
    for (int id = 0; id < backward->count; id++) {
        Tensor *input = program->tensors.items[id];
        if (input->role != ROLE_INPUT || input->input != MOEC_INPUT_REAL ||
            input == program->cotangent)
            continue;
        Index *loops[MAX_RANK];
        for (int i = 0; i < input->rank; i++) loops[i] = index_over(program, input->axes[i]);
        adjoint_flush(backward, input, true);
        Expr *adjoint = adjoint_read(backward, expr_read_indices(program, input, loops));
        const char *name = arena_format(program->arena, "gradient:%s", input->path);
        Tensor *out = tensor_new(program, "input_gradient", ROLE_OUTPUT, TYPE_REAL, input->rank,
                                 input->axes, input->span);
        out->path = name;
        statement_assign(program, backward->block, expr_read_indices(program, out, loops), adjoint,
                         input->span);
        list_push(program->arena, &all, out);
    }
    list_append(program->arena, &all, &program->outputs);
    program->outputs = all;
}

/* Removes the copies that give_adjoint has replaced. */
static void forget_copies(Program *program, Block *block) {
    List kept = {0};
    LIST_EACH(Statement, statement, &block->statements) {
        const bool loop = statement->kind == STATEMENT_LOOP;
        const int inner = statement->body.statements.count;
        if (inner) forget_copies(program, &statement->body);
        if (statement_is_scan(statement) && statement->body.statements.count < inner)
            scan_operands(program, statement);
        if (!loop || !statement->target->tensor->of_adjoint ||
            statement->value->kind != EXPR_READ || !statement->value->tensor->observed)
            list_push(program->arena, &kept, statement);
    }
    block->statements = kept;
}

/* Removes a loss that exists only to be differentiated. */
static void forget_loss(Program *program) {
    const List all = program->outputs;
    program->outputs = (List){0};
    LIST_EACH(Tensor, output, &all) {
        bool own = output != program->loss && strcmp(output->path, "loss") != 0;
        if (own)
            list_push(program->arena, &program->outputs, output);
        else
            output->role = ROLE_TEMP;
    }
    program->loss = NULL;
}

void gradient(Program *program, bool recompute) {
    MUST(program->loss);
    simplify(program); /* the backward pass then saves no dead or loop-invariant values */
    Backward backward = {
        .program = program, .block = &program->body, .count = program->tensors.count};
    backward.adjoints =
        arena_alloc(program->arena, (size_t)backward.count * sizeof *backward.adjoints);
    find_needed(&backward);
    const List *uses = find_uses(&backward);
    find_program_points(&backward, uses);
    const int forward = program->body.statements.count;
    if (backward.adjoints[program->loss->id].needed) {
        seed(&backward);
        reverse_program(&backward, uses, recompute);
        rematerialize_body(program, forward);
    }
    forget_copies(program, &program->body);
    for (int id = 0; id < backward.count; id++)
        ((Tensor *)program->tensors.items[id])->observed = false;
    if (program->input_gradients) give_inputs(&backward);
    for (int id = 0; id < backward.count; id++)
        adjoint_declare(&backward, program->tensors.items[id]);
    updates_last(program);
    if (program->cotangent) forget_loss(program);
}
