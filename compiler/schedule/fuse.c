/* fuse: assigns every statement of a program to a unit of work.
 *
 * Needs:   simplify (no dead statements); after route if there are masks.
 * Leaves:  a Schedule. Matrix products, calls and repeats are units of their own. All other
 *          statements are in kernels, as many in one as share loops. The order changes only if a
 *          statement moves up to the last kernel past independent units, or if, on a GPU, a sum
 *          waits for another one that reads the same tensor. A recomputed statement does not move;
 *          the derivative that reads its values moves up to it.
 *
 * Independent products of few rows share a launch or a call.
 *
 *     a[s,f] = sum[d] x[s,d] * w[d,f]        product
 *     t[s,f] = a[s,f] * sigmoid(a[s,f])      kernel (s, f):  t = a * sigmoid(a);  u = t * b
 *     u[s,f] = t[s,f] * b[s,f]
 */
#include "schedule/nest.h"
#include "base/must.h"

#include <string.h>

/* Maximum distance of a move in units; maximum number of products in a launch or a call. */
enum { MAX_BACK = 8, MAX_BESIDE = 4 };

typedef struct Fusion {
    Program *program;
    Schedule *schedule;
    Kernel **users; /* by tensor->id: the only kernel that accesses it */
    bool *shared;   /* by tensor->id: several units access it */
    int *touched;   /* by tensor->id: number of statements that access it; NULL without epilogues */
    bool ordered;   /* in a repeat whose statements keep their order */
} Fusion;

/* Search for the first statement of the second training phase. */
typedef struct Seam {
    Program *program;
    bool found;
} Seam;

static ScheduleUnit *unit_new(Fusion *fusion, UnitKind kind, Statement *statement) {
    ScheduleUnit *unit = arena_alloc(fusion->program->arena, sizeof *unit);
    unit->kind = kind;
    unit->statement = statement;
    unit->once = statement->once;
    return unit;
}

static bool unit_meets(Fusion *fusion, const ScheduleUnit *unit, const Statement *statement) {
    const Kernel *kernel = unit->kernel ? unit->kernel : unit->epilogue;
    const ScheduleUnit *second = unit->accumulated_product;
    if (unit->kind == UNIT_REPEAT) return true;
    if (second && statements_meet(fusion->program->arena, second->statement, statement))
        return true;
    if (!kernel) return statements_meet(fusion->program->arena, unit->statement, statement);
    LIST_EACH(const Member, member, &kernel->members)
        if (statements_meet(fusion->program->arena, member->statement, statement)) return true;
    return false;
}

/* Adds the statement to an existing kernel. */
static bool join_kernel(Fusion *fusion, List *units, Statement *statement) {
    const bool stays = fusion->ordered || statement->remade;
    const int most = stays ? 1 : MAX_BACK;
    for (int back = 1; back <= most && back <= units->count; back++) {
        ScheduleUnit *unit = units->items[units->count - back];
        if (unit->kind == UNIT_KERNEL && unit->once == statement->once &&
            nest_add(fusion->program, unit->kernel, statement, false))
            return true;
        if (unit_meets(fusion, unit, statement)) return false;
    }
    return false;
}

/* Statements derived from one another share indices, but may run their loops in different orders.
 * In a kernel an index is one loop; each statement therefore gets its own indices. */
static void own_indices(Program *program, Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    int count = statement->loop_count;
    Index *own[MAX_LOOPS];
    Expr *to[MAX_LOOPS];
    for (int i = 0; i < count; i++) {
        own[i] = index_new(program, statement->loops[i]->name, statement->loops[i]->axis);
        to[i] = expr_index(program, own[i]);
    }
    statement->target = expr_substitute(program, statement->target, statement->loops, to, count);
    statement->value = expr_substitute(program, statement->value, statement->loops, to, count);
    memcpy(statement->loops, own, (size_t)count * sizeof *own);
}

/* The statement of a kernel that only accumulates a gradient, or NULL. */
static Statement *lone_sum(const ScheduleUnit *unit) {
    if (unit->kind != UNIT_KERNEL || unit->kernel->members.count != 1) return NULL;
    Statement *statement = ((Member *)unit->kernel->members.items[0])->statement;
    bool sums = statement->reduction == REDUCE_SUM && statement->accumulate &&
                statement->target->tensor->role == ROLE_GRADIENT;
    return sums ? statement : NULL;
}

static bool reads_the_same(Arena *arena, const Statement *one, const Statement *other) {
    List reads[2] = {{0}};
    reads_of(arena, one, &reads[0]);
    reads_of(arena, other, &reads[1]);
    for (int i = 0; i < reads[0].count; i++)
        if (accesses_have(&reads[1], ((Expr *)reads[0].items[i])->tensor)) return true;
    return false;
}

/* The sum of a gradient has no early readers. An earlier one moves to the last kernel if that is a
 * gradient sum of the same tensor; the tensor is then read once.
 *
 *     shift[d] += sum[s] dy[s,d]                      root = f(x)
 *     root = f(x)                             -->     shift[d] += sum[s] dy[s,d]
 *     scale[d] += sum[s] dy[s,d] * root[s]            scale[d] += sum[s] dy[s,d] * root[s] */
static void fetch_sum(Fusion *fusion, List *units) {
    Arena *arena = fusion->program->arena;
    const int last = units->count - 1;
    const ScheduleUnit *unit = units->items[last];
    const Statement *sum = lone_sum(unit);
    for (int i = last - 1; sum && i >= 0 && i >= last - MAX_BACK; i--) {
        Statement *waits = lone_sum(units->items[i]);
        if (!waits || waits->once != sum->once || !reads_the_same(arena, waits, sum)) continue;
        bool free = true;
        for (int j = i + 1; j <= last; j++) free &= !unit_meets(fusion, units->items[j], waits);
        if (!free || !nest_add(fusion->program, unit->kernel, waits, false)) continue;
        units->count--;
        for (int j = i; j < last; j++) units->items[j] = units->items[j + 1];
        return;
    }
}

static void append_kernel(Fusion *fusion, List *units, Statement *statement) {
    own_indices(fusion->program, statement);
    if (join_kernel(fusion, units, statement)) return;
    ScheduleUnit *unit = unit_new(fusion, UNIT_KERNEL, statement);
    list_push(fusion->program->arena, units, unit);
    unit->statement = NULL;
    unit->kernel = arena_alloc(fusion->program->arena, sizeof *unit->kernel);
    nest_add(fusion->program, unit->kernel, statement, true);
    if (fusion->program->target->launches) fetch_sum(fusion, units);
}

static void append_statement(Fusion *fusion, List *units, Statement *statement, ScheduleUnit *unit);

/* On a GPU, a row is read once together with the matrix, in vectors of one type. A library call
 * computes only the product and needs separate launches for the work around it. */
static bool is_row_kernel(const Program *program, const Contraction *contraction) {
    const Product *product = &contraction->product;
    bool along = product->b_k == 1;
    return program->target->row_products && contraction->kind == CONTRACTION_PRODUCT &&
           product->m == 1 && product->a_k == 1 && (along || product->b_n == 1) &&
           !contraction->outer_count && product->batch[0] * product->batch[1] == 1 &&
           product->a_type == product->b_type &&
           product->rounded == (product->a_type == TYPE_BF16) && fits_row_kernel(contraction, 0);
}

/* Reads of the matrix dominate the time of such a product. A GPU has a kernel for several; threads
 * of a CPU wait for one another once instead of for each product. */
static bool is_joinable(const Program *program, const ScheduleUnit *unit) {
    const Product *product = &unit->contraction->product;
    const long most = program->target->joined_rows;
    if (program->target->row_products || unit->once) return unit->row;
    if (unit->contraction->kind == CONTRACTION_ROWS_BY_WEIGHT)
        return unit->contraction->relation->rows->size <= most * product->batch[0];
    return unit->contraction->kind == CONTRACTION_PRODUCT && !unit->contraction->outer_count &&
           product->batch[0] * product->batch[1] == 1 && product->m <= most;
}

/* The unit of a product, call or repeat; NULL for other loops. */
static ScheduleUnit *unit_of(Fusion *fusion, Statement *statement) {
    Program *program = fusion->program;
    if (statement->kind == STATEMENT_CALL) return unit_new(fusion, UNIT_CALL, statement);
    if (statement->kind == STATEMENT_REPEAT) return unit_new(fusion, UNIT_REPEAT, statement);
    Contraction *product = unit_product(program, statement);
    if (!product) return NULL;
    ScheduleUnit *unit = unit_new(fusion, UNIT_CONTRACTION, statement);
    unit->contraction = product;
    unit->row = is_row_kernel(program, product);
    unit->few_rows = is_joinable(program, unit);
    return unit;
}

/* True if the unit computes the statement as well. */
static bool is_taken_unit(const Statement *statement, const ScheduleUnit *unit) {
    const ScheduleUnit *added = unit ? unit->accumulated_product : NULL;
    const Kernel *epilogue = unit ? unit->epilogue : NULL;
    for (int i = 1; epilogue && i < epilogue->members.count; i++)
        if (((Member *)epilogue->members.items[i])->statement == statement) return true;
    return added && added->statement == statement;
}

static void add_block_units(Fusion *fusion, List *units, const Block *block) {
    const List *statements = &block->statements;
    size_t count = (size_t)statements->count + 1;
    ScheduleUnit **made = arena_alloc(fusion->program->arena, count * sizeof *made);
    for (int i = 0; i < statements->count; i++) made[i] = unit_of(fusion, statements->items[i]);
    int *when = arena_alloc(fusion->program->arena, count * sizeof *when);
    for (int i = 0; i < statements->count; i++) when[i] = i;
    if (fusion->touched) epilogue(fusion->program, statements, made, fusion->touched, when);
    for (int i = 0; i < statements->count && fusion->touched; i++) {
        int first = find_pair(fusion->program, statements, made, when, i);
        if (first < 0) continue;
        when[first] = i;
        MUST(!made[first]->accumulated_product && !made[first]->epilogue);
        made[i]->accumulated_product = made[first];
        made[i]->contraction->product.accumulate = made[first]->contraction->product.accumulate;
    }
    for (int i = 0; i < statements->count; i++) {
        for (int j = 0; j < statements->count; j++)
            if (j != i && when[j] == i && !is_taken_unit(statements->items[j], made[i]))
                append_statement(fusion, units, statements->items[j], made[j]);
        if (when[i] == i) append_statement(fusion, units, statements->items[i], made[i]);
    }
}

/* A product moves before independent kernels. Statements that use its result can then join these
 * kernels, and the results of these kernels stay out of memory. */
static void move_up(Fusion *fusion, List *units) {
    ScheduleUnit *unit = units->items[units->count - 1];
    for (int i = units->count - 1; i > 0 && i >= units->count - MAX_BACK; i--) {
        ScheduleUnit *before = units->items[i - 1];
        if (before->kind != UNIT_KERNEL || before->once ||
            unit_meets(fusion, before, unit->statement))
            return;
        units->items[i - 1] = unit;
        units->items[i] = before;
    }
}

static bool units_meet(Fusion *fusion, const ScheduleUnit *before, const ScheduleUnit *unit) {
    if (!unit->epilogue) return unit_meets(fusion, before, unit->statement);
    for (int i = 0; i < unit->epilogue->members.count; i++)
        if (unit_meets(fusion, before, ((Member *)unit->epilogue->members.items[i])->statement))
            return true;
    return false;
}

/* Moves the last unit, a product, after earlier ones to share their launch or call. False if there
 * are none before a unit that it depends on. */
static bool join_products(Fusion *fusion, List *units) {
    const int last = units->count - 1;
    ScheduleUnit *unit = units->items[last];
    int found = -1, count = 0;
    for (int i = last - 1; i >= 0 && i >= last - MAX_BACK; i--) {
        const ScheduleUnit *before = units->items[i];
        if (units_meet(fusion, before, unit)) return false;
        if (!before->few_rows || before->once != unit->once ||
            before->contraction->relation != unit->contraction->relation)
            continue;
        if (!count++) found = i;
        if (before->beside) continue;
        if (count < MAX_BESIDE) break;
        found = -1;
        count = 0;
    }
    if (found < 0 || ((ScheduleUnit *)units->items[found - count + 1])->beside) return false;
    for (int i = last; i > found + 1; i--) units->items[i] = units->items[i - 1];
    units->items[found + 1] = unit;
    unit->beside = true;
    return true;
}

/* The later statement of two that form one product: it accumulates only if the first one does. */
static Statement *as_one(Fusion *fusion, const ScheduleUnit *unit) {
    Statement *one = arena_alloc(fusion->program->arena, sizeof *one);
    *one = *unit->statement;
    one->accumulate = unit->contraction->product.accumulate;
    return one;
}

/* Adds the unit of the statement; NULL: it becomes part of a kernel. */
static void append_statement(Fusion *fusion, List *units, Statement *statement,
                             ScheduleUnit *unit) {
    if (!unit) {
        append_kernel(fusion, units, statement);
        return;
    }
    list_push(fusion->program->arena, units, unit);
    if (unit->kind == UNIT_REPEAT) {
        const bool ordered = fusion->ordered;
        fusion->ordered = statement->ordered;
        add_block_units(fusion, &unit->body, &statement->body);
        fusion->ordered = ordered;
    } else if (unit->kind == UNIT_CONTRACTION) {
        if (unit->accumulated_product) unit->statement = as_one(fusion, unit);
        if (unit->few_rows && join_products(fusion, units)) return;
        bool plain = !unit->epilogue || unit->epilogue->members.count == 1;
        if (fusion->program->target->launches && plain) move_up(fusion, units);
    }
}

/* Records the accesses to tensors; kernel NULL: by a unit that is no kernel. */
static void note_users(Fusion *fusion, const Statement *statement, Kernel *kernel) {
    const List touched = accesses_of(fusion->program->arena, statement);
    for (int i = 0; i < touched.count; i++) {
        int id = ((Expr *)touched.items[i])->tensor->id;
        if (!kernel || (fusion->users[id] && fusion->users[id] != kernel))
            fusion->shared[id] = true;
        fusion->users[id] = kernel;
    }
}

static void note_kernel_units(Fusion *fusion, const List *units) {
    LIST_EACH(const ScheduleUnit, unit, units) {
        Kernel *kernel = unit->kernel ? unit->kernel : unit->epilogue;
        if (unit->kind == UNIT_REPEAT)
            note_kernel_units(fusion, &unit->body);
        else if (!kernel) {
            note_users(fusion, unit->statement, NULL);
            if (unit->accumulated_product)
                note_users(fusion, unit->accumulated_product->statement, NULL);
        } else
            for (int j = 0; j < kernel->members.count; j++)
                note_users(fusion, ((Member *)kernel->members.items[j])->statement, kernel);
    }
}

static void choose_in(Fusion *fusion, const List *units) {
    LIST_EACH(const ScheduleUnit, unit, units) {
        if (unit->kind == UNIT_REPEAT) choose_in(fusion, &unit->body);
        Kernel *kernel = unit->kernel ? unit->kernel : unit->epilogue;
        if (!kernel) continue;
        choose_locals(fusion->program, kernel, fusion->users);
        if (!unit->kernel || !fusion->program->target->online_softmax ||
            !online_softmax(fusion->program, kernel))
            continue;
        kernel->locals = (List){0};
        choose_locals(fusion->program, kernel, fusion->users);
    }
}

/* Records the tables that a grouped product reads, which its statement does not contain. */
static void note_tables(Fusion *fusion) {
    LIST_EACH(const Relation, relation, &fusion->program->relations) {
        if (relation->group) fusion->shared[relation->group->id] = true;
        if (relation->number) fusion->shared[relation->number->id] = true;
        for (int j = 0; j < relation->flats.count; j++)
            fusion->shared[((Flat *)relation->flats.items[j])->table->id] = true;
    }
}

static void find_second(Statement *statement, void *data) {
    Seam *seam = data;
    List reads = {0}, writes = {0};
    reads_of(seam->program->arena, statement, &reads);
    writes_of(seam->program->arena, statement, &writes);
    for (int i = 0; i < reads.count; i++)
        seam->found |= ((Expr *)reads.items[i])->tensor == seam->program->cotangent;
    for (int i = 0; i < writes.count; i++)
        seam->found |= ((Expr *)writes.items[i])->tensor->role == ROLE_GRADIENT;
}

/* The number of statements before the first one that needs the cotangent or adds to a gradient; all
 * of them without two phases. */
static int first_part(Program *program) {
    Seam seam = {.program = program};
    List *all = &program->body.statements;
    for (int i = 0; i < all->count && program->cotangent; i++) {
        Block one = {.statements = {.items = &all->items[i], .count = 1}};
        block_walk(&one, find_second, &seam);
        if (seam.found) return i;
    }
    return all->count;
}

/* Reports outputs of the first phase that are computed in the second. */
static void check_output(Statement *statement, void *data) {
    const Program *program = data;
    List writes = {0};
    writes_of(program->arena, statement, &writes);
    for (int i = 0; i < writes.count; i++) {
        const Tensor *output = ((Expr *)writes.items[i])->tensor;
        bool own = output->role == ROLE_OUTPUT && !output->probe;
        if (own && strncmp(output->path, "gradient:", 9) != 0)
            report_error(program->reports, output->span,
                         "output '%s' depends on input '%s' of the second training phase",
                         output->path, program->cotangent->path);
    }
}

/* Units never contain statements of both phases. */
static void append_parts(Fusion *fusion) {
    const List *all = &fusion->program->body.statements;
    List *units = &fusion->schedule->units, second = {0};
    int count = first_part(fusion->program);
    Block parts[2] = {{.statements = {.items = all->items, .count = count}},
                      {.statements = {.items = all->items + count, .count = all->count - count}}};
    if (fusion->program->cotangent) block_walk(&parts[1], check_output, fusion->program);
    add_block_units(fusion, units, &parts[0]);
    add_block_units(fusion, &second, &parts[1]);
    if (second.count) fusion->schedule->second = units->count;
    list_append(fusion->program->arena, units, &second);
}

Schedule *fuse(Program *program) {
    size_t count = (size_t)program->tensors.count + 1;
    Fusion fusion = {.program = program};
    fusion.schedule = arena_alloc(program->arena, sizeof *fusion.schedule);
    fusion.schedule->program = program;
    fusion.users = arena_alloc(program->arena, count * sizeof *fusion.users);
    fusion.shared = arena_alloc(program->arena, count * sizeof *fusion.shared);
    if (program->target->epilogues && program->graph != GRAPH_UPDATE)
        fusion.touched = touches_of(program);

    append_parts(&fusion);
    note_kernel_units(&fusion, &fusion.schedule->units);
    note_tables(&fusion);
    for (int i = 0; i < program->tensors.count; i++)
        if (fusion.shared[i]) fusion.users[i] = NULL;
    choose_in(&fusion, &fusion.schedule->units);
    step_operands(fusion.schedule);
    row_prologue(fusion.schedule);
    first_sums(fusion.schedule);
    return fusion.schedule;
}
