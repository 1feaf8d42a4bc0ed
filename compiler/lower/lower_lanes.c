/* lower_lanes: reads and writes adjacent elements in memory together.
 *
 * A thread processes several iterations of an innermost loop at once. Elements whose last subscript
 * is the index of the loop are read before them and written after them, 16 bytes at a time. In
 * between, each iteration (lane) has its own variable.
 *
 *     for (long d_from = 4 * moec_thread(); d_from < 1024; d_from += 4 * moec_threads()) {
 *         float x_lanes[4], y_lanes[4];
 *         moec_read(x_lanes, &x[s * 1024 + d_from]);
 *         for (int lane = 0; lane < 4; lane++)
 *             y_lanes[lane] = x_lanes[lane] * root;
 *         moec_write(&y[s * 1024 + d_from], y_lanes);
 *     }
 *
 * Sizes are multiples of the lanes and tensors are aligned to 32 bytes, with two exceptions. The
 * update of a parameter reads and writes only existing elements. The last lanes of a loop that
 * stops before the end of its axis (see pad.c) do nothing. Elements with other subscripts are read
 * and written lane by lane.
 */
#include "lower/lower.h"

/* Reals in 16 bytes; twice as many if bf16 is read or written. */
enum { LANES = 4, MAX_LANES = 8 };

/* An address that lanes read or write. */
typedef struct LaneAccess {
    const Tensor *tensor;
    const Term *address, *name;
    bool read, written;
} LaneAccess;

struct Lanes {
    const Nest *nest;
    int width;
    const Term *from, *lane; /* of the first iteration, the number of an iteration */
    bool *apart;             /* by tensor->id: a lane may access an element that another one
                                writes */
    bool ends_early;         /* the last lanes may be beyond the end */
    List accesses;           /* LaneAccess * */
    FormBlock body, *outer;  /* of one iteration during its lowering; the block that receives it */
};

/* ---- accesses ---- */

/* True if the index runs in that loop, in one of the statements inside. */
static bool is_of_loop(const Lowering *lower, const Nest *nest, const Index *index) {
    LIST_EACH(const Member, member, &lower->kernel->members)
        for (int i = 0; i < member->depth; i++)
            if (member->path[i] == nest && member->order[i] == index) return true;
    return false;
}

static const Index *index_in(const Lowering *lower, const Nest *nest, const Expr *expr) {
    if (expr->kind == EXPR_INDEX) return is_of_loop(lower, nest, expr->index) ? expr->index : NULL;
    const Index *found = NULL;
    for (int i = 0; i < expr->count && !found; i++) found = index_in(lower, nest, expr->args[i]);
    return found;
}

static bool is_multiple(const Expr *expr, int width) {
    return expr->kind == EXPR_NUMBER && (long)expr->number % width == 0;
}

/* True if adjacent iterations of the loop, starting at a multiple of the width, are adjacent
 * elements. */
static bool goes_along(const Lowering *lower, const Nest *nest, const Expr *sub, int width) {
    if (sub->kind == EXPR_INDEX) return index_in(lower, nest, sub) != NULL;
    if (sub->kind != EXPR_APPLY) return false;
    bool shifts = sub->op == OP_ADD || sub->op == OP_SUB || sub->op == OP_MOD;
    return shifts && goes_along(lower, nest, sub->args[0], width) &&
           is_multiple(sub->args[1], width);
}

/* True for a row in shared memory, whose padding has no values. */
static bool is_in_row(const Lowering *lower, const Tensor *tensor) {
    const Local *local = local_in(lower->kernel, tensor);
    return local && local->kind == LOCAL_ROW;
}

static bool is_along(const Lowering *lower, const Nest *nest, const Expr *access, int width) {
    const Tensor *tensor = access->tensor;
    int last = access->count - 1;
    const bool uneven = nest->size % width != 0; /* the last lanes may be beyond the end */
    if (uneven && (last < 0 || !tensor->axes[last]->padded ||
                   access->args[last]->kind != EXPR_INDEX || is_in_row(lower, tensor)))
        return false;
    bool laned = tensor->type == TYPE_REAL || tensor->type == TYPE_BF16;
    if (last < 0 || !laned ||
        (tensor->axes[last]->size % width != 0 && tensor->axes[last]->kind != AXIS_ELEMENTS) ||
        !goes_along(lower, nest, access->args[last], width))
        return false;
    for (int i = 0; i < last; i++)
        if (index_in(lower, nest, access->args[i])) return false;
    return true;
}

static bool is_in_variable(const Lowering *lower, const Tensor *tensor, bool known) {
    for (int i = 0; i < lower->kernel->locals.count; i++) {
        const Local *local = lower->kernel->locals.items[i];
        if (local->tensor == tensor && local->kind == LOCAL_SCALAR)
            return known ? lower->known[i] : !local->stored;
    }
    return false;
}

/* The address of the first lane, NULL if the element may not exist. */
static const Term *address_of(Lowering *lower, const Nest *nest, const Term *from,
                              const Expr *access) {
    int bindings = lower->binding_count;
    const Term *inside, *address;
    bind_index(lower, index_in(lower, nest, access->args[access->count - 1]), from);
    address = element_term(lower, access, &inside);
    lower->binding_count = bindings;
    return inside ? NULL : address;
}

/* ---- before ---- */

typedef struct DefUse {
    Lowering *lower;
    const Lanes *lanes;
    const Tensor *tensor;
    const Term *address; /* of all accesses so far */
    int count;
    bool written, apart;
} DefUse;

static void def_use_access(DefUse *def_use, const Expr *access, bool write) {
    if (access->tensor != def_use->tensor) return;
    const Lanes *lanes = def_use->lanes;
    const Term *address = NULL;
    bool *used = &def_use->lower->used[access->tensor->id], was = *used;
    if (is_along(def_use->lower, lanes->nest, access, lanes->width))
        address = address_of(def_use->lower, lanes->nest, lanes->from, access);
    *used = was; /* a query must not mark the tensor as used */
    bool same = address && (def_use->count == 0 ||
                            (def_use->address && term_equal(address, def_use->address)));
    def_use->apart |= !same;
    def_use->written |= write;
    def_use->address = address;
    def_use->count++;
}

/* A tensor that is written may be read before and written after the lanes only at one address. */
static bool stays_apart(Lowering *lower, const Lanes *lanes, const Tensor *tensor) {
    DefUse def_use = {.lower = lower, .lanes = lanes, .tensor = tensor};
    LIST_EACH(const Member, member, &lower->kernel->members) {
        List reads = {0};
        if (!is_inside(member, lanes->nest)) continue;
        if (!member_terms(lower, member)->given) reads_of(lower->arena, member->statement, &reads);
        for (int i = 0; i < reads.count; i++) def_use_access(&def_use, reads.items[i], false);
        if (!reduces_at(member, lanes->nest))
            def_use_access(&def_use, member->statement->target, true);
    }
    return def_use.written && def_use.apart;
}

/* True if an access has lanes of that width; *halves: one of them of bf16. */
static bool has_lanes(Lowering *lower, const Nest *nest, int width, bool *halves) {
    bool found = false;
    *halves = false;
    LIST_EACH(const Member, member, &lower->kernel->members) {
        List list = {0};
        if (!is_inside(member, nest)) continue;
        if (!member_terms(lower, member)->given) reads_of(lower->arena, member->statement, &list);
        writes_of(lower->arena, member->statement, &list);
        LIST_EACH(const Expr, access, &list) {
            if (is_in_variable(lower, access->tensor, false) ||
                !is_along(lower, nest, access, width))
                continue;
            found = true;
            *halves |= access->tensor->type == TYPE_BF16;
        }
    }
    return found;
}

/* Lanes after the last element are empty. No sum and no other access may use them. */
static bool may_end_early(Lowering *lower, const Lanes *lanes) {
    LIST_EACH(const Member, member, &lower->kernel->members) {
        List list = {0};
        if (!is_inside(member, lanes->nest)) continue;
        if (member->statement->reduction != REDUCE_NONE) return false;
        reads_of(lower->arena, member->statement, &list);
        writes_of(lower->arena, member->statement, &list);
        LIST_EACH(const Expr, access, &list)
            if (access->tensor->rank && (lanes->apart[access->tensor->id] ||
                                         !is_along(lower, lanes->nest, access, lanes->width)))
                return false;
    }
    return true;
}

Lanes *lanes_of(Lowering *lower, const Nest *nest, bool alone) {
    bool halves;
    int width = LANES;
    if (nest->step > 1 || nest->block || nest->bound || (nest->size % width != 0 && !alone) ||
        !is_innermost(nest) || !has_lanes(lower, nest, width, &halves))
        return NULL;
    if (halves && (nest->size % MAX_LANES == 0 || alone) &&
        has_lanes(lower, nest, MAX_LANES, &halves) && halves)
        width = MAX_LANES;
    return lanes_of_width(lower, nest, width);
}

Lanes *lanes_around(Lowering *lower, const Nest *nest) {
    bool halves;
    if (nest->step > 1 || nest->block || nest->bound || nest->size % LANES != 0 ||
        !has_lanes(lower, nest, LANES, &halves))
        return NULL;
    return lanes_of_width(lower, nest, LANES);
}

Lanes *lanes_of_width(Lowering *lower, const Nest *nest, int width) {
    Lanes *lanes = arena_alloc(lower->arena, sizeof *lanes);
    size_t tensors = (size_t)lower->program->tensors.count + 1;
    *lanes = (Lanes){.nest = nest, .width = width};
    lanes->from = term_variable_of(lower->arena, nest_terms(lower, nest)->variable, "_from");
    lanes->lane = term_variable(lower->arena, T_INT, "lane");
    lanes->apart = arena_alloc(lower->arena, tensors * sizeof *lanes->apart);
    for (int i = 0; i < lower->program->tensors.count; i++)
        lanes->apart[i] = stays_apart(lower, lanes, lower->program->tensors.items[i]);
    lanes->ends_early = nest->index->axis->kind == AXIS_ELEMENTS;
    if (lanes->ends_early && !may_end_early(lower, lanes)) return NULL;
    return lanes;
}

int lanes_width(const Lanes *lanes) {
    return lanes ? lanes->width : 1;
}

const Term *lanes_from(const Lanes *lanes) {
    return lanes->from;
}

const Term *lanes_number(const Lanes *lanes) {
    return lanes->lane;
}

/* ---- inside ---- */

const Term *lane_term(Lowering *lower, const Expr *access, bool read, bool write) {
    Lanes *lanes = lower->lanes;
    if (!lanes || lanes->apart[access->tensor->id] || is_in_variable(lower, access->tensor, true) ||
        !is_along(lower, lanes->nest, access, lanes->width))
        return NULL;
    const Term *address = address_of(lower, lanes->nest, lanes->from, access);
    if (!address) return NULL;
    LaneAccess *found = NULL;
    for (int i = 0; i < lanes->accesses.count && !found; i++) {
        LaneAccess *one = lanes->accesses.items[i];
        if (term_equal(one->address, address)) found = one;
    }
    if (!found) {
        found = arena_alloc(lower->arena, sizeof *found);
        const char *wanted = arena_format(lower->arena, "%s_lanes", access->tensor->name);
        *found = (LaneAccess){access->tensor, address, term_variable(lower->arena, T_F32, wanted),
                              false, false};
        found->name->variable->tensor = access->tensor;
        list_push(lower->arena, &lanes->accesses, found);
    }
    if (read && !found->written) found->read = true;
    if (write) found->written = true;
    return term_element(lower->arena, found->name, lanes->lane);
}

/* ---- reads, an iteration, writes ---- */

/* Moves all lanes of an access; of a parameter only the remaining elements. */
static void lower_move(Lowering *lower, const Lanes *lanes, const LaneAccess *access, TermOp all,
                       TermOp up_to) {
    Arena *arena = lower->arena;
    const Term *rest = term(arena, TERM_SUB, named(lower, T_I64, "elements"), lanes->from);
    lower_do(lower,
             term(arena, lanes->ends_early ? up_to : all, access->name, access->address, rest));
}

static void lower_reads(Lowering *lower, const Lanes *lanes) {
    LIST_EACH(const LaneAccess, one, &lanes->accesses) {
        lower_array(lower, one->name, lanes->width, NULL);
        if (one->read) lower_move(lower, lanes, one, TERM_READ, TERM_READ_UP_TO);
    }
}

static void lower_writes(Lowering *lower, const Lanes *lanes) {
    LIST_EACH(const LaneAccess, one, &lanes->accesses)
        if (one->written) lower_move(lower, lanes, one, TERM_WRITE, TERM_WRITE_UP_TO);
}

void begin_lanes(Lowering *lower, Lanes *lanes) {
    lanes->body = (FormBlock){0};
    lanes->accesses = (List){0};
    lanes->outer = lower->block;
    lower->lanes = lanes;
    lower->block = &lanes->body;
}

void end_lanes(Lowering *lower, Lanes *lanes) {
    const Nest *nest = lanes->nest;
    Arena *arena = lower->arena;
    lower->block = lanes->outer;
    lower->lanes = NULL;
    lower_reads(lower, lanes);
    FormNode *loop = lower_count(lower, lanes->lane, lanes->width, IN_BRACES);
    loop->run = RUN_UNROLLED;
    const Term *iteration = term(arena, TERM_ADD, lanes->from, lanes->lane);
    if (nest->size % lanes->width && !lanes->ends_early) {
        lower_if(lower, term(arena, TERM_GE, iteration, nest_size(lower, nest, nest->size)),
                 ON_SAME_LINE)
            ->head = true;
        lower_do(lower, term(arena, TERM_BREAK));
        lower_end(lower);
    }
    lower_place(lower, nest_terms(lower, nest)->variable, iteration);
    form_append(lower->block, &lanes->body);
    lower_end(lower);
    lower_writes(lower, lanes);
}

void lower_lanes(Lowering *lower, Lanes *lanes, Nest *nest, int level) {
    begin_lanes(lower, lanes);
    lower_body(lower, nest, level);
    end_lanes(lower, lanes);
}
