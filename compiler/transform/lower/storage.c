/* storage: stores values as bf16 if all readers round them.
 *
 * Needs:   precision, which selects the products that round their operands.
 * Leaves:  every operand of a product that rounds is a bf16 tensor. Results do not change: the
 *          product would round the same element to the same value, but it reads half the bytes.
 *
 * If only products read a tensor, it becomes bf16, including the stack of it that is saved for the
 * backward pass. An attention that rounds treats queries, keys and values like a product; its
 * caches for decoding are bf16.
 *
 *     h[b,s,f] = ...                      h: bf16
 *     y[b,s,d] = sum[f] h * down
 *
 * If other statements read it exactly, it gets a copy, made once after its last write.
 *
 *     x[b,s,d] = ...                      x_rounded[b,s,d] = x[b,s,d]
 *     q = sum[d] x * wq; ... x + q        q = sum[d] x_rounded * wq; ... x + q
 *
 * If the others are in the step that writes it and the backward pass has only products, the stack
 * is bf16 and the step has its own tensor.
 *
 *     t[i,b,f] = ...                      t_step[b,f] = ...; t[i,b,f] = t_step[b,f]
 *     u = exp(t[i,b,f])                   u = exp(t_step[b,f])
 *
 * Four cases round more than the products would, but only results of rounded operands:
 *
 *   - The result of a product or attention that rounds, possibly with a bias or a function, is
 *     saved for the backward pass. It becomes bf16.
 *   - Only rounding readers and sums for a parameter gradient read a tensor. These sums then add
 *     bf16.
 *   - The result of a product over dispatched rows is only scattered to its positions. It becomes
 *     bf16, because these rows are larger than any other tensor.
 *   - A bias that is added to a result stored as bf16 becomes bf16, which lets the product add it:
 *     see gemm_epilogue.c.
 *
 *     t[b,f] = sum[d] x * up                  t[b,f] = sum[d] x * up
 *     a[i,b,f] = t[b,f] + bias[f]             a[i,b,f] = t[b,f] + bias_rounded[f]      a: bf16
 *     dbias[f] += sum[b] da[b,f]              da: bf16
 *
 * Operands that operand_formats rounds stay f32 on a processor: bf16 would hold the same numbers,
 * but most processors multiply f32 faster and would convert them for each product.
 *
 * The copy of a parameter is stored with the weights. The host or the optimizer updates it after
 * each change of the weights, not the program.
 */
#include "analysis/access.h"
#include "base/must.h"
#include "analysis/contraction.h"
#include "analysis/def_use.h"
#include "ir/call.h"
#include "ir/ir.h"
#include "passes.h"
#include "transform/lower/smaller_weights.h"

/* An access of a tensor and its effect on the type that the tensor can have. */
typedef struct StorageAccess {
    const ProgramPoint *point;
    Expr *access;
    bool write, stores; /* stores: sets elements and never reads them */
    bool takes;         /* reads: rounds it, but accepts either type */
    bool result;        /* stores the result of a product or attention that rounds */
    bool rows;          /* written by a product over dispatched rows that rounds */
    bool scattered;     /* reads: adds it to an element with a computed subscript */
    bool sums;          /* reads: adds all of it to a gradient */
    int operand;        /* reads: index of the operand that the statement rounds, or -1 */
} StorageAccess;

typedef struct Storage {
    Program *program;
    List *uses; /* by tensor->id: StorageAccess * in program order */
    List made;  /* Made * */
} Storage;

/* An existing copy of a tensor. */
typedef struct Made {
    const Expr *read; /* its source */
    const Block *block;
    const Statement *after; /* the last statement before it that writes the tensor, or NULL */
    Tensor *copy;
} Made;

/* ---- uses ---- */

static void add_storage_use(Storage *storage, StorageAccess use) {
    StorageAccess *copy = arena_alloc(storage->program->arena, sizeof *copy);
    *copy = use;
    list_push(storage->program->arena, &storage->uses[use.access->tensor->id], copy);
}

static bool sums_in_iterations(const Contraction *product) {
    for (int i = 0; product && i < product->outer_count; i++)
        if (product->outer[i].summed) return true;
    return false;
}

static void find_loop_uses(Storage *storage, const ProgramPoint *point) {
    const Statement *statement = point->statement;
    Arena *arena = storage->program->arena;
    const Contraction *product = unit_product(storage->program, statement);
    bool rounds = product && product->product.rounded;
    List reads = {0};
    reads_of(arena, statement, &reads);
    LIST_EACH(Expr, read, &reads) {
        int operand = -1;
        for (int j = 0; rounds && j < 2; j++)
            if (read == statement->value->args[j]) operand = j;
        bool sums = statement->reduction == REDUCE_SUM && statement->value == read &&
                    statement->target->tensor->role == ROLE_GRADIENT;
        bool scattered = statement->accumulate && statement->value == read && !statement->exact &&
                         statement_is_scatter(statement);
        add_storage_use(storage, (StorageAccess){point, read, .sums = sums, .scattered = scattered,
                                                 .operand = operand});
    }
    bool stores = !statement->accumulate && !sums_in_iterations(product);
    bool rows = rounds && product->kind == CONTRACTION_ROWS_BY_WEIGHT;
    add_storage_use(storage,
                    (StorageAccess){point, statement->target, .write = true, .stores = stores,
                                    .result = stores && rounds, .rows = rows, .operand = -1});
}

/* A call may accept f32 and bf16 operands and round both, and store its results rounded. */
static void find_call_uses(Storage *storage, const ProgramPoint *point) {
    const Statement *statement = point->statement;
    const CallRow *row = statement->row;
    const unsigned rounds = row->rounds ? row->rounds(storage->program, statement) : 0;
    List reads = {0};
    reads_of(storage->program->arena, statement, &reads);
    for (int i = 0; i < reads.count; i++) {
        int position = list_find(&statement->inputs, reads.items[i]);
        bool takes = rounds && position >= 0 && (rounds >> position & 1);
        add_storage_use(storage,
                        (StorageAccess){point, reads.items[i], .takes = takes, .operand = -1});
    }
    for (int i = 0; i < statement->outputs.count; i++) {
        bool stores = rounds && (rounds >> (statement->inputs.count + i) & 1);
        add_storage_use(storage,
                        (StorageAccess){point, statement->outputs.items[i], .write = true,
                                        .stores = stores, .result = stores && row->fuses_store,
                                        .operand = -1});
    }
}

static void find_storage_uses(Storage *storage) {
    Program *program = storage->program;
    storage->uses =
        arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *storage->uses);
    const DefUse *def_use = def_use_new(program);
    for (int i = 0; i < def_use->count; i++) {
        const ProgramPoint *point = &def_use->points[i];
        if (point->statement->kind == STATEMENT_LOOP)
            find_loop_uses(storage, point);
        else
            find_call_uses(storage, point);
    }
}

/* ---- tensors that become bf16 ---- */

static bool is_rounded(const StorageAccess *use) {
    return use->operand >= 0 || use->takes;
}

static bool is_only_rounded(const List *uses) {
    bool read = false;
    LIST_EACH(const StorageAccess, use, uses) {
        if (use->write ? !use->stores : !is_rounded(use) && !use->sums) return false;
        read |= is_rounded(use);
    }
    return read;
}

/* The bias that the statement adds to the result of a product that rounds, if it does nothing else;
 * or NULL. */
static Expr *added_bias(const Storage *storage, const Statement *statement) {
    const Expr *value = statement->value;
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_NONE ||
        statement->exact || statement->accumulate || value->kind != EXPR_APPLY ||
        value->op != OP_ADD)
        return NULL;
    for (int i = 0; i < 2; i++) {
        const Expr *made = value->args[i];
        Expr *bias = value->args[1 - i];
        if (made->kind != EXPR_READ || bias->kind != EXPR_READ ||
            bias->tensor->role != ROLE_PARAMETER || made->tensor->role != ROLE_TEMP)
            continue;
        const List *uses = &storage->uses[made->tensor->id];
        const StorageAccess *first = uses->items[0];
        if (uses->count == 2 && first->write && first->result) return bias;
    }
    return NULL;
}

/* The only tensor that the value reads, or NULL; *reads: the number of reads. */
static const Tensor *only_read(const Expr *value, int *reads) {
    const Tensor *only = value->kind == EXPR_READ ? value->tensor : NULL;
    *reads += value->kind == EXPR_READ;
    for (int i = 0; value->kind == EXPR_APPLY && i < value->count; i++) {
        int before = *reads;
        const Tensor *tensor = only_read(value->args[i], reads);
        if (*reads > before && (!tensor || (only && only != tensor))) return NULL;
        if (tensor) only = tensor;
    }
    return value->kind == EXPR_INDEX ? NULL : only;
}

/* True if the statement stores a function of the result of a product that rounds and no other
 * statement reads that result. */
static bool is_function_of_result(const Storage *storage, const Statement *statement) {
    int reads = 0;
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_NONE ||
        statement->exact || statement->accumulate)
        return false;
    const Tensor *made = only_read(statement->value, &reads);
    if (!made || made->role != ROLE_TEMP) return false;
    const List *uses = &storage->uses[made->id];
    const StorageAccess *first = uses->items[0];
    for (int i = 1; i < uses->count; i++)
        if (((StorageAccess *)uses->items[i])->point->statement != statement) return false;
    return first->write && first->result;
}

/* True for a stack of results of products or attentions that round, without a selection by them. */
static bool is_kept_result(const Storage *storage, const Tensor *tensor, const List *uses) {
    if (tensor->rank == 0 || tensor->axes[0]->kind != AXIS_REPEAT) return false;
    LIST_EACH(const StorageAccess, use, uses) {
        bool exact = use->point->statement->exact || use->point->statement->kind != STATEMENT_LOOP;
        bool result = use->result || added_bias(storage, use->point->statement) ||
                      is_function_of_result(storage, use->point->statement);
        if (use->write ? !result : exact && !is_rounded(use)) return false;
    }
    return true;
}

/* True for results of products over rows that are then scattered, each to its position. */
static bool is_scattered_result(const List *uses) {
    LIST_EACH(const StorageAccess, use, uses)
        if (use->write ? !use->rows : !use->scattered) return false;
    return uses->count > 1;
}

/* ---- stacks with exact readers in the same step only ---- */

/* A write in the repeat that writes one slice of the stack per step, if all other accesses are in
 * the same step or round it. */
static const ProgramPoint *writer_of_stack(const Tensor *tensor, const List *uses) {
    const ProgramPoint *writer = NULL;
    bool rounded = false;
    if (tensor->rank == 0 || tensor->axes[0]->kind != AXIS_REPEAT) return NULL;
    for (int i = 0; i < uses->count && !writer; i++)
        if (((StorageAccess *)uses->items[i])->write)
            writer = ((StorageAccess *)uses->items[i])->point;
    if (!writer || !writer->repeat) return NULL;
    LIST_EACH(const StorageAccess, use, uses) {
        const Expr *step = use->access->args[0];
        bool here = use->point->block == writer->block && step->kind == EXPR_INDEX &&
                    step->index == writer->repeat->index;
        if (!here && (use->write || !is_rounded(use))) return NULL;
        rounded |= !here;
    }
    return rounded ? writer : NULL;
}

static void insert_conversion(Program *program, Block *block, int position, Statement *statement) {
    void *item = statement;
    list_insert(program->arena, &block->statements, position, &(List){&item, 1, 1});
}

/* to[...] = from[...] with new indices; a subscript in `fixed` occurs in `from` only. */
static Statement *copy_statement(Program *program, Tensor *to, Tensor *from, Expr *const *fixed,
                                 bool fixed_in_target) {
    const Tensor *whole = fixed_in_target ? to : from;
    Expr *all[MAX_RANK], *free[MAX_RANK];
    int count = 0;
    for (int i = 0; i < whole->rank; i++) {
        all[i] = fixed[i];
        if (fixed[i]) continue;
        Index *index = index_over(program, whole->axes[i]);
        all[i] = free[count++] = expr_index(program, index);
    }
    MUST(count <= MAX_RANK);
    Block block = {{0}};
    return statement_assign(program, &block, expr_read(program, to, fixed_in_target ? all : free),
                            expr_read(program, from, fixed_in_target ? free : all), from->span);
}

/* A copy of rows ends where the rows of the statement do. */
static void keep_bound(Statement *copy, const Statement *statement) {
    for (int i = 0; i < copy->loop_count; i++)
        if (copy->loops[i]->axis->kind == AXIS_ROWS) copy->bound = statement->bound;
}

typedef struct Unstack {
    Tensor *stack, *step;
} Unstack;

static Expr *unstacked(Program *program, Expr *read, void *data) {
    MUST(read->kind == EXPR_READ);
    const Unstack *unstack = data;
    return read->tensor == unstack->stack ? expr_read(program, unstack->step, read->args + 1)
                                          : NULL;
}

/*     s[i,b,f] = ...              -->     s_step[b,f] = ...;  s[i,b,f] = s_step[b,f]
 *     t[b,f] = exp(s[i,b,f])              t[b,f] = exp(s_step[b,f]) */
static void split_stack(Storage *storage, Tensor *stack, const ProgramPoint *writer) {
    Block *block = writer->block;
    Program *program = storage->program;
    Tensor *step = tensor_new(program, arena_format(program->arena, "%s_step", stack->name),
                              ROLE_TEMP, TYPE_REAL, stack->rank - 1, stack->axes + 1, stack->span);
    const List *uses = &storage->uses[stack->id];
    Unstack unstack = {stack, step};
    int last = 0;
    LIST_EACH(const StorageAccess, use, uses)
        if (use->write) last = list_find(&block->statements, use->point->statement);
    LIST_EACH(const StorageAccess, use, uses) {
        bool behind =
            is_rounded(use) && list_find(&block->statements, use->point->statement) > last;
        if (use->point->block == block && !behind)
            rewrite_statement(program, use->point->statement, true, unstacked, &unstack);
    }
    Expr *fixed[MAX_RANK] = {expr_index(program, writer->repeat->index)};
    Statement *copy = copy_statement(program, stack, step, fixed, true);
    keep_bound(copy, writer->statement);
    insert_conversion(program, block, last + 1, copy);
}

/* ---- copies ---- */

static bool writes(Arena *arena, const Statement *statement, const Tensor *tensor) {
    List written = {0};
    writes_of(arena, statement, &written);
    if (accesses_have(&written, tensor)) return true;
    for (int i = 0; i < statement->body.statements.count; i++)
        if (writes(arena, statement->body.statements.items[i], tensor)) return true;
    return false;
}

/* True if both read the same slice of one tensor: subscripts that iterate may differ. */
static bool same_elements(const Expr *one, const Expr *other) {
    MUST(one->kind == EXPR_READ && other->kind == EXPR_READ);
    if (one->tensor != other->tensor) return false;
    for (int i = 0; i < one->count; i++) {
        const Index *step;
        double offset;
        bool fixed = step_and_offset(one->args[i], &step, &offset);
        if (fixed != step_and_offset(other->args[i], &step, &offset)) return false;
        if (fixed && !expr_equal(one->args[i], other->args[i])) return false;
    }
    return true;
}

static Tensor *make_copy(Storage *storage, Block *block, int position, const StorageAccess *use) {
    const Expr *read = use->access;
    Program *program = storage->program;
    Axis *axes[MAX_RANK];
    Expr *fixed[MAX_RANK] = {NULL};
    int rank = 0;
    for (int i = 0; i < read->count; i++) {
        const Index *step;
        double offset;
        if (step_and_offset(read->args[i], &step, &offset))
            fixed[i] = read->args[i];
        else
            axes[rank++] = read->tensor->axes[i];
    }
    MUST(rank <= MAX_RANK);
    Tensor *copy =
        tensor_new(program, arena_format(program->arena, "%s_rounded", read->tensor->name),
                   ROLE_TEMP, TYPE_BF16, rank, axes, read->tensor->span);
    Statement *made = copy_statement(program, copy, read->tensor, fixed, false);
    keep_bound(made, use->point->statement);
    insert_conversion(program, block, position, made);
    return copy;
}

/* A copy of the tensor that `use` reads, made after its last write, outside of repeats that do not
 * change it. */
static Tensor *copy_for(Storage *storage, const StorageAccess *use) {
    Program *program = storage->program;
    Expr *read = use->access;
    const ProgramPoint *reader = use->point;
    const Statement *writer = NULL;
    while (reader->repeat && !writes(program->arena, reader->repeat, read->tensor) &&
           !expr_uses_index(read, reader->repeat->index))
        reader = reader->outer;
    const List *statements = &reader->block->statements;
    int position = list_find(statements, reader->statement);
    MUST(position >= 0);
    for (int i = position - 1; i >= 0 && !writer; i--)
        if (writes(program->arena, statements->items[i], read->tensor)) {
            writer = statements->items[i];
            position = i + 1;
        }
    LIST_EACH(const Made, made, &storage->made)
        if (made->block == reader->block && made->after == writer &&
            same_elements(made->read, read))
            return made->copy;
    Made *made = arena_alloc(program->arena, sizeof *made);
    *made = (Made){read, reader->block, writer, make_copy(storage, reader->block, position, use)};
    list_push(program->arena, &storage->made, made);
    return made->copy;
}

/* Operand number use->operand of the product reads a copy. */
static void read_copy(Storage *storage, const StorageAccess *use) {
    Program *program = storage->program;
    Expr *read = use->access, *subs[MAX_RANK];
    bool parameter = read->tensor->role == ROLE_PARAMETER;
    Tensor *copy =
        parameter ? smaller_parameter(program, read->tensor, TYPE_BF16) : copy_for(storage, use);
    int rank = 0;
    for (int i = 0; i < read->count; i++) {
        const Index *step;
        double offset;
        if (parameter || !step_and_offset(read->args[i], &step, &offset))
            subs[rank++] = read->args[i];
    }
    MUST(rank <= MAX_RANK);
    read_instead(program, use->point->statement, use->operand, expr_read(program, copy, subs));
}

/* Replaces t + bias of a statement by t + bias_rounded. */
static void read_rounded_bias(Program *program, Statement *statement, Expr *bias) {
    MUST(statement->kind == STATEMENT_LOOP && bias->kind == EXPR_READ);
    Expr *value = statement->value, *both[2] = {value->args[0], value->args[1]};
    Expr *copy =
        expr_read(program, smaller_parameter(program, bias->tensor, TYPE_BF16), bias->args);
    copy->span = bias->span;
    both[both[1] == bias] = copy;
    statement->value = expr_apply(program, OP_ADD, both[0], both[1], NULL);
    statement->value->span = value->span;
}

/* A product finds the same bf16 numbers in f32. */
static bool stays_f32(const Program *program, const Tensor *tensor) {
    return tensor->small && program->target->small_as_f32;
}

void storage(Program *program) {
    if (!program->rounded) return;
    Storage storage = {.program = program};
    int count = program->tensors.count;
    find_storage_uses(&storage);
    for (int i = 0; i < count; i++) {
        Tensor *tensor = program->tensors.items[i];
        const List *uses = &storage.uses[i];
        if (tensor->role == ROLE_CACHE && tensor->type == TYPE_REAL && is_only_rounded(uses))
            tensor->type = TYPE_BF16;
        if (tensor->role != ROLE_TEMP || tensor->type != TYPE_REAL || stays_f32(program, tensor))
            continue;
        bool whole = is_only_rounded(uses) || is_kept_result(&storage, tensor, uses) ||
                     is_scattered_result(uses);
        const ProgramPoint *writer = whole ? NULL : writer_of_stack(tensor, uses);
        if (writer) split_stack(&storage, tensor, writer);
        if (writer || whole) tensor->type = TYPE_BF16;
        program->has[HAS_STORED_BF16] |= writer || whole;
    }
    find_storage_uses(&storage);
    count = program->tensors.count;
    for (int i = 0; i < count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        const List *uses = &storage.uses[i];
        if (stays_f32(program, tensor)) continue;
        for (int j = 0; j < uses->count && tensor->type == TYPE_REAL; j++)
            if (((StorageAccess *)uses->items[j])->operand >= 0)
                read_copy(&storage, uses->items[j]);
        for (int j = 0; j < uses->count && tensor->type == TYPE_BF16; j++) {
            const StorageAccess *use = uses->items[j];
            Expr *bias = use->write ? added_bias(&storage, use->point->statement) : NULL;
            if (bias) read_rounded_bias(program, use->point->statement, bias);
        }
    }
}
