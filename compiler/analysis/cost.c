/* cost: parameters and arithmetic of a model, before it runs.
 *
 * Needs:   the routed forward program.
 * Leaves:  tensor->active of every parameter: the fraction of it that one token uses. The program
 *          of a decoding step determines the caches.
 *
 * Counts the arithmetic of the program per token: operations as in op.def, sums as one addition per
 * term (a multiply-add counts as two), attention over the average number of keys of a position.
 * Training computes each product three times: its result and the gradients of both operands. The
 * row of a call states the operations of its gradient. In a model with frozen parameters, operands
 * without a gradient do not count.
 *
 *     up[n[r],d,f] over rows r of k selections out of |n| per token: active = k / |n|
 *     table[id[s,h],d] for |h| numbers per token: active = |h| / rows of the table
 */
#include "abi/step_path.h"
#include "analysis/reach.h"
#include "ir/call.h"
#include "passes.h"
#include "base/must.h"

#include <string.h>

/* The layers of one path, "block.{i}.attention": one per iteration of a repeat. */
typedef struct Family {
    LayerCost sum; /* over all iterations */
    long steps;
} Family;

typedef struct Costing {
    Arena *arena;
    const Program *program;
    Cost *cost;
    double tokens;
    double *active;      /* by tensor: the largest fraction used by a read; -1 without reads */
    double share;        /* of the result of the current statement */
    List families;       /* Family * */
    Axis *words;         /* the axis of the vocabulary that tokens look up, or NULL */
    const char *path;    /* of the layer whose weights were read last */
    const char **makers; /* by tensor: the path when it was computed */
    const Statement *repeat;
    double forward, backward; /* operations of the whole program and of its gradient */
    Reach reach;              /* of a program with a loss and frozen parameters */
} Costing;

/* ---- active parameters ---- */

/* True for a subscript that is computed from data. Embeddings of inputs count as a whole. */
static bool is_lookup(const Expr *sub) {
    const bool input = sub->kind == EXPR_READ && sub->tensor->role == ROLE_INPUT;
    return !input && expr_has_reads(sub);
}

typedef struct TableRead {
    const Costing *costing;
    const Expr *read;
    Index *indices[MAX_LOOPS];
    int count;
    bool positioned;
    double entries; /* per token */
} TableRead;

static bool has_plain_subscript(const Expr *read, const Index *index) {
    for (int i = 0; i < read->count; i++)
        if (read->args[i]->kind == EXPR_INDEX && read->args[i]->index == index) return true;
    return false;
}

/* The number of tokens that share the rows: one row of on[h] is for all, one of on[s,h] for those
 * at its position. */
static double tokens_of_rows(const Costing *costing, const Axis *rows) {
    const Relation *relation =
        list_find_by(&costing->program->relations, offsetof(Relation, rows), rows);
    double tokens = 1;
    if (!relation) return costing->tokens;
    for (int i = 0; i < relation->mask->rank; i++) {
        const Axis *axis = relation->mask->axes[i];
        if (axis->kind == AXIS_ROWS) tokens *= tokens_of_rows(costing, axis);
        if (axis->kind == AXIS_BATCH || axis->kind == AXIS_SEQUENCE) tokens *= (double)axis->size;
    }
    return tokens < costing->tokens ? tokens : costing->tokens;
}

/* Multiplies the entries by the values of the index per token: its first position is the token. */
static void count_entries(Expr *expr, void *data) {
    TableRead *lookup = data;
    if (expr->kind != EXPR_INDEX || expr->index->of_repeat || lookup->count == MAX_LOOPS ||
        indices_have(lookup->indices, lookup->count, expr->index))
        return;
    const AxisKind kind = expr->index->axis->kind;
    lookup->indices[lookup->count++] = expr->index;
    if (kind == AXIS_ROWS)
        lookup->entries *=
            axis_expected(expr->index->axis) / tokens_of_rows(lookup->costing, expr->index->axis);
    else if (kind != AXIS_BATCH && (kind != AXIS_SEQUENCE || lookup->positioned) &&
             !has_plain_subscript(lookup->read, expr->index))
        lookup->entries *= (double)expr->index->axis->size;
    lookup->positioned |= kind == AXIS_SEQUENCE;
}

/* Looked up entries per token, divided by all of them. */
static double share_of(const Costing *costing, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    TableRead lookup = {.costing = costing, .read = read, .entries = 1};
    double all = 1;
    for (int i = 0; i < read->count; i++) {
        if (!is_lookup(read->args[i])) continue;
        all *= (double)read->tensor->axes[i]->size;
        expr_walk(read->args[i], count_entries, &lookup);
    }
    return lookup.entries < all ? lookup.entries / all : 1;
}

static void count_use(Expr *expr, void *data) {
    Costing *costing = data;
    if (expr->kind != EXPR_READ) return;
    const double share = share_of(costing, expr) * costing->share;
    double *active = &costing->active[expr->tensor->id];
    if (share > *active) *active = share;
}

/* Readers precede writers. A value of parameters alone, such as a merged weight, may be used in
 * part. */
static void find_active(Statement *statement, void *data) {
    Costing *costing = data;
    if (statement->kind != STATEMENT_LOOP) return;
    const double used = costing->active[statement->target->tensor->id];
    costing->share = used < 0 ? 1 : used;
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i]->axis->kind != AXIS_PLAIN) costing->share = 1;
    expr_walk(statement->value, count_use, costing);
}

/* The path of a layer's weight without its last component. */
static const char *layer_path(Arena *arena, const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? arena_copy(arena, path, (size_t)(dot - path)) : path;
}

static void visit_read(Expr *expr, void *data) {
    Costing *costing = data;
    if (expr->kind != EXPR_READ) return;
    if (expr->tensor->role == ROLE_PARAMETER && expr->tensor->path)
        costing->path = layer_path(costing->arena, expr->tensor->path);
    for (int i = 0; i < expr->count; i++) {
        const Expr *sub = expr->args[i];
        if (sub->kind == EXPR_READ && sub->tensor->role == ROLE_INPUT &&
            sub->tensor->declared == MOEC_INPUT_TOKEN)
            costing->words = expr->tensor->axes[i];
    }
}

/* ---- layers ---- */

/* `path` with the number of an iteration filled in. */
static const char *path_at(Arena *arena, const char *path, long step) {
    StepPath parts;
    if (!step_path_read(path, &parts)) return path;
    return arena_format(arena, "%.*s%ld%s", parts.before, path, step_path_number(&parts, step),
                        parts.after);
}

/* Adds to the sum over all iterations of the layers with this path. */
static void add_layer(Costing *costing, const char *path, long steps, LayerCost counted) {
    Family *family = NULL;
    for (int i = 0; i < costing->families.count && !family; i++) {
        Family *known = costing->families.items[i];
        if (strcmp(known->sum.path, path) == 0) family = known;
    }
    if (!family) {
        family = arena_alloc(costing->arena, sizeof *family);
        family->sum.path = path;
        list_push(costing->arena, &costing->families, family);
    }
    family->steps = strchr(path, '{') ? steps : 1;
    family->sum.parameters += counted.parameters;
    family->sum.active += counted.active;
    family->sum.flops += counted.flops;
}

static bool same_repeat(const Family *a, const Family *b) {
    size_t before = strcspn(a->sum.path, "{");
    return a->steps == b->steps && a->sum.path[before] &&
           strncmp(a->sum.path, b->sum.path, before + 1) == 0;
}

/* One entry per layer, iteration by iteration. */
static void list_layers(Costing *costing) {
    List *families = &costing->families;
    for (int first = 0, last; first < families->count; first = last) {
        const Family *family = families->items[first];
        for (last = first + 1; last < families->count; last++)
            if (!same_repeat(family, families->items[last])) break;
        for (long step = 0; step < family->steps; step++) {
            for (int i = first; i < last; i++) {
                const Family *each = families->items[i];
                LayerCost *layer = arena_alloc(costing->arena, sizeof *layer);
                layer->path = path_at(costing->arena, each->sum.path, step);
                layer->parameters = each->sum.parameters / (double)each->steps;
                layer->active = each->sum.active / (double)each->steps;
                layer->flops = each->sum.flops / (double)each->steps;
                list_push(costing->arena, &costing->cost->layers, layer);
            }
        }
    }
}

static void add_parameters(Costing *costing) {
    const List *tensors = &costing->program->tensors;
    for (int i = 0; i < tensors->count; i++) {
        Tensor *tensor = tensors->items[i];
        if (tensor->role != ROLE_PARAMETER || tensor->prepared) continue;
        double count = (double)tensor_elements(tensor);
        tensor->active = costing->active[i] < 0 ? 1 : costing->active[i];
        costing->cost->parameters += count;
        costing->cost->active += count * tensor->active;
        if (costing->words && tensor_has_axis(tensor, costing->words))
            costing->cost->embedding += count;
        bool stacked = tensor->rank && tensor->axes[0]->kind == AXIS_REPEAT;
        add_layer(costing, layer_path(costing->arena, tensor->path ? tensor->path : tensor->name),
                  stacked ? tensor->axes[0]->size : 1,
                  (LayerCost){.parameters = count, .active = count * tensor->active});
    }
}

/* ---- arithmetic ---- */

static double expr_cost(const Expr *expr) {
    if (expr->kind != EXPR_APPLY) return 0;
    double sum = op_table[expr->op].cost;
    for (int i = 0; i < expr->count; i++) sum += expr_cost(expr->args[i]);
    return sum;
}

static double loop_cost(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    double each = expr_cost(statement->value) +
                  (statement->reduction != REDUCE_NONE || statement->accumulate);
    for (int i = 0; i < statement->loop_count; i++)
        each *= axis_expected(statement->loops[i]->axis);
    return each;
}

/* The innermost layer that holds both, or NULL. */
static const char *common_path(Arena *arena, const char *a, const char *b) {
    if (!a || !b) return a ? a : b;
    size_t same = 0, end = 0;
    for (;; same++) {
        if ((!a[same] || a[same] == '.') && (!b[same] || b[same] == '.')) end = same;
        if (a[same] != b[same] || !a[same]) break;
    }
    return end ? arena_copy(arena, a, end) : NULL;
}

/* A call has no weights. It belongs to the common parent of the layers that computed its
 * operands. */
static const char *call_path(const Costing *costing, const Statement *statement) {
    const char *path = NULL;
    LIST_EACH(const Expr, read, &statement->inputs)
        path = common_path(costing->arena, path, costing->makers[read->tensor->id]);
    return path ? path : costing->path;
}

static void remember_maker(Costing *costing, const Statement *statement) {
    if (statement->kind == STATEMENT_LOOP)
        costing->makers[statement->target->tensor->id] = costing->path;
    for (int i = 0; statement->kind == STATEMENT_CALL && i < statement->outputs.count; i++)
        costing->makers[((Expr *)statement->outputs.items[i])->tensor->id] = costing->path;
}

double statement_flops(const Program *program, const Statement *statement) {
    if (statement->kind == STATEMENT_LOOP) return loop_cost(statement);
    return statement->row && statement->row->flops ? statement->row->flops(program, statement) : 0;
}

/* Tensors that a statement reads, up to two different ones. */
typedef struct CostedReads {
    const Costing *costing;
    const Tensor *tensors[2];
    int count, needed; /* needed: those that have a gradient */
} CostedReads;

static void count_operand(Expr *expr, void *data) {
    CostedReads *operands = data;
    const Tensor *tensor = expr->tensor;
    if (expr->kind != EXPR_READ || tensor->type != TYPE_REAL) return;
    for (int i = 0; i < operands->count && i < 2; i++)
        if (operands->tensors[i] == tensor) return;
    if (operands->count < 2) operands->tensors[operands->count] = tensor;
    operands->count++;
    const Reach *reach = &operands->costing->reach;
    operands->needed += reach->from_parameter[tensor->id] && reach->to_loss[tensor->id];
}

/* Operations of the gradient, as a multiple of those of the statement. */
static double gradient_factor(const Costing *costing, const Statement *statement) {
    const double factor = statement->row ? statement->row->backward : 2;
    if (!costing->reach.to_loss) return factor;
    CostedReads operands = {.costing = costing};
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], count_operand, &operands);
    if (statement->kind == STATEMENT_LOOP) expr_walk(statement->value, count_operand, &operands);
    const bool product = statement->reduction == REDUCE_SUM &&
                         statement->value->kind == EXPR_APPLY && statement->value->op == OP_MUL &&
                         operands.count == 2;
    return product ? operands.needed : operands.needed || !statement->row ? factor : 0;
}

static void add_statement_cost(Costing *costing, Statement *statement) {
    double counted = statement_flops(costing->program, statement);
    if (statement->kind == STATEMENT_LOOP) expr_walk(statement->value, visit_read, costing);
    if (statement->row) costing->path = call_path(costing, statement);
    long steps = costing->repeat ? costing->repeat->index->axis->size : 1;
    counted *= (double)steps / costing->tokens;
    costing->forward += counted;
    costing->backward += counted * gradient_factor(costing, statement);
    if (costing->path) add_layer(costing, costing->path, steps, (LayerCost){.flops = counted});
    remember_maker(costing, statement);
    list_push(costing->arena, &costing->cost->paths, (void *)costing->path);
}

/* Adds the equations of the body for every position. */
static void add_scan(Costing *costing, const Statement *scan) {
    MUST(statement_is_scan(scan));
    double tokens = costing->tokens;
    costing->tokens /= (double)scan->index->axis->size;
    for (int i = 0; i < scan->body.statements.count; i++)
        add_statement_cost(costing, scan->body.statements.items[i]);
    costing->tokens = tokens;
}

static void add_block_cost(Costing *costing, const Block *block, const Statement *repeat) {
    LIST_EACH(Statement, statement, &block->statements) {
        costing->repeat = repeat;
        if (statement->kind == STATEMENT_REPEAT)
            add_block_cost(costing, &statement->body, statement);
        else if (statement_is_scan(statement))
            add_scan(costing, statement);
        else
            add_statement_cost(costing, statement);
    }
}

static bool has_frozen(const Program *program) {
    bool found = false;
    for (int i = 0; i < program->tensors.count; i++)
        found |= ((const Tensor *)program->tensors.items[i])->frozen;
    return found;
}

/* cost: see the head of this file. */
Cost *cost(Arena *arena, Program *forward) {
    Costing costing = {.arena = arena, .program = forward, .tokens = 1};
    Cost *result = costing.cost = arena_alloc(arena, sizeof *result);
    if (forward->batch) costing.tokens *= (double)forward->batch->size;
    if (forward->sequence) costing.tokens *= (double)forward->sequence->size;
    costing.active = arena_alloc(arena, (size_t)forward->tensors.count * sizeof *costing.active);
    for (int i = 0; i < forward->tensors.count; i++) costing.active[i] = -1;
    block_walk_back(&forward->body, find_active, &costing);
    if (forward->loss && has_frozen(forward)) costing.reach = gradient_reach(forward);
    size_t tensors = (size_t)forward->tensors.count + 1;
    costing.makers = arena_alloc(arena, tensors * sizeof *costing.makers);
    add_block_cost(&costing, &forward->body, NULL);
    add_parameters(&costing);
    list_layers(&costing);
    result->flops_forward = costing.forward;
    result->flops_train = costing.forward + costing.backward;
    return result;
}
