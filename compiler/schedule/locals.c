/* locals: keeps tensors that only one nest uses in variables.
 *
 * A tensor whose uses in the kernel are all in the same iteration of all its loops becomes a
 * scalar. One that shares only the outer loops with its uses becomes a row on the stack. Without
 * users elsewhere it needs no memory.
 */
#include "schedule/nest.h"
#include "base/must.h"

/* Elements of rows on the stack of one thread: 64 KiB; in the shared memory of a block: 32 KiB. */
enum { MAX_ROW = 8192 };

/* An access in a kernel. */
typedef struct LocalAccess {
    Member *member;
    Expr *access;
    bool write;
} LocalAccess;

static LocalAccess *use_at(const List *uses, int i) {
    return uses->items[i];
}

/* All accesses of a tensor in a kernel, LocalAccess *. */
static List uses_of(Program *program, const Kernel *kernel, const Tensor *tensor) {
    List uses = {0};
    LIST_EACH(Member, member, &kernel->members) {
        const List accesses = accesses_of(program->arena, member->statement);
        const int outputs = member->statement->outputs.count;
        const int written = accesses.count - (outputs ? outputs : 1); /* the target */
        for (int j = 0; j < accesses.count; j++) {
            Expr *access = accesses.items[j];
            if (access->tensor != tensor) continue;
            LocalAccess *use = arena_alloc(program->arena, sizeof *use);
            *use = (LocalAccess){member, access, j == written};
            list_push(program->arena, &uses, use);
        }
    }
    return uses;
}

static const LocalAccess *first_write(const List *uses) {
    for (int i = 0; i < uses->count; i++)
        if (use_at(uses, i)->write) return use_at(uses, i);
    return NULL;
}

/* On an axis of one element a variable has no subscript: every use must select that element. */
static bool names_the_one(const List *uses, int dimension) {
    for (int i = 0; i < uses->count; i++) {
        const Expr *sub = use_at(uses, i)->access->args[dimension];
        if (sub->kind != EXPR_INDEX && !expr_is_number(sub, 0)) return false;
    }
    return true;
}

/* True if every subscript of the write is a distinct loop or fixed, and all uses agree on the fixed
 * ones. */
static bool is_regular(const LocalAccess *write, const List *uses) {
    for (int i = 0; i < write->access->count; i++) {
        const Expr *sub = write->access->args[i];
        bool loop = sub->kind == EXPR_INDEX && !sub->index->of_repeat;
        for (int j = 0; j < i; j++)
            if (loop && expr_equal(write->access->args[j], sub)) return false;
        if (loop && loop_size(sub->index) == 1 && !names_the_one(uses, i)) return false;
        if (loop) continue;
        for (int j = 0; j < write->member->statement->loop_count; j++)
            if (expr_uses_index(sub, write->member->statement->loops[j])) return false;
        for (int j = 0; j < uses->count; j++)
            if (!expr_equal(use_at(uses, j)->access->args[i], sub)) return false;
    }
    return true;
}

/* The number of outer loops that all uses share with the first write, in the same iteration. */
static int shared_by_all(const LocalAccess *write, const List *uses) {
    const Member *member = write->member;
    int shared = member->block >= 0 ? member->block : member->kept;
    for (int i = 0; i < uses->count; i++) {
        const Member *other = use_at(uses, i)->member;
        int level = 0;
        while (level < shared && level < other->depth &&
               other->path[level] == member->path[level] &&
               same_iteration(write->access, member->order[level], use_at(uses, i)->access,
                              other->order[level]))
            level++;
        shared = level;
    }
    return shared;
}

/* Elements of the tensor that the loops from `covered` on run over. */
static long row_size(const Member *member, const Expr *target, int covered) {
    long size = 1;
    for (int i = 0; i < target->count; i++) {
        bool fixed = target->args[i]->kind != EXPR_INDEX;
        for (int j = 0; j < covered && !fixed; j++)
            fixed = target->args[i]->index == member->order[j];
        if (!fixed && !target->args[i]->index->of_repeat) size *= target->tensor->axes[i]->size;
    }
    return size;
}

static bool is_scatter_use(const LocalAccess *use) {
    return use->write && statement_is_scatter(use->member->statement);
}

/* True if a use runs over rows that the first write leaves out. */
static bool reads_beyond(const LocalAccess *write, const List *uses) {
    bool beyond = false;
    for (int i = 0; i < uses->count; i++) beyond |= !use_at(uses, i)->member->statement->bound;
    return write->member->statement->bound && beyond;
}

static Local *local_of(Program *program, const Kernel *kernel, Tensor *tensor, bool alone,
                       long *rows) {
    if (tensor->type == TYPE_BF16 || is_units(tensor)) return NULL; /* a variable would not round */
    List uses = uses_of(program, kernel, tensor);
    const LocalAccess *write = first_write(&uses);
    MUST(write);
    for (int i = 0; i < uses.count; i++)
        if (is_scatter_use(use_at(&uses, i))) return NULL;
    if (!is_regular(write, &uses)) return NULL;
    Member *member = write->member;
    bool starts = write == uses.items[0] && !member->statement->accumulate;
    int covered = shared_by_all(write, &uses);
    bool scalar = covered == member->kept && !member->column;
    if (scalar && uses.count == 1 && !alone) return NULL;

    Local local = {.tensor = tensor,
                   .covered = covered,
                   .first = member,
                   .kind = scalar ? LOCAL_SCALAR : LOCAL_ROW};
    local.scope = covered ? member->path[covered - 1] : kernel->root;
    local.stored = !alone || !starts;
    if (!scalar) {
        long size = row_size(member, write->access, covered);
        bool fits = size <= MAX_ROW && *rows + size <= program->target->row_room &&
                    (covered || kernel->work < small_work(program));
        if (local.stored || !fits || reads_beyond(write, &uses)) return NULL;
        *rows += size;
        local.size = size;
    }
    Local *result = arena_alloc(program->arena, sizeof *result);
    *result = local;
    return result;
}

Local *local_in(const Kernel *kernel, const Tensor *tensor) {
    return list_find_by(&kernel->locals, offsetof(Local, tensor), tensor);
}

void choose_locals(Program *program, Kernel *kernel, Kernel *const *users) {
    long rows = 0;
    for (int i = 0; i < kernel->members.count; i++) {
        const Member *member = kernel->members.items[i];
        Tensor *tensor = member->statement->target->tensor;
        bool known = false;
        for (int j = 0; j < i; j++)
            known |= ((Member *)kernel->members.items[j])->statement->target->tensor == tensor;
        if (known) continue;
        bool alone = tensor->role == ROLE_TEMP && users[tensor->id] == kernel;
        Local *local = local_of(program, kernel, tensor, alone, &rows);
        if (local) list_push(program->arena, &kernel->locals, local);
    }
}
