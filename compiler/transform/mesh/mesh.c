/* mesh: the program of one process of a mesh.
 *
 * Needs:   simplify; sizes of the mesh that divide the batch.
 * Leaves:  axes of the sequences have the size of a process. Collectives copy tensors between
 *          processes where a statement needs another placement. All processes run the same program;
 *          an input is the index of the process.
 *
 *     load[n] = sum[b,s] chosen[b,s,n]         load[n] = sum[b,s] chosen[b,s,n]
 *     share[n] = load[n] * p[n]           -->  load_sum[n] = collective(load[n]; all-reduce)
 *                                              share[n] = load_sum[n] * p[n]
 *
 * placement.c decides the placements. Gradients stay in terms: the sum over the processes is that
 * of the step. */
#include "transform/mesh/mesh.h"

#include "base/must.h"
#include "ir/call.h"
#include "passes.h"

/* A statement while it is rewritten. */
typedef struct LocalRewriting {
    Division *division;
    Statement *statement; /* before */
    LoopForm form;
    Index *from, *to; /* the divided loop, and its part; or NULL */
    Expr *number;     /* the value of the index in the global program */
    List *before;     /* receives the collectives that it needs */
    const Statement *scan;
} LocalRewriting;

static const LocalAxis *local_axis(const Division *division, const Axis *axis) {
    LIST_EACH(const LocalAxis, local, &division->axes)
        if (local->whole == axis || local->part == axis) return local;
    return NULL;
}

static Expr *mesh_position(Program *program, MeshAxis axis) {
    Tensor **index = &program->mesh_index[axis];
    if (!*index) {
        const char *name = arena_format(program->arena, "%s_process", mesh_axis_name(axis));
        *index = tensor_new(program, name, ROLE_INPUT, TYPE_INT, 0, NULL, (Span){0});
        (*index)->input = (*index)->declared = MOEC_INPUT_SCALAR;
        if (axis == MESH_DATA) (*index)->scalar = MOEC_SCALAR_PROCESS;
        (*index)->vocabulary = program->mesh[axis];
    }
    return expr_read(program, *index, NULL);
}

static void refuse_division(Division *division, const Statement *statement, const char *what) {
    Reports *reports = division->program->reports;
    if (!division->failed) {
        report_caused(reports, statement->asked, statement->span, "computed here",
                      "the sequences of a micro-batch cannot be divided: %s", what);
        report_help(reports, "use --mesh data=1, or an equation that treats each sequence alone");
    }
    division->failed = true;
}

/* ---- collectives ---- */

Statement *collective_new(Program *program, List *made, CollectiveKind kind, MeshAxis over,
                          Span span, Span asked) {
    Block block = {{NULL, 0, 0}};
    Statement *statement = statement_call(program, &block, CALL_COLLECTIVE, span);
    statement->asked = asked;
    statement->collective.kind = kind;
    statement->collective.over = over;
    list_push(program->arena, made, statement);
    return statement;
}

/* An access of the same elements of another tensor of these axes: with the steps of repeats of
 * `access`, else whole dimensions. */
static void slice_subs(Program *program, const Expr *access, Expr **subs) {
    for (int i = 0; i < access->count; i++) {
        const Expr *sub = access->args[i];
        const bool step = access->tensor->axes[i]->kind == AXIS_REPEAT &&
                          !(sub->kind == EXPR_INDEX && !sub->index->of_repeat) &&
                          sub->kind != EXPR_READ;
        Axis *axis = access->tensor->axes[i];
        subs[i] = step ? access->args[i] : expr_index(program, index_over(program, axis));
    }
}

/* A copy of a tensor for a collective, whole in every process. */
static Tensor *whole_copy(const Division *division, const Tensor *tensor, const char *part) {
    Program *program = division->program;
    Axis *axes[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) axes[i] = tensor->axes[i];
    if (over_processes(tensor)) {
        const int dimension = tensor->placed[MESH_DATA].dimension;
        axes[dimension] = local_axis(division, axes[dimension])->whole;
    }
    const char *name = arena_format(program->arena, "%s_%s", tensor->name, part);
    Tensor *copy =
        tensor_new(program, name, ROLE_TEMP, tensor->type, tensor->rank, axes, tensor->span);
    copy->integer = tensor->integer;
    copy->vocabulary = tensor->vocabulary;
    return copy;
}

/* The sum of a tensor in terms, after its last definition. */
static void add_sum(Division *division, List *made, const Statement *statement, Expr *access) {
    Program *program = division->program;
    TensorFacts *facts = mesh_facts(division, access->tensor);
    Expr *subs[MAX_RANK];
    facts->sum = whole_copy(division, access->tensor, "sum");
    Statement *collective =
        collective_new(program, made, COLLECTIVE_SUM, MESH_DATA, statement->span, statement->asked);
    slice_subs(program, access, subs);
    list_push(program->arena, &collective->inputs, expr_read(program, access->tensor, subs));
    list_push(program->arena, &collective->outputs, expr_read(program, facts->sum, subs));
}

static Tensor *add_gathered(LocalRewriting *rewriting, const Expr *read) {
    Division *division = rewriting->division;
    Program *program = division->program;
    Tensor *tensor = read->tensor;
    Expr *from[MAX_RANK], *to[MAX_RANK];
    if (rewriting->scan && tensor->id < division->fact_count &&
        mesh_facts(division, tensor)->end == rewriting->scan) {
        refuse_division(division, rewriting->statement,
                        "a recurrence combines sequences at each of its positions");
        return tensor;
    }
    Tensor *whole = whole_copy(division, tensor, "gathered");
    Statement *collective = collective_new(program, rewriting->before, COLLECTIVE_GATHER, MESH_DATA,
                                           rewriting->statement->span, rewriting->statement->asked);
    slice_subs(program, read, from);
    const int dimension = tensor->placed[MESH_DATA].dimension;
    for (int i = 0; i < tensor->rank; i++) {
        to[i] = from[i];
        if (i < dimension && from[i]->kind == EXPR_INDEX && !from[i]->index->of_repeat)
            collective->collective.dimension++;
    }
    to[dimension] = expr_index(program, index_over(program, whole->axes[dimension]));
    list_push(program->arena, &collective->inputs, expr_read(program, tensor, from));
    list_push(program->arena, &collective->outputs, expr_read(program, whole, to));
    return whole;
}

/* ---- expressions ---- */

static Expr *localize(LocalRewriting *rewriting, Expr *expr);

static Expr *localize_read(LocalRewriting *rewriting, const Expr *read) {
    Program *program = rewriting->division->program;
    Tensor *tensor = read->tensor;
    Expr *subs[MAX_RANK] = {NULL};
    const int dimension = over_processes(tensor) ? tensor->placed[MESH_DATA].dimension : -1;
    for (int i = 0; i < read->count; i++) {
        Expr *sub = read->args[i];
        const bool own = i == dimension && sub->kind == EXPR_INDEX && rewriting->from &&
                         sub->index == rewriting->from;
        subs[i] = own ? expr_index(program, rewriting->to) : localize(rewriting, sub);
        if (i == dimension && !own) tensor = add_gathered(rewriting, read);
    }
    if (is_in_terms(tensor)) {
        const TensorFacts *facts = mesh_facts(rewriting->division, tensor);
        if (facts->summed || !rewriting->form.linear) tensor = facts->sum;
        MUST(tensor);
    }
    Expr *result = expr_read(program, tensor, subs);
    result->span = read->span;
    return result;
}

static Expr *localize(LocalRewriting *rewriting, Expr *expr) {
    if (expr->kind == EXPR_INDEX)
        return rewriting->from && expr->index == rewriting->from ? rewriting->number : expr;
    if (expr->kind == EXPR_READ) return localize_read(rewriting, expr);
    if (!expr->count) return expr;
    Expr *args[3] = {NULL};
    for (int i = 0; i < expr->count; i++) args[i] = localize(rewriting, expr->args[i]);
    return expr_with_args(rewriting->division->program, expr, args);
}

/* The first element of a process along an axis. */
static Expr *first_in_process(const Division *division, const LocalAxis *axis) {
    Program *program = division->program;
    return expr_apply(program, OP_MUL, mesh_position(program, MESH_DATA),
                      expr_number(program, (double)axis->part->size), NULL);
}

static Expr *localize_target(LocalRewriting *rewriting, const Expr *target) {
    Division *division = rewriting->division;
    Program *program = division->program;
    Expr *subs[MAX_RANK] = {NULL};
    const int dimension =
        over_processes(target->tensor) ? target->tensor->placed[MESH_DATA].dimension : -1;
    for (int i = 0; i < target->count; i++) {
        Expr *sub = target->args[i];
        if (i != dimension)
            subs[i] = localize(rewriting, sub);
        else if (sub->kind == EXPR_INDEX && sub->index == rewriting->from)
            subs[i] = expr_index(program, rewriting->to);
        else
            subs[i] = expr_apply(
                program, OP_SUB, localize(rewriting, sub),
                first_in_process(division, local_axis(division, target->tensor->axes[i])), NULL);
    }
    Expr *result = expr_read(program, target->tensor, subs);
    result->span = target->span;
    return result;
}

static void begin_local(LocalRewriting *rewriting, Index *index) {
    const Division *division = rewriting->division;
    rewriting->from = index;
    if (!index) return;
    const LocalAxis *axis = local_axis(division, index->axis);
    MUST(axis);
    rewriting->to = index_new(division->program, index->name, axis->part);
    rewriting->number = expr_apply(division->program, OP_ADD, first_in_process(division, axis),
                                   expr_index(division->program, rewriting->to), NULL);
}

/* ---- loops ---- */

/* One process has the value, the others 0: a term. */
static Expr *in_first(Program *program, Expr *value) {
    if (expr_is_number(value, 0)) return value;
    Expr *zero = expr_number(program, 0);
    return expr_apply(program, OP_WHERE,
                      expr_apply(program, OP_EQ, mesh_position(program, MESH_DATA), zero, NULL),
                      value, zero);
}

static CollectiveKind reducing_kind(Reduction reduction) {
    return reduction == REDUCE_MAX   ? COLLECTIVE_MAX
           : reduction == REDUCE_MIN ? COLLECTIVE_MIN
                                     : COLLECTIVE_SUM;
}

static void push_statement(Program *program, List *made, Expr *target, bool accumulate, Expr *value,
                           const Statement *like, bool once) {
    Block block = {{NULL, 0, 0}};
    Statement *statement = statement_loop(program, &block, target, accumulate, REDUCE_NONE, NULL, 0,
                                          value, like->span);
    statement->asked = like->asked;
    statement->application = like->application;
    statement->once = once;
    list_push(program->arena, made, statement);
}

/* The part of a process of a target: without the subscripts of repeats. Its subscripts are those of
 * the target. */
static Expr *part_of_target(Program *program, const Expr *target, bool *scatters) {
    Axis *axes[MAX_RANK];
    Expr *subs[MAX_RANK];
    int rank = 0;
    *scatters = false;
    for (int i = 0; i < target->count; i++) {
        Expr *sub = target->args[i];
        if (expr_is_step(sub)) continue;
        *scatters |= sub->kind != EXPR_INDEX;
        axes[rank] = target->tensor->axes[i];
        subs[rank++] = sub;
    }
    const char *name = arena_format(program->arena, "%s_part", target->tensor->name);
    Tensor *part =
        tensor_new(program, name, ROLE_TEMP, target->tensor->type, rank, axes, target->span);
    part->integer = target->tensor->integer;
    return expr_read(program, part, subs);
}

/* The whole part, or all these elements of the target. */
static Expr *whole_access(Program *program, Tensor *tensor, Index *const *indices) {
    return expr_read_indices(program, tensor, indices);
}

static Expr *target_of_part(Program *program, const Expr *target, Index *const *indices) {
    Expr *subs[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < target->count; i++)
        subs[i] =
            expr_is_step(target->args[i]) ? target->args[i] : expr_index(program, indices[rank++]);
    return expr_read(program, target->tensor, subs);
}

/* Stores the sum of terms: part = terms; target = collective(part). */
static void store_sum(const Division *division, Statement *copy, List *made) {
    Program *program = division->program;
    Expr *target = copy->target;
    const bool accumulates = copy->accumulate, once = copy->once;
    bool scatters;
    Expr *part = part_of_target(program, target, &scatters);
    Index *indices[MAX_RANK];
    for (int i = 0; i < part->count; i++) indices[i] = index_over(program, part->tensor->axes[i]);
    if (scatters)
        push_statement(program, made, whole_access(program, part->tensor, indices), false,
                       expr_number(program, 0), copy, false);
    copy->target = part;
    copy->accumulate = scatters;
    copy->once = false;
    list_push(program->arena, made, copy);
    Statement *collective = collective_new(program, made, reducing_kind(copy->reduction), MESH_DATA,
                                           copy->span, copy->asked);
    list_push(program->arena, &collective->inputs, whole_access(program, part->tensor, indices));
    if (!accumulates && !scatters && !once) {
        list_push(program->arena, &collective->outputs, target_of_part(program, target, indices));
        return;
    }
    Tensor *sum = whole_copy(division, part->tensor, "sum");
    list_push(program->arena, &collective->outputs, whole_access(program, sum, indices));
    push_statement(program, made, target_of_part(program, target, indices), accumulates,
                   whole_access(program, sum, indices), copy, once);
}

static void divide_loop(LocalRewriting *rewriting, List *made) {
    Division *division = rewriting->division;
    Program *program = division->program;
    Statement *statement = rewriting->statement, *copy = arena_alloc(program->arena, sizeof *copy);
    *copy = *statement;
    begin_local(rewriting, rewriting->form.local);
    copy->value = localize(rewriting, statement->value);
    copy->target = localize_target(rewriting, statement->target);
    for (int i = 0; i < copy->loop_count; i++)
        if (copy->loops[i] == rewriting->from) copy->loops[i] = rewriting->to;
    const bool terms = rewriting->form.terms, wanted = is_in_terms(statement->target->tensor);
    if (wanted && !terms) copy->value = in_first(program, copy->value);
    if (!terms || wanted)
        list_push(program->arena, made, copy);
    else if (rewriting->scan)
        refuse_division(division, statement,
                        "a recurrence needs a sum over them at each of its positions");
    else
        store_sum(division, copy, made);
}

/* ---- calls ---- */

static Expr *localize_operand(LocalRewriting *rewriting, const Expr *operand) {
    Program *program = rewriting->division->program;
    Expr *subs[MAX_RANK] = {NULL};
    for (int i = 0; i < operand->count; i++) {
        const bool own =
            over_processes(operand->tensor) && i == operand->tensor->placed[MESH_DATA].dimension;
        subs[i] = own ? expr_index(program, rewriting->to) : operand->args[i];
    }
    Tensor *tensor = operand->tensor;
    if (is_in_terms(tensor)) tensor = mesh_facts(rewriting->division, tensor)->sum;
    MUST(tensor);
    return expr_read(program, tensor, subs);
}

static bool call_divides(LocalRewriting *rewriting, const Index *local) {
    const Statement *call = rewriting->statement;
    const Index *here = NULL, *there = NULL;
    if (call->row->along) call->row->along(call, &here, &there);
    if (local && (here == local || there == local)) return false;
    const List *lists[] = {&call->inputs, &call->outputs};
    for (int list = 0; list < 2; list++)
        LIST_EACH(const Expr, operand, lists[list])
            if (over_processes(operand->tensor) &&
                (divided_sub(operand)->kind != EXPR_INDEX || divided_sub(operand)->index != local))
                return false;
    return true;
}

/* An output that is the sum over the sequences: a term in each process. */
static Expr *store_terms(LocalRewriting *rewriting, Expr *output, List *after) {
    Division *division = rewriting->division;
    Program *program = division->program;
    if (is_in_terms(output->tensor)) return output;
    bool scatters;
    Expr *part = part_of_target(program, output, &scatters);
    Index *indices[MAX_RANK];
    for (int i = 0; i < part->count; i++) indices[i] = part->args[i]->index;
    Statement *collective = collective_new(program, after, COLLECTIVE_SUM, MESH_DATA,
                                           rewriting->statement->span, rewriting->statement->asked);
    list_push(program->arena, &collective->inputs, part);
    list_push(program->arena, &collective->outputs, target_of_part(program, output, indices));
    return whole_access(program, part->tensor, indices);
}

static void divide_call(LocalRewriting *rewriting, List *made) {
    Division *division = rewriting->division;
    Program *program = division->program;
    Statement *call = rewriting->statement, *copy = arena_alloc(program->arena, sizeof *copy);
    Index *local = call_local(call);
    List after = {0};
    *copy = *call;
    copy->inputs = copy->outputs = (List){0};
    if (!call_divides(rewriting, local)) {
        refuse_division(division, call, "an operation combines them");
        return;
    }
    begin_local(rewriting, local);
    for (int i = 0; i < call->inputs.count; i++)
        list_push(program->arena, &copy->inputs, localize_operand(rewriting, call_input(call, i)));
    for (int i = 0; i < call->outputs.count; i++) {
        Expr *output = call->outputs.items[i];
        const bool sum = local && !over_processes(output->tensor);
        if (sum && !(call->row->adds_up && call->row->adds_up(call, i))) {
            refuse_division(division, call, "an operation combines them");
            return;
        }
        list_push(program->arena, &copy->outputs,
                  sum ? store_terms(rewriting, output, &after)
                      : localize_operand(rewriting, output));
    }
    list_push(program->arena, made, copy);
    list_append(program->arena, made, &after);
}

/* ---- blocks ---- */

static void divide_block(Division *division, Block *block, Statement *scan, List *outside);

/* The sums of tensors whose last definition a statement was. */
static void add_sums(Division *division, const Statement *statement, List *made) {
    for (int i = 0; i < division->fact_count; i++) {
        TensorFacts *facts = &division->facts[i];
        Tensor *tensor = division->program->tensors.items[i];
        if (facts->summed && facts->end == statement && is_in_terms(tensor))
            add_sum(division, made, statement, facts->access);
    }
}

static void divide_statement(Division *division, Statement *statement, Statement *scan,
                             List *outside, List *made) {
    LocalRewriting rewriting = {.division = division,
                                .statement = statement,
                                .before = scan ? outside : made,
                                .scan = scan};
    if (statement->kind == STATEMENT_REPEAT) {
        divide_block(division, &statement->body, NULL, NULL);
        list_push(division->program->arena, made, statement);
    } else if (statement_is_scan(statement)) {
        List operands = {0};
        divide_block(division, &statement->body, statement, &operands);
        list_append(division->program->arena, made, &operands);
        if (!division->failed) scan_operands(division->program, statement);
        list_push(division->program->arena, made, statement);
    } else if (statement->kind == STATEMENT_CALL) {
        divide_call(&rewriting, made);
    } else {
        rewriting.form = loop_form(division, statement);
        divide_loop(&rewriting, made);
    }
    if (!scan) add_sums(division, statement, made);
}

static void divide_block(Division *division, Block *block, Statement *scan, List *outside) {
    const List statements = block->statements;
    block->statements = (List){0};
    for (int i = 0; i < statements.count && !division->failed; i++)
        divide_statement(division, statements.items[i], scan, outside, &block->statements);
}

/* ---- the pass ---- */

void help_with_size(Reports *reports, MeshAxis axis, long number, long size, long times,
                    const char *other) {
    long below = size < number ? size : number, above = size;
    while (number % below) below--;
    while (above <= number && number % above) above++;
    const char *also =
        above <= number ? arena_format(reports->arena, " or %ld", above * times) : "";
    report_help(reports, "use %s = %ld%s, or %s", mesh_axis_name(axis), below * times, also, other);
}

/* The sequences of a micro-batch are divided evenly; false after an error. */
static bool batch_fits(const Program *program, const MeshSizes *sizes) {
    const long size = sizes->size[MESH_DATA], batch = program->batch ? program->batch->size : 1,
               times = sizes->micro_batches > 1 ? sizes->micro_batches : 1;
    Reports *reports = program->reports;
    if (batch % size == 0) return true;
    const char *over = arena_format(reports->arena, "data = %ld", size);
    if (times > 1)
        over = arena_format(reports->arena, "%ld processes (data = %ld, %ld micro-batches)", size,
                            size * times, times);
    report_error(reports, sizes->span[MESH_DATA],
                 "%ld sequence%s (the batch size) cannot be divided over %s", batch,
                 batch == 1 ? "" : "s", over);
    help_with_size(reports, MESH_DATA, batch, size, times,
                   arena_format(reports->arena, "a batch size of %ld", (batch / size + 1) * size));
    return false;
}

/* Tensors have the part of the batch axis that belongs to a process. */
static void divide_axes(Division *division) {
    Program *program = division->program;
    LIST_EACH(Tensor, tensor, &program->tensors) {
        for (int j = 0; j < tensor->rank && !over_processes(tensor); j++) {
            Axis *axis = tensor->axes[j];
            if (axis->kind != AXIS_BATCH) continue;
            const LocalAxis *known = local_axis(division, axis);
            if (!known) {
                LocalAxis *made = arena_alloc(program->arena, sizeof *made);
                *made = (LocalAxis){axis, axis_new(program, axis->name, axis->size / division->size,
                                                   axis->kind, axis->span)};
                list_push(program->arena, &division->axes, made);
                known = made;
            }
            tensor->axes[j] = known->part;
            tensor->placed[MESH_DATA] = (Placement){PLACED_DIVIDED, j, 0};
        }
    }
}

void mesh(Program *program, const MeshSizes *sizes) {
    Division division = {.program = program, .size = sizes->size[MESH_DATA]};
    if (!batch_fits(program, sizes)) return;
    for (int i = 0; i < MESH_AXES; i++) program->mesh[i] = sizes->size[i];
    if (division.size == 1) return;
    division.fact_count = program->tensors.count;
    division.facts =
        arena_alloc(program->arena, ((size_t)division.fact_count + 1) * sizeof *division.facts);
    divide_axes(&division);
    place_tensors(&division);
    divide_block(&division, &program->body, NULL, NULL);
    if (program->batch && local_axis(&division, program->batch))
        program->batch = local_axis(&division, program->batch)->part;
}
