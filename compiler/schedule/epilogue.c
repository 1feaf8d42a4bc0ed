/* epilogue: moves pointwise statements around a product or an attention into the store of its
 * result.
 *
 * Needs:   the statements of one block and the products among them.
 * Leaves:  for a product with an epilogue, a Kernel: the statement of the product, then the
 *          statements computed while its result is in registers, each over the loops of its target.
 *          All other statements keep their order. An attention is treated like a product; its
 *          target is its output.
 *
 *     a[r,f] = sum[d] x[r,d] * up[n[r],d,f]       product
 *     t[r,f] = silu(g[r,f])                -->      t = silu(g)
 *     h[r,f] = t[r,f] * a[r,f]                      h = t * a
 *
 * A statement joins if it reads values of the kernel at the same indices, or if the kernel needs
 * its result and it can move to the product or before it. Different iterations of the loops must
 * then be independent. A result without other readers needs no memory.
 *
 * A product over dispatched rows or of a single row uses our own kernel and accepts any statement.
 * A product of a single row also accepts another product of the same row, whose result is then
 * available for each column. Other dense products use a library. They accept only the epilogues of
 * gemm_epilogue.c, and only if that saves a pass over memory.
 */
#include "ir/call.h"
#include "base/must.h"
#include "schedule/nest.h"

/* A larger epilogue compiles slowly and spills registers. */
enum { MAX_INSIDE = 16 };

typedef struct Folding {
    Program *program;
    const List *statements;
    ScheduleUnit *const *units; /* by index in statements, NULL for other loops */
    int *touched;               /* by tensor->id: statements of the program that access it */
    bool *taken;                /* by index: in an epilogue */
    int *when;                  /* by index: index of the statement where it is computed */

    int product;     /* index of the current product */
    Member **inside; /* by index: members of its epilogue */
    int *order;      /* their indices, in the order of joining */
    int count;
    int *lifted, *was; /* indices of statements that move before it, and where they were computed */
    int lifted_count;
} Folding;

static Statement *at_position(const Folding *folding, int position) {
    return folding->statements->items[position];
}

/* The product at an index, or NULL. */
static const Contraction *product_at(const Folding *folding, int position) {
    return folding->units[position] ? folding->units[position]->contraction : NULL;
}

/* ---- same iteration of the same loops ---- */

static bool is_loop_statement(const Expr *sub) {
    return sub->kind == EXPR_INDEX && !sub->index->of_repeat && loop_size(sub->index) > 1;
}

static int loop_level(const Member *member, const Index *index) {
    for (int level = 0; level < member->depth; level++)
        if (member->order[level] == index) return level;
    return -1;
}

/* Matches the loops of `member` with those of `other` that subscript the same dimensions of a
 * tensor. */
static bool match_loops(Member *member, const Expr *mine, const Member *other, const Expr *theirs) {
    for (int i = 0; i < mine->count; i++) {
        if (!is_loop_statement(theirs->args[i]) || !is_loop_statement(mine->args[i])) continue;
        int level = loop_level(other, theirs->args[i]->index);
        if (level < 0) return false;
        if (!member->order[level]) member->order[level] = mine->args[i]->index;
    }
    return true;
}

static bool same_element(const Member *member, const Expr *mine, const Member *other,
                         const Expr *theirs) {
    for (int i = 0; i < mine->count; i++) {
        const Expr *a = mine->args[i], *b = theirs->args[i];
        if (is_loop_statement(a) != is_loop_statement(b)) return false;
        if (is_loop_statement(a)) {
            int level = loop_level(member, a->index);
            if (level < 0 || level != loop_level(other, b->index)) return false;
            continue;
        }
        bool ones = a->kind == EXPR_INDEX && b->kind == EXPR_INDEX && !a->index->of_repeat &&
                    !b->index->of_repeat;
        for (int level = 0; level < member->depth; level++)
            if (expr_uses_index(a, member->order[level])) return false;
        if (!ones && !expr_equal(a, b)) return false;
    }
    return true;
}

/* A call reads more than the element that it stores, and its further results come later. A member
 * must neither write its inputs nor read its further results. */
static bool keeps_off(const Folding *folding, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Statement *call = at_position(folding, folding->product);
    List touched = accesses_of(folding->program->arena, statement), reads = {0};
    if (call->kind != STATEMENT_CALL) return true;
    reads_of(folding->program->arena, call, &reads);
    for (int i = 1; i < call->outputs.count; i++)
        if (accesses_have(&touched, ((const Expr *)call->outputs.items[i])->tensor)) return false;
    return !accesses_have(&reads, statement->target->tensor);
}

/* True if each accesses elements that the other writes in the same iteration only. */
static bool in_step(Folding *folding, const Member *one, const Member *other) {
    const Expr *write = one->statement->target;
    List touched = accesses_of(folding->program->arena, other->statement);
    LIST_EACH(const Expr, touch, &touched) {
        if (touch->tensor != write->tensor || touch == write || never_meet(write, touch)) continue;
        if (!same_element(one, write, other, touch)) return false;
    }
    return true;
}

/* ---- conditions ---- */

static void notice_random(Expr *expr, void *data) {
    if (expr->kind == EXPR_APPLY && op_is_random(expr->op)) *(bool *)data = true;
}

static bool is_pointwise(const Folding *folding, int position) {
    const Statement *statement = at_position(folding, position);
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_NONE ||
        statement_is_scatter(statement) || statement->target->tensor->type == TYPE_INT ||
        statement->once != at_position(folding, folding->product)->once ||
        folding->taken[position] || product_at(folding, position) ||
        folding->when[position] != position)
        return false;
    bool random = false;
    expr_walk(statement->value, notice_random, &random);
    return !random && keeps_off(folding, statement);
}

static int loops_of(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    int count = 0;
    for (int i = 0; i < statement->loop_count; i++) count += loop_size(statement->loops[i]) > 1;
    return count;
}

static int loops_of_target(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    int count = 0;
    for (int i = 0; i < statement->target->count; i++)
        count += is_loop_statement(statement->target->args[i]);
    return count;
}

/* True if the product at `position` can use the tiles of the current one: both have the same row
 * and sizes, and matrices whose rows run along the columns of the result. The row is then read
 * once, and the store has both results. */
static bool is_dual(const Folding *folding, int position) {
    const ScheduleUnit *row = folding->units[folding->product], *pair = folding->units[position];
    if (!pair || !row->row || !pair->row || folding->taken[position] ||
        folding->when[position] != position || pair->once != row->once)
        return false;
    for (int i = 1; i < folding->count; i++)
        if (product_at(folding, folding->order[i])) return false;
    const Contraction *one = row->contraction, *other = pair->contraction;
    const Product *a = &one->product, *b = &other->product;
    return !a->accumulate && !b->accumulate && a->n == b->n && a->k == b->k && a->b_k > 1 &&
           a->b_k == b->b_k && a->b_n == 1 && b->b_n == 1 && a->b_type == b->b_type &&
           one->b->tensor->role == other->b->tensor->role && same_address(one->a, other->a);
}

/* The statement with its loops in the order of those of the product, or NULL. */
static Member *as_member(Folding *folding, int position) {
    const Member *first = folding->inside[folding->product];
    Member *member = arena_alloc(folding->program->arena, sizeof *member);
    member->statement = at_position(folding, position);
    member->depth = member->kept = first->depth;
    member->block = -1;
    List mine = accesses_of(folding->program->arena, member->statement);
    for (int i = 0; i < folding->count; i++) {
        const Member *other = folding->inside[folding->order[i]];
        List theirs = accesses_of(folding->program->arena, other->statement);
        const Tensor *written = member->statement->target->tensor,
                     *made = other->statement->target->tensor;
        for (int j = 0; j < mine.count; j++)
            for (int k = 0; k < theirs.count; k++) {
                const Expr *a = mine.items[j], *b = theirs.items[k];
                if (a->tensor != b->tensor || (a->tensor != written && a->tensor != made)) continue;
                if (!match_loops(member, a, other, b)) return NULL;
            }
    }
    for (int level = 0; level < member->depth; level++)
        if (!member->order[level] || loop_level(member, member->order[level]) != level ||
            loop_size(member->order[level]) != loop_size(first->order[level]))
            return NULL;
    bool whole = product_at(folding, position) ? loops_of_target(member->statement) == member->depth
                                               : loops_of(member->statement) == member->depth;
    return whole && in_step(folding, member, member) ? member : NULL;
}

static bool join_epilogue(Folding *folding, int position);

/* Undoes the joins and moves after the given counts. */
static void leave_epilogue(Folding *folding, int count, int lifted) {
    while (folding->count > count) folding->inside[folding->order[--folding->count]] = NULL;
    while (folding->lifted_count > lifted) {
        folding->lifted_count--;
        folding->when[folding->lifted[folding->lifted_count]] = folding->was[folding->lifted_count];
    }
}

/* True for a statement that is no product, or for a dense product without an accumulated or dual
 * product. */
static bool is_alone(const Folding *folding, int position) {
    const Contraction *product = product_at(folding, position);
    if (product && product->kind != CONTRACTION_PRODUCT) return false;
    for (int i = 0; i < folding->statements->count; i++)
        if (i != position && folding->when[i] == position) return false;
    return true;
}

/* Tries to move a statement before the product, with the statements that it depends on. */
static bool lift(Folding *folding, int position) {
    Arena *arena = folding->program->arena;
    const Statement *statement = at_position(folding, position);
    if (statement->kind != STATEMENT_LOOP || !is_alone(folding, position) ||
        folding->when[position] != position)
        return false;
    for (int i = 0; i < folding->statements->count; i++) {
        const Statement *between = at_position(folding, i);
        int when = folding->inside[i] ? folding->product : folding->when[i];
        bool passes = folding->inside[i]
                          ? i < position
                          : when > folding->product && when < folding->when[position];
        if (!passes || !statements_meet(arena, between, statement)) continue;
        if (folding->inside[i] || between->kind != STATEMENT_LOOP ||
            !expr_reads(statement->value, between->target->tensor) || !lift(folding, i))
            return false;
    }
    if (folding->lifted_count == MAX_INSIDE) return false;
    folding->lifted[folding->lifted_count] = position;
    folding->was[folding->lifted_count++] = folding->when[position];
    folding->when[position] = folding->product;
    return true;
}

/* True if all statements between the product and a later statement are independent of it. */
static bool moves_up(Folding *folding, int position) {
    const Statement *statement = at_position(folding, position);
    for (int i = 0; i < folding->statements->count; i++) {
        const Statement *between = at_position(folding, i);
        if (folding->when[i] <= folding->product || folding->when[i] >= position ||
            folding->inside[i])
            continue;
        if (between->kind == STATEMENT_REPEAT) return false;
        if (!statements_meet(folding->program->arena, between, statement)) continue;
        bool wanted = between->kind == STATEMENT_LOOP &&
                      expr_reads(statement->value, between->target->tensor);
        if (!wanted || !(join_epilogue(folding, i) || lift(folding, i))) return false;
    }
    return true;
}

/* True if an earlier statement can run after the product. */
static bool moves_down(Folding *folding, int position) {
    for (int i = 0; i <= folding->product; i++) {
        const Statement *between = at_position(folding, i);
        if (folding->when[i] <= position || folding->when[i] > folding->product) continue;
        if (between->kind == STATEMENT_REPEAT) return false;
        if ((i == folding->product || !folding->inside[i]) &&
            statements_meet(folding->program->arena, at_position(folding, position), between))
            return false;
    }
    return true;
}

/* Adds a statement with those that it depends on; or changes nothing. */
static bool join_epilogue(Folding *folding, int position) {
    if (folding->count == MAX_INSIDE) return false;
    if (!is_pointwise(folding, position) && !is_dual(folding, position)) return false;
    Member *member = as_member(folding, position);
    if (!member) return false;
    for (int i = 0; i < folding->count; i++) {
        const Member *other = folding->inside[folding->order[i]];
        if (!in_step(folding, member, other) || !in_step(folding, other, member)) return false;
    }
    int before = folding->count, lifted = folding->lifted_count;
    folding->inside[position] = member;
    folding->order[folding->count++] = position;
    if (position > folding->product ? moves_up(folding, position) : moves_down(folding, position))
        return true;
    leave_epilogue(folding, before, lifted);
    return false;
}

/* ---- selection ---- */

static bool epilogue_reads(const Folding *folding, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    for (int i = 0; i < folding->count; i++)
        if (expr_reads(statement->value,
                       folding->inside[folding->order[i]]->statement->target->tensor))
            return true;
    return false;
}

/* Adds later statements that read values of the kernel, until nothing more can join. */
static void take_readers(Folding *folding) {
    for (bool again = true; again;) {
        again = false;
        for (int i = folding->product + 1; i < folding->statements->count; i++) {
            const Statement *statement = at_position(folding, i);
            if (statement->kind == STATEMENT_REPEAT) break;
            if (statement->kind != STATEMENT_LOOP || folding->inside[i] ||
                !epilogue_reads(folding, statement))
                continue;
            again |= join_epilogue(folding, i);
        }
    }
}

static bool touches_tensor(Folding *folding, const Statement *statement, const Tensor *tensor) {
    List list = accesses_of(folding->program->arena, statement);
    return accesses_have(&list, tensor);
}

/* Adds earlier statements whose result has no other reader and then needs no memory. */
static void take_makers(Folding *folding) {
    for (int i = folding->product - 1; i >= 0; i--) {
        const Statement *statement = at_position(folding, i);
        if (statement->kind == STATEMENT_REPEAT) break;
        if (statement->kind != STATEMENT_LOOP || statement->target->tensor->role != ROLE_TEMP)
            continue;
        const Tensor *made = statement->target->tensor;
        int uses = 0;
        for (int j = 0; j < folding->count; j++)
            uses += touches_tensor(folding, at_position(folding, folding->order[j]), made);
        if (uses && uses + 1 == folding->touched[made->id]) join_epilogue(folding, i);
    }
}

/* ---- dense products ---- */

/* The first later statement that reads the tensor, or -1; *last: the index of the last one. */
static int reader_of(Folding *folding, const Tensor *tensor, int *last) {
    int first = -1;
    for (int i = folding->product + 1; i < folding->statements->count; i++) {
        if (folding->inside[i] || !touches_tensor(folding, at_position(folding, i), tensor))
            continue;
        if (first < 0) first = i;
        *last = i;
    }
    return first;
}

/* True if a result is stored in memory anyway: statements outside of this block access it, or a
 * product or call is between the product and its last reader. Only then does an epilogue save a
 * pass over memory. */
static bool is_stored(Folding *folding, const Tensor *tensor) {
    int last = folding->product, count = 0;
    for (int i = 0; i < folding->statements->count; i++)
        count += touches_tensor(folding, at_position(folding, i), tensor);
    if (tensor->role != ROLE_TEMP || count < folding->touched[tensor->id]) return true;
    reader_of(folding, tensor, &last);
    for (int i = folding->product + 1; i <= last; i++)
        if (product_at(folding, i) || at_position(folding, i)->kind != STATEMENT_LOOP) return true;
    return false;
}

/* Adds the statements after a dense product, one by one, while they fit its epilogue and need no
 * others. A single column, or a row without our own kernel, is left alone: the library has special
 * kernels without epilogues for these. */
static void take_epilogues(Folding *folding, ScheduleUnit *unit) {
    const Member *first = folding->inside[folding->product];
    const Product *product = &unit->contraction->product;
    Contraction shape;
    ScheduleUnit fused = {.contraction = &shape};
    int best_count = folding->count, last;
    if (product->accumulate || unit->contraction->outer_count || product->batch[0] > 1 ||
        product->batch[1] > 1 || product->m == 1 || product->n == 1)
        return;
    copy_product(&fused, unit);
    while (folding->count < MAX_INSIDE) {
        const Tensor *result = shape.c->tensor;
        int next = reader_of(folding, result, &last), count = folding->count;
        bool kept = result->role != ROLE_TEMP || folding->touched[result->id] != 2;
        if (next < 0 || !join_epilogue(folding, next) || folding->count > count + 1 ||
            folding->lifted_count || (!kept && result->type == TYPE_BF16) ||
            !gemm_epilogue(&fused, first, folding->inside[next], kept))
            break;
        if (!is_stored(folding, shape.c->tensor)) continue;
        copy_product(unit, &fused);
        best_count = folding->count;
    }
    leave_epilogue(folding, best_count, 0);
}

/* ---- the result ---- */

static Nest *epilogue_chain(Folding *folding, Kernel *kernel, Nest **path) {
    const Member *first = folding->inside[folding->product];
    Nest *at = kernel->root = arena_alloc(folding->program->arena, sizeof *at);
    for (int level = 0; level < first->depth; level++) {
        Nest *loop = arena_alloc(folding->program->arena, sizeof *loop);
        loop->index = first->order[level];
        loop->size = loop->total = loop_size(loop->index);
        loop->step = 1;
        list_push(folding->program->arena, &at->children, loop);
        at = path[level] = loop;
    }
    return at;
}

static void add_member(Folding *folding, Kernel *kernel, Nest *last, Nest *const *path,
                       int position) {
    Member *member = folding->inside[position];
    MUST(member && !folding->taken[position]);
    Nest *leaf = arena_alloc(folding->program->arena, sizeof *leaf);
    for (int level = 0; level < member->depth; level++) member->path[level] = path[level];
    leaf->member = member;
    list_push(folding->program->arena, &last->children, leaf);
    list_push(folding->program->arena, &kernel->members, member);
    if (member->statement->kind == STATEMENT_LOOP)
        kernel->work += statement_work(member->statement);
    folding->taken[position] = true;
    folding->when[position] = folding->product;
}

static Kernel *epilogue_kernel(Folding *folding) {
    Nest *path[MAX_LOOPS];
    Kernel *kernel = arena_alloc(folding->program->arena, sizeof *kernel);
    Nest *last = epilogue_chain(folding, kernel, path);
    add_member(folding, kernel, last, path, folding->product);
    for (int i = 0; i < folding->statements->count; i++) {
        if (!folding->inside[i] || i == folding->product) continue;
        add_member(folding, kernel, last, path, i);
        if (product_at(folding, i))
            folding->units[folding->product]->paired_row = folding->units[i];
    }
    return kernel;
}

/* An attention as a statement that stores a value computed from its inputs. */
static Statement *with_target(Folding *folding, const Statement *statement) {
    Statement *copy = arena_alloc(folding->program->arena, sizeof *copy);
    *copy = *statement;
    copy->target = statement->outputs.items[0];
    return copy;
}

/* Adds the statement of the product, with the loops of its target, as first member. */
static void begin_epilogue(Folding *folding, int product) {
    Statement *statement = at_position(folding, product);
    if (statement->kind == STATEMENT_CALL) statement = with_target(folding, statement);
    Member *member = arena_alloc(folding->program->arena, sizeof *member);
    for (int i = 0; i < folding->count; i++) folding->inside[folding->order[i]] = NULL;
    member->statement = statement;
    member->block = -1;
    for (int i = 0; i < statement->target->count; i++)
        if (is_loop_statement(statement->target->args[i]))
            member->order[member->depth++] = statement->target->args[i]->index;
    member->kept = member->depth;
    folding->product = product;
    folding->inside[product] = member;
    folding->order[0] = product;
    folding->count = 1;
    folding->lifted_count = 0;
}

/* True if its store can compute. */
static bool stores_elements(const Folding *folding, int position) {
    const Statement *statement = at_position(folding, position);
    const Contraction *product = product_at(folding, position);
    if (statement->kind == STATEMENT_CALL) return statement->row->fuses_store;
    return product && product->kind != CONTRACTION_ROWS_BY_ROWS;
}

/* Starts with the last product: statements between two products go to the second, and only the
 * result of the first is stored in between. */
void epilogue(Program *program, const List *statements, ScheduleUnit *const *units, int *touched,
              int *when) {
    size_t count = (size_t)statements->count + 1;
    Folding folding = {
        .program = program, .statements = statements, .units = units, .touched = touched};
    folding.taken = arena_alloc(program->arena, count * sizeof *folding.taken);
    folding.when = when;
    for (int i = 0; i < statements->count; i++) when[i] = i;
    folding.lifted = arena_alloc(program->arena, MAX_INSIDE * sizeof *folding.lifted);
    folding.was = arena_alloc(program->arena, MAX_INSIDE * sizeof *folding.was);
    folding.inside = arena_alloc(program->arena, count * sizeof *folding.inside);
    folding.order = arena_alloc(program->arena, (count + MAX_INSIDE) * sizeof *folding.order);
    for (int i = statements->count - 1; i >= 0; i--) {
        if (folding.taken[i] || !stores_elements(&folding, i)) continue;
        begin_epilogue(&folding, i);
        const Contraction *product = units[i]->contraction;
        if (product && product->kind == CONTRACTION_PRODUCT && !units[i]->row) {
            take_epilogues(&folding, units[i]);
        } else {
            take_readers(&folding);
            take_makers(&folding);
        }
        if (folding.count > 1 || units[i]->row) units[i]->epilogue = epilogue_kernel(&folding);
    }
}
