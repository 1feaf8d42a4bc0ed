/* prepare: values that a decoding step computes from weights alone move to a program of their own,
 * which runs once after the weights have changed.
 *
 * Needs:   an elaborated GRAPH_DECODE program.
 * Leaves:  reads of prepared tensors, which follow the parameters in the block of weights. The
 *          program of GRAPH_PREPARE, program->prepare, writes them. It has copies of the statements
 *          that read only parameters, numbers and indices, and the parameters that these read.
 *
 *     size[f] = rsqrt(sum[d] up[d,f] * up[d,f])       y[b,s,f] = sum[d] x[b,s,d] * u[d,f]
 *     u[d,f] = up[d,f] * size[f]                 -->
 *     y[b,s,f] = sum[d] x[b,s,d] * u[d,f]             u is prepared: size, u
 *
 * A tensor in a repeat is prepared for all of its iterations. A tensor with more elements than the
 * parameters that it depends on is prepared only if it needs MIN_WORK operations per element: a
 * step would otherwise read more memory to save little. Statements with a loop over sequences or
 * positions, calls, scans and random values stay, and so do values of fewer than LEAST_WORK
 * operations.
 */
#include "passes.h"
#include "analysis/access.h"

enum { MIN_WORK = 4, LEAST_WORK = 256 };

/* By tensor id. */
typedef struct Preparing {
    Program *program, *made;
    int count;        /* tensors of the decoding program before this pass */
    bool *fixed;      /* every statement that writes it reads fixed tensors only */
    bool *of_weights; /* depends on a parameter */
    bool *written;
    bool *live;
    bool *wanted;     /* fixed, of weights, and another statement reads it */
    Statement **home; /* the repeat with its statement if its iterations differ, or NULL */
    Tensor **clones;  /* in the program of GRAPH_PREPARE */
    Tensor **results; /* wanted: the prepared tensor in the decoding program */
    bool changed;
} Preparing;

/* ---- dependence on weights alone ---- */

typedef struct Surrounding {
    Statement *repeat; /* the enclosing repeat, or NULL */
    int depth;
    bool in_scan;
} Surrounding;

typedef void Visit(Preparing *all, Statement *statement, Surrounding region);

static void visit_all(Preparing *all, Block *block, Surrounding region, Visit *visit) {
    LIST_EACH(Statement, statement, &block->statements) {
        Surrounding inside = region;
        if (statement->kind == STATEMENT_REPEAT) {
            inside.repeat = statement;
            inside.depth++;
        }
        inside.in_scan |= statement_is_scan(statement);
        if (statement->kind != STATEMENT_REPEAT) visit(all, statement, region);
        visit_all(all, &statement->body, inside, visit);
    }
}

static bool is_fixed_read(const Preparing *all, const Tensor *tensor) {
    return tensor->role == ROLE_PARAMETER ||
           (tensor->role == ROLE_TEMP && all->fixed[tensor->id] && all->written[tensor->id]);
}

static bool is_fixed_expr(const Preparing *all, const Expr *expr) {
    if (expr->kind == EXPR_INDEX)
        return expr->index->axis->kind == AXIS_PLAIN || expr->index->of_repeat;
    if (expr->kind == EXPR_READ && !is_fixed_read(all, expr->tensor)) return false;
    if (expr->kind == EXPR_APPLY && op_is_random(expr->op)) return false;
    for (int i = 0; i < expr->count; i++)
        if (!is_fixed_expr(all, expr->args[i])) return false;
    return true;
}

static bool is_fixed_statement(const Preparing *all, const Statement *statement,
                               Surrounding region) {
    if (statement->kind != STATEMENT_LOOP || region.in_scan || region.depth > 1 ||
        statement->once || statement->accumulate)
        return false;
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i]->axis->kind != AXIS_PLAIN) return false;
    return is_fixed_expr(all, statement->value) && is_fixed_expr(all, statement->target);
}

/* True if the value differs between the iterations of a repeat. */
static bool varies_in_repeat(const Preparing *all, const Expr *expr, const Index *step) {
    if (expr->kind == EXPR_INDEX) return expr->index == step;
    if (expr->kind == EXPR_READ && all->home[expr->tensor->id]) return true;
    for (int i = 0; i < expr->count; i++)
        if (varies_in_repeat(all, expr->args[i], step)) return true;
    return false;
}

static void find_writers(Preparing *all, Statement *statement, Surrounding region) {
    if (statement->kind != STATEMENT_LOOP) return;
    const int id = statement->target->tensor->id;
    all->fixed[id] &= !all->written[id]; /* one statement writes it */
    all->written[id] = true;
    if (region.repeat && varies_in_repeat(all, statement->value, region.repeat->index))
        all->home[id] = region.repeat;
}

static void unfix(Preparing *all, const Tensor *tensor) {
    all->changed |= all->fixed[tensor->id];
    all->fixed[tensor->id] = false;
}

typedef struct PreparedRead {
    Preparing *all;
    Surrounding region;
    bool wants; /* the reader stays */
} PreparedRead;

/* A reader outside of the repeat needs the value of the last iteration. */
static void note_fixed_read(Expr *expr, void *data) {
    const PreparedRead *reader = data;
    if (expr->kind != EXPR_READ || expr->tensor->role != ROLE_TEMP) return;
    const int id = expr->tensor->id;
    const Statement *home = reader->all->home[id];
    if (home && home != reader->region.repeat) unfix(reader->all, expr->tensor);
    if (reader->wants) reader->all->wanted[id] |= reader->all->of_weights[id];
}

static void note_fixed_reads(Preparing *all, const Statement *statement, Surrounding region,
                             bool wants) {
    PreparedRead reader = {all, region, wants};
    statement_walk(statement, note_fixed_read, &reader);
}

static void narrow(Preparing *all, Statement *statement, Surrounding region) {
    note_fixed_reads(all, statement, region, false);
    if (statement->kind == STATEMENT_LOOP && !is_fixed_statement(all, statement, region))
        unfix(all, statement->target->tensor);
    for (int i = 0; i < statement->outputs.count; i++)
        unfix(all, ((const Expr *)statement->outputs.items[i])->tensor);
}

static bool reads_weights(const Preparing *all, const Expr *expr) {
    if (expr->kind == EXPR_READ &&
        (expr->tensor->role == ROLE_PARAMETER || all->of_weights[expr->tensor->id]))
        return true;
    for (int i = 0; i < expr->count; i++)
        if (reads_weights(all, expr->args[i])) return true;
    return false;
}

static void find_weight_values(Preparing *all, Statement *statement, Surrounding region) {
    (void)region;
    if (statement->kind != STATEMENT_LOOP || !all->fixed[statement->target->tensor->id]) return;
    all->of_weights[statement->target->tensor->id] = reads_weights(all, statement->value);
}

static void find_wanted_reads(Preparing *all, Statement *statement, Surrounding region) {
    const bool loop = statement->kind == STATEMENT_LOOP;
    if (loop &&
        (all->fixed[statement->target->tensor->id] || !all->live[statement->target->tensor->id]))
        return;
    note_fixed_reads(all, statement, region, true);
}

static bool may_be_fixed(const Tensor *tensor) {
    bool plain = tensor->role == ROLE_TEMP && tensor->type == TYPE_REAL && !tensor->carried &&
                 !tensor->cached && tensor->rank < MAX_RANK;
    for (int i = 0; i < tensor->rank; i++) plain &= tensor->axes[i]->kind == AXIS_PLAIN;
    return plain;
}

/* ---- whether it is worth it ---- */

/* Parameters and operations of the statements that a tensor depends on, in one iteration. */
typedef struct Cone {
    Preparing *all;
    bool *needed;
    double sources, work;
} Cone;

static void need_read(Expr *expr, void *data) {
    Cone *cone = data;
    if (expr->kind != EXPR_READ || cone->needed[expr->tensor->id]) return;
    cone->needed[expr->tensor->id] = true;
    cone->all->changed = true;
    if (expr->tensor->role != ROLE_PARAMETER) return;
    const bool stacked = expr->tensor->rank && expr->tensor->axes[0]->kind == AXIS_REPEAT;
    cone->sources +=
        (double)tensor_elements(expr->tensor) / (stacked ? (double)expr->tensor->axes[0]->size : 1);
}

static int operations(const Expr *expr) {
    int sum = expr->kind == EXPR_APPLY;
    for (int i = 0; i < expr->count; i++) sum += operations(expr->args[i]);
    return sum;
}

static void widen(Statement *statement, void *data) {
    Cone *cone = data;
    if (statement->kind != STATEMENT_LOOP || !cone->needed[statement->target->tensor->id]) return;
    double elements = operations(statement->value) + (statement->reduction != REDUCE_NONE);
    for (int i = 0; i < statement->loop_count; i++)
        elements *= (double)statement->loops[i]->axis->size;
    cone->work += elements;
    expr_walk(statement->value, need_read, cone);
}

/* Writers precede readers: one walk from last to first finds all. */
static bool is_worth(Preparing *all, const Tensor *tensor) {
    Program *program = all->program;
    Cone cone = {.all = all};
    cone.needed =
        arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *cone.needed);
    cone.needed[tensor->id] = true;
    block_walk_back(&program->body, widen, &cone);
    const double elements = (double)tensor_elements(tensor);
    return cone.work >= LEAST_WORK &&
           (elements <= cone.sources || cone.work >= MIN_WORK * elements);
}

/* Finds fixed tensors, and the ones that statements outside read. */
static void find_fixed(Preparing *all) {
    Block *body = &all->program->body;
    do {
        all->changed = false;
        visit_all(all, body, (Surrounding){0}, narrow);
    } while (all->changed);
    for (int i = 0; i < all->count; i++) all->wanted[i] = all->of_weights[i] = false;
    visit_all(all, body, (Surrounding){0}, find_weight_values);
    visit_all(all, body, (Surrounding){0}, find_wanted_reads);
}

/* Finds the wanted tensors; one that is not worth it stays, and its operands may be wanted then.
 * Returns their number. */
static int choose_prepared(Preparing *all) {
    int found, left;
    do {
        found = left = 0;
        find_fixed(all);
        for (int i = 0; i < all->count; i++) {
            Tensor *tensor = all->program->tensors.items[i];
            if (!all->wanted[i]) continue;
            const bool worth = is_worth(all, tensor);
            if (!worth) unfix(all, tensor);
            found += worth;
            left += !worth;
        }
    } while (left);
    return found;
}

/* ---- the two programs ---- */

/* The same tensor, in another program. */
static Tensor *clone_into(Program *program, const Tensor *tensor) {
    Tensor *made = tensor_new(program, tensor->name, tensor->role, tensor->type, tensor->rank,
                              tensor->axes, tensor->span);
    const int id = made->id;
    const char *name = made->name, *stem = made->stem;
    *made = *tensor;
    made->id = id;
    made->name = name;
    made->stem = stem;
    return made;
}

/* A parameter that the tensor depends on: of the head if all are. */
static void take_facts(Tensor *made, const Expr *expr) {
    if (expr->kind == EXPR_READ && expr->tensor->role == ROLE_PARAMETER &&
        (!made->facts || tensor_elements(expr->tensor) == tensor_elements(made))) {
        made->facts = expr->tensor->facts;
        made->head = expr->tensor->head;
    }
    for (int i = 0; i < expr->count; i++) take_facts(made, expr->args[i]);
}

static Tensor *prepared_tensor(Preparing *all, const Tensor *tensor) {
    Program *program = all->program;
    const Statement *home = all->home[tensor->id];
    Axis *axes[MAX_RANK];
    int rank = 0;
    if (home) axes[rank++] = home->index->axis;
    for (int i = 0; i < tensor->rank; i++) axes[rank++] = tensor->axes[i];
    Tensor *made = tensor_new(program, arena_format(program->arena, "%s_prepared", tensor->name),
                              ROLE_PARAMETER, TYPE_REAL, rank, axes, tensor->span);
    made->path = arena_format(program->arena, "prepared:%s", tensor->name);
    made->spec_name = tensor->spec_name ? tensor->spec_name : tensor->name;
    made->prepared = true;
    made->frozen = true;
    made->lead = home ? 1 : 0;
    return made;
}

static void find_prepared_facts(Preparing *all, Statement *statement, Surrounding region) {
    (void)region;
    if (statement->kind != STATEMENT_LOOP) return;
    Tensor *made = all->results[statement->target->tensor->id];
    if (made) take_facts(made, statement->value);
}

/* The prepared tensor of a read, with the subscript of the repeat. */
static Expr *read_prepared(Program *program, const Expr *read, Tensor *prepared, Index *step) {
    Expr *subs[MAX_RANK];
    int rank = 0;
    if (step) subs[rank++] = expr_index(program, step);
    for (int i = 0; i < read->count; i++) subs[rank++] = read->args[i];
    return expr_read(program, prepared, subs);
}

static Expr *read_result(Program *program, Expr *read, void *data) {
    const Preparing *all = data;
    const int id = read->tensor->id;
    if (id >= all->count || !all->results[id]) return NULL;
    const Statement *home = all->home[id];
    return read_prepared(program, read, all->results[id], home ? home->index : NULL);
}

static void read_results(Preparing *all, Statement *statement, Surrounding region) {
    (void)region;
    if (statement->kind == STATEMENT_LOOP && all->fixed[statement->target->tensor->id]) return;
    if (!statement_is_scan(statement)) /* its body is visited as well */
        rewrite_statement(all->program, statement, false, read_result, all);
}

static void update_operands(Preparing *all, Statement *statement, Surrounding region) {
    (void)region;
    if (statement_is_scan(statement)) scan_operands(all->program, statement);
}

/* A copy of statements in the program of GRAPH_PREPARE. */
typedef struct Copying {
    Preparing *all;
    Index *step; /* of the copied repeat, or NULL */
} Copying;

static Expr *read_clone(Program *program, Expr *read, void *data) {
    const Copying *copying = data;
    Preparing *all = copying->all;
    const Tensor *tensor = read->tensor;
    if (tensor->id >= all->count || all->program->tensors.items[tensor->id] != tensor) return NULL;
    Tensor **clone = &all->clones[tensor->id];
    const Tensor *result = all->results[tensor->id];
    if (!*clone) *clone = clone_into(program, result ? result : tensor);
    if (!result) return expr_read(program, *clone, read->args);
    return read_prepared(program, read, *clone, all->home[tensor->id] ? copying->step : NULL);
}

static void copy_prepared(const Copying *copying, Block *block, const Statement *statement,
                          Index *from) {
    Program *made = copying->all->made;
    Index *indices[MAX_LOOPS + 1];
    Expr *fresh[MAX_LOOPS + 1];
    Statement *copy;
    int count = 0;
    for (; count < statement->loop_count; count++) {
        const Index *loop = statement->loops[count];
        indices[count] = statement->loops[count];
        fresh[count] = expr_index(made, index_new(made, loop->name, loop->axis));
    }
    if (from) {
        indices[count] = from;
        fresh[count++] = expr_index(made, copying->step);
    }
    copy = statement_copy(made, statement, indices, fresh, count);
    for (int i = 0; i < statement->loop_count; i++) copy->loops[i] = fresh[i]->index;
    rewrite_statement(made, copy, true, read_clone, (void *)(uintptr_t)copying);
    list_push(made->arena, &block->statements, copy);
}

static void copy_fixed(Preparing *all, Block *to, const Block *from, Statement *repeat,
                       Index *step) {
    const Copying copying = {all, step};
    LIST_EACH(Statement, statement, &from->statements) {
        if (statement->kind == STATEMENT_REPEAT && !repeat) {
            Index *index = index_new(all->made, statement->index->name, statement->index->axis);
            Statement *copy =
                statement_repeat(all->made, to, index, statement->reverse, statement->span);
            copy_fixed(all, &copy->body, &statement->body, statement, index);
        }
        if (statement->kind == STATEMENT_LOOP && all->fixed[statement->target->tensor->id])
            copy_prepared(&copying, to, statement, repeat ? repeat->index : NULL);
    }
}

static Program *program_of_weights(Preparing *all) {
    const Program *program = all->program;
    all->made =
        program_new(program->arena, program->reports, program->name, GRAPH_PREPARE, program->calls);
    all->made->axes = program->axes;
    all->made->target = program->target;
    all->made->properties = IS_COMPLETE;
    copy_fixed(all, &all->made->body, &program->body, NULL, NULL);
    bool *roots =
        arena_alloc(program->arena, ((size_t)all->made->tensors.count + 1) * sizeof *roots);
    for (int i = 0; i < all->made->tensors.count; i++)
        roots[i] = ((const Tensor *)all->made->tensors.items[i])->prepared;
    tensors_keep(all->made, dead_code(all->made, roots));
    return all->made;
}

static bool *flags(const Preparing *all) {
    return arena_alloc(all->program->arena, ((size_t)all->count + 1) * sizeof(bool));
}

void prepare_weights(Program *program) {
    Preparing all = {.program = program, .count = program->tensors.count};
    const size_t pointers = ((size_t)all.count + 1) * sizeof(Tensor *);
    bool *roots = flags(&all);
    for (int i = 0; i < program->outputs.count; i++)
        roots[((const Tensor *)program->outputs.items[i])->id] = true;
    all.live = live_tensors(program, roots);
    all.fixed = flags(&all);
    all.written = flags(&all);
    all.wanted = flags(&all);
    all.of_weights = flags(&all);
    all.home = arena_alloc(program->arena, pointers);
    all.clones = arena_alloc(program->arena, pointers);
    all.results = arena_alloc(program->arena, pointers);
    for (int i = 0; i < all.count; i++) all.fixed[i] = may_be_fixed(program->tensors.items[i]);
    visit_all(&all, &program->body, (Surrounding){0}, find_writers);
    if (!choose_prepared(&all)) return;
    for (int i = 0; i < all.count; i++)
        if (all.wanted[i]) all.results[i] = prepared_tensor(&all, program->tensors.items[i]);
    visit_all(&all, &program->body, (Surrounding){0}, find_prepared_facts);
    visit_all(&all, &program->body, (Surrounding){0}, read_results);
    visit_all(&all, &program->body, (Surrounding){0}, update_operands);
    program->prepare = program_of_weights(&all);
}
