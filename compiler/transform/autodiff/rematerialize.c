/* rematerialize: saves or recomputes each activation that the backward pass of a repeat reads.
 *
 * A tensor that lives for one step does not exist in the reverse repeat. A saved tensor gets the
 * axis of the repeat. A recomputed one gets a copy of its statement in the reverse repeat, before
 * its first use.
 *
 *     repeat i < 6                                 repeat i < 6
 *         h[b,f] = ...                                 h[i,b,f] = ...
 *         t[b,f] = tanh(h[b,f])                        t[b,f] = tanh(h[i,b,f])
 *     repeat i < 6 reverse                   -->   repeat i < 6 reverse
 *         d_h[b,f] = t[b,f] * h[b,f]                   t_again[b,f] = tanh(h[i,b,f])
 *                                                      d_h[b,f] = t_again[b,f] * h[i,b,f]
 *
 * With `recompute`, all tensors except carried ones are recomputed. Otherwise only statements
 * marked `again` are, and cheap pointwise ones whose operands are saved anyway or recomputed.
 * Outside of repeats, where all tensors exist in the backward pass, only marked statements are.
 */
#include "analysis/access.h"
#include "base/must.h"
#include "ir/call.h"
#include "ir/ir.h"

#include <string.h>

enum { CHEAP = 64 }; /* operations per element */

typedef enum Fate { FATE_NONE, FATE_KEPT, FATE_AGAIN } Fate;

typedef struct Saving {
    Program *program;
    Statement *forward, *reverse;
    bool recompute;
    int count;   /* tensors */
    bool *local; /* by tensor id: lives for one step of forward */
    Fate *fate;
    Tensor **again; /* by tensor id: its copy in the backward step */
    Index *step;    /* of the statement that is rewritten */
} Saving;

/* ---- looking ---- */

typedef struct TensorSearch {
    const Tensor *tensor;
    bool found;
} TensorSearch;

static Expr *notice(Program *program, Expr *read, void *data) {
    MUST(read->kind == EXPR_READ);
    (void)program;
    TensorSearch *search = data;
    if (read->tensor == search->tensor) search->found = true;
    return NULL;
}

static bool mentions_tensor(Program *program, Statement *statement, const Tensor *tensor) {
    TensorSearch search = {tensor, false};
    rewrite_statement(program, statement, true, notice, &search);
    return search.found;
}

/* The first statement of the backward step that accesses a tensor, or -1. */
static int first_mention(const Saving *saving, const Tensor *tensor) {
    const List *statements = &saving->reverse->body.statements;
    for (int i = 0; i < statements->count; i++)
        if (mentions_tensor(saving->program, statements->items[i], tensor)) return i;
    return -1;
}

/* A tensor lives for one step if the step writes the same elements in every iteration and no
 * statement outside reads it. */
static void find_local(Saving *saving) {
    Program *program = saving->program;
    const List *statements = &saving->forward->body.statements;
    bool *carried = arena_alloc(program->arena, (size_t)saving->count * sizeof *carried);
    for (int i = 0; i < statements->count; i++) {
        List targets = {0};
        writes_of(program->arena, statements->items[i], &targets);
        LIST_EACH(const Expr, target, &targets) {
            if (target->tensor->role == ROLE_TEMP) saving->local[target->tensor->id] = true;
            if (expr_uses_index(target, saving->forward->index)) carried[target->tensor->id] = true;
        }
    }
    for (int id = 0; id < saving->count; id++) saving->local[id] &= !carried[id];
    LIST_EACH(Statement, statement, &program->body.statements) {
        if (statement == saving->forward || statement == saving->reverse) continue;
        for (int id = 0; id < saving->count; id++)
            if (saving->local[id] &&
                mentions_tensor(program, statement, program->tensors.items[id]))
                saving->local[id] = false;
    }
}

/* ---- deciding ---- */

typedef struct Recomputation {
    const Saving *saving;
    double cost;
    bool state;   /* reads a state, which may change before the recomputation */
    bool missing; /* reads a tensor that the backward step does not have and that is not
                     pointwise */
    bool gather;
} Recomputation;

static bool is_pointwise_step(const Statement *statement) {
    return statement->kind == STATEMENT_LOOP && statement->reduction == REDUCE_NONE &&
           !statement->accumulate && !statement_is_scatter(statement);
}

/* The pointwise statement of the step that computes all of a tensor, or NULL. */
static const Statement *pointwise_maker(const Saving *saving, const Tensor *tensor) {
    const List *statements = &saving->forward->body.statements;
    const Statement *maker = NULL;
    for (int i = 0; i < statements->count; i++) {
        List targets = {0};
        writes_of(saving->program->arena, statements->items[i], &targets);
        for (int j = 0; j < targets.count; j++) {
            if (((Expr *)targets.items[j])->tensor != tensor) continue;
            if (maker || !is_pointwise_step(statements->items[i])) return NULL;
            maker = statements->items[i];
        }
    }
    return maker;
}

static void find_remainder(Expr *expr, void *data) {
    if (expr->kind == EXPR_APPLY && expr->op == OP_MOD) *(bool *)data = true;
}

/* True for reads at other positions of a row, as in rotations: recomputation would store a row. */
static bool is_turned(Expr *read) {
    MUST(read->kind == EXPR_READ);
    bool found = false;
    for (int i = 0; i < read->count; i++) expr_walk(read->args[i], find_remainder, &found);
    return found;
}

/* Pointwise operands that the backward step does not have are recomputed as well. */
static void add_path_cost(Expr *expr, void *data) {
    Recomputation *remat = data;
    if (expr->kind == EXPR_APPLY) remat->cost += op_table[expr->op].cost;
    if (expr->kind != EXPR_READ) return;
    if (expr->tensor->role == ROLE_STATE) remat->state = true;
    if (remat->saving->local[expr->tensor->id] && first_mention(remat->saving, expr->tensor) < 0) {
        const Statement *maker = pointwise_maker(remat->saving, expr->tensor);
        if (!maker || remat->cost > CHEAP || is_turned(expr))
            remat->missing = true;
        else
            expr_walk(maker->value, add_path_cost, remat);
    }
    for (int i = 0; i < expr->count; i++)
        if (expr->args[i]->kind == EXPR_READ) remat->gather = true;
}

static bool is_computed_again(const Saving *saving, const Statement *statement) {
    bool recompute = saving->recompute || statement->again;
    if (statement->kind == STATEMENT_CALL) return recompute && statement->row->recomputed;
    if (statement->kind != STATEMENT_LOOP) return false;
    Recomputation remat = {.saving = saving};
    expr_walk(statement->value, add_path_cost, &remat);
    if (remat.state) return false;
    if (recompute) return true;
    if (statement->target->tensor->selects) return false; /* both passes dispatch by one mask */
    return is_pointwise_step(statement) && !remat.missing && !remat.gather && remat.cost <= CHEAP;
}

/* ---- doing ---- */

/* Puts a copy of a forward statement into the backward step, before statement `position`. */
static void insert_copy(Saving *saving, const Statement *statement, int position) {
    Index *forward = saving->forward->index;
    Expr *step = expr_index(saving->program, saving->reverse->index);
    Statement *copy = statement_copy(saving->program, statement, &forward, &step, 1);
    copy->again = false;
    copy->remade = true;
    saving->program->has[HAS_RECOMPUTED] = true;
    List one = {0};
    list_push(saving->program->arena, &one, copy);
    list_insert(saving->program->arena, &saving->reverse->body.statements, position, &one);
}

/* The tensors of one statement are saved or recomputed together: a call recomputes all its
 * results. */
static void decide(Saving *saving, Statement *statement) {
    List targets = {0};
    writes_of(saving->program->arena, statement, &targets);
    int first = -1;
    for (int i = 0; i < targets.count; i++) {
        const Tensor *tensor = ((Expr *)targets.items[i])->tensor;
        if (!saving->local[tensor->id]) continue;
        int mention = first_mention(saving, tensor);
        if (mention >= 0 && (first < 0 || mention < first)) first = mention;
    }
    if (first < 0) return;
    bool again = is_computed_again(saving, statement);
    for (int i = 0; i < targets.count; i++)
        again &= saving->fate[((Expr *)targets.items[i])->tensor->id] != FATE_KEPT;
    if (again) insert_copy(saving, statement, first);
    for (int i = 0; i < targets.count; i++) {
        const Tensor *tensor = ((Expr *)targets.items[i])->tensor;
        if (saving->local[tensor->id]) saving->fate[tensor->id] = again ? FATE_AGAIN : FATE_KEPT;
    }
}

static Expr *replace_saved(Program *program, Expr *read, void *data) {
    MUST(read->kind == EXPR_READ);
    const Saving *saving = data;
    Tensor *tensor = read->tensor;
    if (tensor->id >= saving->count) return NULL;
    if (saving->fate[tensor->id] == FATE_AGAIN && saving->step == saving->reverse->index)
        return expr_read(program, saving->again[tensor->id], read->args);
    if (saving->fate[tensor->id] != FATE_KEPT || read->count == tensor->rank) return NULL;
    Expr *subs[MAX_RANK] = {expr_index(program, saving->step)};
    for (int i = 0; i < read->count; i++) subs[i + 1] = read->args[i];
    return expr_read(program, tensor, subs);
}

static void stack(Tensor *tensor, Axis *axis) {
    memmove(&tensor->axes[1], &tensor->axes[0], (size_t)tensor->rank * sizeof *tensor->axes);
    tensor->axes[0] = axis;
    tensor->rank++;
}

static Tensor *tensor_again(Program *program, const Tensor *tensor) {
    Tensor *again = tensor_new(program, arena_format(program->arena, "%s_again", tensor->name),
                               ROLE_TEMP, tensor->type, tensor->rank, tensor->axes, tensor->span);
    again->spec_name = tensor->spec_name;
    again->selects = tensor->selects;
    again->share = tensor->share;
    return again;
}

static void apply_fates(Saving *saving) {
    Program *program = saving->program;
    for (int id = 0; id < saving->count; id++) {
        Tensor *tensor = program->tensors.items[id];
        if (saving->fate[id] == FATE_KEPT) stack(tensor, saving->forward->index->axis);
        if (saving->fate[id] != FATE_AGAIN) continue;
        saving->again[id] = tensor_again(program, tensor);
    }
    saving->step = saving->forward->index;
    rewrite_statement(program, saving->forward, true, replace_saved, saving);
    saving->step = saving->reverse->index;
    rewrite_statement(program, saving->reverse, true, replace_saved, saving);
}

void rematerialize(Program *program, Statement *forward, Statement *reverse, bool recompute) {
    Saving saving = {
        .program = program, .forward = forward, .reverse = reverse, .recompute = recompute};
    saving.count = program->tensors.count;
    saving.local = arena_alloc(program->arena, (size_t)saving.count * sizeof *saving.local);
    saving.fate = arena_alloc(program->arena, (size_t)saving.count * sizeof *saving.fate);
    saving.again = arena_alloc(program->arena, (size_t)saving.count * sizeof *saving.again);
    find_local(&saving);
    for (int i = forward->body.statements.count - 1; i >= 0; i--)
        decide(&saving, forward->body.statements.items[i]);
    apply_fates(&saving);
}

/* ---- outside of repeats ---- */

/* The backward pass of a body: its statements and the recomputed copies before them. */
typedef struct Return {
    Program *program;
    List *copies;   /* by statement of the backward pass: Statement *, the last one first */
    int *first;     /* by tensor id: the first statement that accesses it, or the count of
                     statements */
    Tensor **again; /* by tensor id, or NULL */
    int count, tensors, position;
} Return;

static Expr *note_first(Program *program, Expr *read, void *data) {
    (void)program;
    Return *back = data;
    MUST(read->tensor->id < back->tensors);
    int *first = &back->first[read->tensor->id];
    if (back->position < *first) *first = back->position;
    return NULL;
}

static Expr *read_again(Program *program, Expr *read, void *data) {
    MUST(read->kind == EXPR_READ);
    const Return *back = data;
    Tensor *again = read->tensor->id < back->tensors ? back->again[read->tensor->id] : NULL;
    return again ? expr_read(program, again, read->args) : NULL;
}

/* The tensors that a statement writes, and their first access in the backward pass; false: none. */
static bool is_wanted(Return *back, const Statement *statement, List *targets) {
    writes_of(back->program->arena, statement, targets);
    back->position = back->count;
    for (int i = 0; i < targets->count; i++) {
        int first = back->first[((Expr *)targets->items[i])->tensor->id];
        if (first < back->position) back->position = first;
    }
    return back->position < back->count;
}

static void note_kept(Return *back, const Statement *statement) {
    List targets = {0};
    bool wanted = is_wanted(back, statement, &targets);
    for (int i = 0; i < targets.count && wanted; i++)
        ((Expr *)targets.items[i])->tensor->kept = true;
}

static void make_value_again(Return *back, Statement *statement) {
    Program *program = back->program;
    List targets = {0};
    if (!is_wanted(back, statement, &targets)) return;
    for (int i = 0; i < targets.count; i++) {
        const Tensor *tensor = ((Expr *)targets.items[i])->tensor;
        back->again[tensor->id] = tensor_again(program, tensor);
    }
    Statement *copy = statement_copy(program, statement, NULL, NULL, 0);
    copy->again = false;
    copy->remade = true;
    rewrite_statement(program, copy, true, note_first, back);
    MUST(back->position < back->count);
    list_push(program->arena, &back->copies[back->position], copy);
}

void rematerialize_body(Program *program, int forward) {
    const List all = program->body.statements;
    Return back = {
        .program = program, .count = all.count - forward, .tensors = program->tensors.count};
    size_t tensors = (size_t)back.tensors;
    back.copies = arena_alloc(program->arena, ((size_t)back.count + 1) * sizeof *back.copies);
    back.first = arena_alloc(program->arena, tensors * sizeof *back.first);
    back.again = arena_alloc(program->arena, tensors * sizeof *back.again);
    for (int id = 0; id < back.tensors; id++) back.first[id] = back.count;
    for (int i = 0; i < back.count; i++) {
        back.position = i;
        rewrite_statement(program, all.items[forward + i], true, note_first, &back);
    }
    for (int i = forward - 1; i >= 0; i--) {
        Statement *statement = all.items[i];
        if (statement->again)
            make_value_again(&back, statement);
        else
            note_kept(&back, statement);
    }
    program->body.statements = (List){0};
    List *body = &program->body.statements;
    for (int i = 0; i < all.count; i++) {
        const List *copies = i < forward ? NULL : &back.copies[i - forward];
        for (int j = copies ? copies->count - 1 : -1; j >= 0; j--)
            list_push(program->arena, body, copies->items[j]);
        list_push(program->arena, body, all.items[i]);
    }
    int count = body->count;
    for (int i = forward; i < count; i++)
        rewrite_statement(program, body->items[i], true, read_again, &back);
}
