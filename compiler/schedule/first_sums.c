/* first_sums: finds products that can overwrite a gradient, which then need not be cleared.
 *
 * Gradients accumulate over the micro-batches of a step. The first product that accesses one, if it
 * writes all of it, stores in the first micro-batch and adds in the others. Other gradients are
 * cleared at the start of the program (lower_entry.c).
 *
 *     repeat i < 6 downwards                        clear  d_bias
 *         d_w[i,d,f] += sum[s] x[s,d] * dy[s,f]     repeat i < 6 downwards
 *         d_bias[i,f] += sum[s] dy[s,f]       -->       d_w[i,d,f]  = ...   first micro-batch
 *                                                       d_w[i,d,f] += ...   others
 *                                                       d_bias[i,f] += ...
 */
#include "analysis/access.h"
#include "base/must.h"
#include "analysis/def_use.h"
#include "schedule/nest.h"

typedef struct FirstSumSearch {
    Program *program;
    const DefUse *def_use;
    bool *met;    /* by tensor->id: an earlier unit accesses it */
    List repeats; /* Index *, of the enclosing repeats */
} FirstSumSearch;

/* True if the subscript selects the group of a row in the result of all groups. Groups without rows
 * are set to zero. */
static bool is_group(const Contraction *product, const Expr *sub) {
    const Relation *relation = product->relation;
    for (int i = 0; relation && i < relation->group_of_count; i++)
        if (sub->kind == EXPR_READ && sub->tensor == relation->group_of[i]) return true;
    return false;
}

/* True if several statements access the tensor. */
static bool is_shared(const FirstSumSearch *search, const Tensor *tensor) {
    const List *accesses = &search->def_use->accesses[tensor->id];
    MUST(accesses->count);
    const TensorAccess *first = accesses->items[0], *last = accesses->items[accesses->count - 1];
    return first->position != last->position;
}

/* True if every element of the target is written in an iteration of the loops and repeats, and none
 * is added to in an earlier iteration. */
static bool makes_all(const FirstSumSearch *search, const Contraction *product,
                      const Expr *target) {
    MUST(target->kind == EXPR_READ);
    List found = {0};
    for (int i = 0; i < target->count; i++) {
        const Expr *sub = target->args[i];
        if (is_group(product, sub)) continue;
        if (sub->kind != EXPR_INDEX || sub->index->axis->size != target->tensor->axes[i]->size ||
            list_find(&found, sub->index) >= 0)
            return false;
        list_push(search->program->arena, &found, sub->index);
    }
    for (int i = 0; i < search->repeats.count; i++)
        if (list_find(&found, search->repeats.items[i]) < 0 || is_shared(search, target->tensor))
            return false;
    return !search->met[target->tensor->id];
}

/* True unless a loop around it sums it, or a kernel of its own on a GPU adds it. */
static bool stores(const ScheduleUnit *unit, const Target *target) {
    const Contraction *product = unit->contraction;
    const bool own = target->launches && (unit->row || unit->epilogue);
    if (product->kind == CONTRACTION_ROWS_BY_WEIGHT || unit->accumulated_product || own)
        return false;
    for (int i = 0; i < product->outer_count; i++)
        if (product->outer[i].summed) return false;
    return product->product.accumulate;
}

static void meet(FirstSumSearch *search, const Statement *statement) {
    const List touched = accesses_of(search->program->arena, statement);
    for (int i = 0; i < touched.count; i++)
        search->met[((Expr *)touched.items[i])->tensor->id] = true;
}

static void look_at(FirstSumSearch *search, ScheduleUnit *unit);

static void look_at_all(FirstSumSearch *search, const List *units) {
    for (int i = 0; i < units->count; i++) look_at(search, units->items[i]);
}

static void look_at(FirstSumSearch *search, ScheduleUnit *unit) {
    const Kernel *kernel = unit->kernel ? unit->kernel : unit->epilogue;
    if (unit->kind == UNIT_REPEAT) {
        list_push(search->program->arena, &search->repeats, unit->statement->index);
        look_at_all(search, &unit->body);
        search->repeats.count--;
        return;
    }
    if (unit->kind == UNIT_CONTRACTION) {
        unit->overwrites_gradient = unit->statement->target->tensor->role == ROLE_GRADIENT &&
                                    !unit->once && stores(unit, search->program->target) &&
                                    makes_all(search, unit->contraction, unit->statement->target);
    }
    for (int i = 0; kernel && i < kernel->members.count; i++)
        meet(search, ((Member *)kernel->members.items[i])->statement);
    if (!kernel) meet(search, unit->statement);
}

void first_sums(Schedule *schedule) {
    Program *program = schedule->program;
    const size_t tensors = (size_t)program->tensors.count + 1;
    if (program->graph != GRAPH_TRAIN) return;
    FirstSumSearch search = {.program = program, .def_use = def_use_new(program)};
    search.met = arena_alloc(program->arena, tensors * sizeof *search.met);
    look_at_all(&search, &schedule->units);
}
