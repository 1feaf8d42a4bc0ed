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
 * The number of lanes is the width of the loop: see vector_access.c. Elements with other subscripts
 * are read and written lane by lane.
 */
#include "lower/lower.h"

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

static bool is_in_variable(const Lowering *lower, const Tensor *tensor) {
    for (int i = 0; i < lower->kernel->locals.count; i++) {
        const Local *local = lower->kernel->locals.items[i];
        if (local->tensor == tensor && local->kind == LOCAL_SCALAR) return lower->known[i];
    }
    return false;
}

/* The address of the first lane, NULL if the element may not exist. */
static const Term *address_of(Lowering *lower, const Nest *nest, const Term *from,
                              const Expr *access) {
    int bindings = lower->binding_count;
    const Term *inside, *address;
    bind_index(lower, index_of_loop(lower->kernel, nest, access->args[access->count - 1]), from);
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
    if (lies_along(def_use->lower->kernel, lanes->nest, access, lanes->width))
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

Lanes *lanes_of(Lowering *lower, const Nest *nest, int width) {
    if (width <= 1) return NULL;
    Lanes *lanes = arena_alloc(lower->arena, sizeof *lanes);
    size_t tensors = (size_t)lower->program->tensors.count + 1;
    *lanes = (Lanes){.nest = nest, .width = width};
    lanes->from = term_variable_of(lower->arena, nest_terms(lower, nest)->variable, "_from");
    lanes->lane = term_variable(lower->arena, T_INT, "lane");
    lanes->apart = arena_alloc(lower->arena, tensors * sizeof *lanes->apart);
    for (int i = 0; i < lower->program->tensors.count; i++)
        lanes->apart[i] = stays_apart(lower, lanes, lower->program->tensors.items[i]);
    lanes->ends_early = nest->index->axis->kind == AXIS_ELEMENTS;
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
    if (!lanes || lanes->apart[access->tensor->id] || is_in_variable(lower, access->tensor) ||
        !lies_along(lower->kernel, lanes->nest, access, lanes->width))
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
