/* route: moves computation that is needed only for selected entries to dispatched rows.
 *
 * Needs:   written_masks, simplify; masks are outputs of top, masks of reductions, and
 *          comparisons that are a factor of a sum.
 * Leaves:  tensors that are zero or unused outside of a mask have one axis of rows instead of the
 *          axes of the mask; the values are the same up to rounding. Statements that cannot be
 *          dispatched stay dense and masked.
 *
 *     chosen[b,s,n] = top(p[b,s,n])              chosen[b,s,n] = top(p[b,s,n])
 *                                                b[r], s[r], n[r], ... = pack(chosen[b,s,n])
 *     h[b,s,n,f] = sum[d] x[b,s,d] * up[n,d,f]   h[r,f] = sum[d] x[b[r],s[r],d] * up[n[r],d,f]
 *     y[b,s,f] = sum[n]                    -->   y[b,s,f] = 0
 *       chosen[b,s,n] * p[b,s,n] * h[b,s,n,f]    y[b[r],s[r],f] += p[b[r],s[r],n[r]] * h[r,f]
 *
 * Masks are processed in program order, one that refines another first: of the same entries, or of
 * pairs of entries (a top over the pairs of two choices). A top over the rows of another mask is
 * then a mask over (rows, selections) and is processed in the same way.
 *
 * The number of rows of a top is known. That of other masks depends on the data: memory is planned
 * for the largest number, and loops over the rows end at the number that pack counts.
 *
 *     on[b,s,n] = p[b,s,n] > 0                   h[r,f] = ...   rows < on_group[8]
 */
#include "transform/route/route.h"
#include "analysis/access.h"
#include "ir/call.h"
#include "passes.h"

static void find_packings(Routing *routing) {
    int tensors = routing->program->tensors.count;
    do {
        routing->def_use = def_use_new(routing->program);
        find_support(routing);
    } while (split_choice(routing, tensors));
}

/* Sets the new shape of each dispatched tensor; reads of the old one keep their own length. */
static void reshape(Routing *routing) {
    for (int i = 0; i < routing->packing_count; i++) {
        Tensor *tensor = routing->program->tensors.items[i];
        const Packing *packing = packing_of(routing, tensor);
        if (!packing) continue;
        void *axes[MAX_RANK];
        for (int j = 0; j < tensor->rank; j++) axes[j] = tensor->axes[j];
        tensor->rank = collapse(routing, packing, tensor->rank, axes, routing->rows);
        for (int j = 0; j < tensor->rank; j++) tensor->axes[j] = axes[j];
    }
}

static Expr *one_for_mask(Program *program, Expr *read, void *data) {
    return read->tensor == data ? expr_number(program, 1) : NULL;
}

/* Notes why all entries are computed, unless it is known. A mask that changes no value is removed.
 */
static void leave_dense(const Routing *routing, const char *why) {
    Program *program = routing->program;
    Block *block = routing->home ? &routing->home->body : &program->body;
    Tensor *mask = routing->mask;
    if (!mask->dense) mask->dense = why;
    if (!mask->implied) return;
    int kept = 0;
    for (int i = 0; i < block->statements.count; i++)
        if (block->statements.items[i] != routing->choice)
            block->statements.items[kept++] = block->statements.items[i];
    block->statements.count = kept;
    for (int i = 0; i < program->body.statements.count; i++)
        rewrite_statement(program, program->body.statements.items[i], false, one_for_mask, mask);
}

static void route_mask(Routing *routing, Statement *choice, Statement *home) {
    start_mask(routing, choice, home);
    sink(routing);
    hoist_masked(routing);
    per_choice(routing);
    find_packings(routing);
    if (!rows_pay(routing)) {
        leave_dense(routing, why_dense(routing));
        return;
    }
    const char *why = why_dense(routing);
    find_dense_call(routing);
    reshape(routing);
    rewrite_block(routing, &routing->program->body, NULL);
    if (routing->sites.count == routing->first_site) {
        find_dense_choice(routing);
        leave_dense(routing, why);
        return;
    }
    list_push(routing->program->arena, &routing->program->axes, routing->rows);
    relation_finish(routing);
}

/* True for an equation of single entries that reads nothing but the tensor. */
static bool is_pointwise_of(const Routing *routing, const Statement *statement,
                            const Tensor *tensor) {
    List reads = {0};
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_NONE ||
        statement->target->tensor == tensor)
        return false;
    reads_of(routing->program->arena, statement, &reads);
    LIST_EACH(const Expr, read, &reads)
        if (read->tensor != tensor) return false;
    return true;
}

static bool is_mask_of(const Statement *attend, const Tensor *tensor) {
    const AttendOptions *options = &attend->attention;
    return attend->kind == STATEMENT_CALL && options->chosen &&
           call_input(attend, attend_chosen(options))->tensor == tensor;
}

/* True if the tensor, or equations of its entries alone, are only read as masks of attention. That
 * reads all entries: rows would be written back. */
static bool only_masks_attention(const Routing *routing, const Tensor *tensor) {
    bool read = false;
    LIST_EACH(const TensorAccess, access, &routing->def_use->accesses[tensor->id]) {
        const Statement *statement = routing->def_use->points[access->position].statement;
        if (access->write) continue;
        if (!is_mask_of(statement, tensor) &&
            !(is_pointwise_of(routing, statement, tensor) &&
              only_masks_attention(routing, statement->target->tensor)))
            return false;
        read = true;
    }
    return read;
}

/* True if the statement makes a mask: a choice, or the mask of a reduction. */
static bool makes_mask(const Routing *routing, Statement *statement) {
    if (statement_selects(statement)) return true;
    if (statement->kind != STATEMENT_LOOP) return false;
    const Tensor *tensor = statement->target->tensor;
    return tensor->selects && tensor->role == ROLE_TEMP && tensor->type == TYPE_REAL &&
           mask_maker(routing, tensor) == statement;
}

/* True if the mask is zero wherever the current one is. */
static bool is_finer(const Routing *routing, const ProgramPoint *point) {
    const Expr *target = mask_target(point->statement);
    Tuple tuple;
    int rank = 0;
    for (int i = 0; i < target->count; i++) rank += target->args[i]->index->of_repeat == false;
    return point->repeat == routing->home && rank == routing->rank &&
           choose_tuple(routing, point, &tuple);
}

/* The rows expected for all values of the axes that the current mask lacks. */
static double expected_copies(const Routing *routing, const Tensor *mask) {
    double rows = axis_expected(routing->rows);
    for (int i = 0; i < mask->rank; i++) {
        bool shared = mask->axes[i]->kind == AXIS_REPEAT;
        for (int j = 0; j < routing->rank; j++)
            shared |= mask->axes[i] == routing->mask->axes[routing->mask_dims[j]];
        if (!shared) rows *= axis_expected(mask->axes[i]);
    }
    return rows;
}

/* True if the statement reads the current mask or values that are computed from it. */
static bool uses_mask(const Routing *routing, const Statement *statement) {
    Arena *arena = routing->program->arena;
    const DefUse *def_use = routing->def_use;
    bool *uses = arena_alloc(arena, (size_t)def_use->tensor_count * sizeof *uses);
    uses[routing->mask->id] = true;
    for (int i = 0; i < def_use->count; i++) {
        const Statement *other = def_use->points[i].statement;
        List reads = {0}, writes = {0};
        bool found = false;
        reads_of(arena, other, &reads);
        writes_of(arena, other, &writes);
        for (int j = 0; j < reads.count; j++)
            found |= uses[((const Expr *)reads.items[j])->tensor->id];
        if (other == statement) return found;
        for (int j = 0; found && j < writes.count; j++)
            uses[((const Expr *)writes.items[j])->tensor->id] = true;
    }
    return false;
}

/* True if the mask refines the current one over further axes: it is computed from it, but not on
 * its rows, and selects fewer entries. */
static bool refines_over_axes(const Routing *routing, const ProgramPoint *point) {
    Tensor *mask = mask_target(point->statement)->tensor;
    Routing other = {.program = routing->program};
    int dims[MAX_RANK];
    if (point->repeat != routing->home || packing_of(routing, mask) ||
        !match_axes(routing, mask, dims))
        return false;
    start_mask(&other, point->statement, point->repeat);
    return other.rank > routing->rank &&
           axis_expected(other.rows) < expected_copies(routing, mask) &&
           uses_mask(routing, point->statement);
}

/* True for a condition on entries alone, on[n]. Its rows have a bound, which a statement has once:
 * selections of positions come first. */
static bool is_of_entries(const Statement *maker) {
    const Tensor *mask = mask_target(maker)->tensor;
    for (int i = 0; i < mask->rank; i++)
        if (mask->axes[i]->kind != AXIS_PLAIN && mask->axes[i]->kind != AXIS_REPEAT) return false;
    return !statement_selects(maker);
}

/* The first mask that is not done, after those that refine it; processing one may create others. */
static const ProgramPoint *next_mask(Routing *routing) {
    routing->def_use = def_use_new(routing->program);
    const DefUse *def_use = routing->def_use;
    List open = {NULL, 0, 0};
    for (int i = 0; i < def_use->count; i++) {
        ProgramPoint *point = &def_use->points[i];
        if (makes_mask(routing, point->statement) &&
            list_find(routing->done, mask_target(point->statement)->tensor) < 0 &&
            !only_masks_attention(routing, mask_target(point->statement)->tensor))
            list_push(routing->program->arena, &open, point);
    }
    const ProgramPoint *next = open.count ? open.items[0] : NULL;
    LIST_EACH(const ProgramPoint, other, &open)
        if (is_of_entries(next->statement) && !is_of_entries(other->statement)) next = other;
    for (int i = list_find(&open, next) + 1; i < open.count; i++) {
        const ProgramPoint *other = open.items[i];
        start_mask(routing, next->statement, next->repeat);
        find_support(routing);
        if (refines_over_axes(routing, other) ||
            (!statement_selects(other->statement) && is_finer(routing, other)))
            next = other;
    }
    return next;
}

/* The costs of attention to chosen pairs count the expected ones. */
static void set_shares(Routing *routing) {
    routing->def_use = def_use_new(routing->program);
    for (int i = 0; i < routing->def_use->count; i++) {
        Statement *statement = routing->def_use->points[i].statement;
        AttendOptions *options = &statement->attention;
        if (statement->kind != STATEMENT_CALL || !options->chosen) continue;
        const Expr *chosen = statement->inputs.items[attend_chosen(options)];
        const Statement *maker = mask_maker(routing, chosen->tensor);
        options->share = maker ? share_of_positions(routing->program, statement, maker) : 1;
        if (options->share == 0) options->share = mask_count(routing, maker, 0).share;
    }
}

/* route: see the head of this file. */
void route(Program *program) {
    List done = {NULL, 0, 0}, dense = {NULL, 0, 0};
    Routing routing = {.program = program, .done = &done, .dense = &dense};
    set_shares(&routing);
    const ProgramPoint *point;
    while ((point = next_mask(&routing)) != NULL) {
        list_push(program->arena, &done, mask_target(point->statement)->tensor);
        route_mask(&routing, point->statement, point->repeat);
    }
    note_dense_choices(&routing);
}
