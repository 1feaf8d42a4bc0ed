/* route: moves computation that is needed only for selected entries to dispatched rows.
 *
 * Needs:   simplify; masks are outputs of top, used as factors of dense statements.
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
 * Masks are processed in program order. A top over the rows of another mask is then a mask over
 * (rows, selections) and is processed in the same way.
 */
#include "transform/route/route.h"

#include "passes.h"

static void start_mask(Routing *routing, Statement *choice, Statement *home) {
    Program *program = routing->program;
    const Expr *output = choice->outputs.items[0];
    *routing = (Routing){.program = program,
                         .sites = routing->sites,
                         .row_tensors = routing->row_tensors,
                         .choice = choice,
                         .home = home,
                         .mask = output->tensor,
                         .first_site = routing->sites.count};
    long size = 1;
    for (int i = 0; i < output->count; i++) {
        const Expr *sub = output->args[i];
        const Axis *axis = output->tensor->axes[i];
        if (sub->kind != EXPR_INDEX || sub->index->of_repeat) {
            routing->stacked = true;
            continue;
        }
        bool along = routing->rank == choice->top.dimension;
        size *= along && choice->top.k < axis->size ? choice->top.k : axis->size;
        routing->mask_dims[routing->rank++] = i;
    }
    int tensors = program->tensors.count;
    do {
        routing->def_use = def_use_new(program);
        find_support(routing);
    } while (split_choice(routing, tensors));
    routing->rows = arena_alloc(program->arena, sizeof *routing->rows);
    *routing->rows = (Axis){.name = arena_format(program->arena, "%s_rows", routing->mask->name),
                            .size = size,
                            .kind = AXIS_ROWS,
                            .span = choice->span};
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

static void route_mask(Routing *routing, Statement *choice, Statement *home) {
    start_mask(routing, choice, home);
    reshape(routing);
    rewrite_block(routing, &routing->program->body, NULL);
    if (routing->sites.count == routing->first_site) return;
    list_push(routing->program->arena, &routing->program->axes, routing->rows);
    relation_finish(routing);
}

/* The first top that is not done; processing one may create others. */
static const ProgramPoint *next_choice(Program *program, const List *done) {
    const DefUse *def_use = def_use_new(program);
    for (int i = 0; i < def_use->count; i++) {
        const Statement *statement = def_use->points[i].statement;
        if (statement_selects(statement) && list_find(done, statement) < 0)
            return &def_use->points[i];
    }
    return NULL;
}

/* route: see the head of this file. */
void route(Program *program) {
    Routing routing = {.program = program};
    List done = {NULL, 0, 0};
    const ProgramPoint *point;
    while ((point = next_choice(program, &done)) != NULL) {
        list_push(program->arena, &done, point->statement);
        route_mask(&routing, point->statement, point->repeat);
    }
}
