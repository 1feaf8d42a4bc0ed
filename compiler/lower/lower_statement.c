/* lower_statement: one statement within its loops: its value and its store. */
#include "lower/lower.h"

void begin_kernel(Lowering *lower, Kernel *kernel) {
    size_t tensors = (size_t)lower->program->tensors.count + 1,
           locals = (size_t)kernel->locals.count + 1;
    lower->kernel = kernel;
    lower->used = arena_alloc(lower->arena, tensors * sizeof *lower->used);
    lower->written = arena_alloc(lower->arena, tensors * sizeof *lower->written);
    lower->known = arena_alloc(lower->arena, locals * sizeof *lower->known);
    lower->locals = arena_alloc(lower->arena, locals * sizeof *lower->locals);
    lower->member_terms = lower->nest_terms = lower->fixed = (List){0};
    lower->uses_seed = false;
    lower->repeats_used = (List){0};
    for (int i = 0; i < kernel->locals.count; i++) {
        const Local *local = kernel->locals.items[i];
        const char *name = lower->names[local->tensor->id];
        const char *wanted = local->stored ? arena_format(lower->arena, "%s_now", name) : name;
        /* The variable gets the name of a tensor without memory. */
        if (!local->stored) lower->names[local->tensor->id] = NULL;
        bool rounds = element_type(local->tensor) == T_BF16; /* others do not */
        TermType type = rounds && !local->operand ? T_F32 : element_type(local->tensor);
        lower->locals[i] = term_name(lower->arena, type, bind_name(lower, NULL, wanted));
        lower->locals[i]->variable->tensor = local->tensor;
        lower->names[local->tensor->id] = name;
    }
}

MemberTerms *member_terms(Lowering *lower, const Member *member) {
    for (int i = lower->member_terms.count - 1; i >= 0; i--) {
        MemberTerms *terms = lower->member_terms.items[i];
        if (terms->member == member) return terms;
    }
    MemberTerms *terms = arena_alloc(lower->arena, sizeof *terms);
    terms->member = member;
    list_push(lower->arena, &lower->member_terms, terms);
    return terms;
}

NestTerms *nest_terms(Lowering *lower, const Nest *nest) {
    for (int i = lower->nest_terms.count - 1; i >= 0; i--) {
        NestTerms *terms = lower->nest_terms.items[i];
        if (terms->nest == nest) return terms;
    }
    NestTerms *terms = arena_alloc(lower->arena, sizeof *terms);
    terms->nest = nest;
    list_push(lower->arena, &lower->nest_terms, terms);
    return terms;
}

const Term *scalar_of(const Lowering *lower, const Member *member, Local **local) {
    for (int i = 0; i < lower->kernel->locals.count; i++) {
        Local *candidate = lower->kernel->locals.items[i];
        if (candidate->tensor != member->statement->target->tensor ||
            candidate->kind != LOCAL_SCALAR)
            continue;
        *local = candidate;
        return lower->locals[i];
    }
    return NULL;
}

static bool *known_local(Lowering *lower, const Local *local) {
    for (int i = 0; i < lower->kernel->locals.count; i++)
        if (lower->kernel->locals.items[i] == local) return &lower->known[i];
    return NULL;
}

/* True if other statements of the kernel access the memory of a tensor as well, or if its own reads
 * the old value. After the statement that a variable is for, the variable is read. */
static bool is_touched_again(const Lowering *lower, const Tensor *tensor) {
    const Local *local = local_in(lower->kernel, tensor);
    const Allocation *place = &lower->schedule->allocations[tensor->id];
    int touches = place->over || place->taken ? 2 : 0;
    bool held = false;
    LIST_EACH(const Member, member, &lower->kernel->members) {
        const Statement *statement = member->statement;
        List list = {0};
        writes_of(lower->arena, statement, &list);
        if (!held) reads_of(lower->arena, statement, &list);
        held |= local && local->kind == LOCAL_SCALAR && member == local->first;
        for (int j = 0; j < list.count; j++) touches += ((Expr *)list.items[j])->tensor == tensor;
        touches += statement->accumulate && statement->target->tensor == tensor;
    }
    return touches > 1;
}

FormNode *lower_write(Lowering *lower, const Statement *statement, bool adds, const Term *value) {
    const Expr *target = statement->target;
    const Term *inside = NULL, *element = lane_term(lower, target, adds, true);
    bool lane = element != NULL;
    if (!lane) element = element_term(lower, target, &inside);
    lower->written[target->tensor->id] = true;
    if (inside) lower_if(lower, inside, ON_SAME_LINE);
    FormNode *store = lower_join(lower, element, adds ? REDUCE_SUM : REDUCE_NONE, value);
    store->stores = true;
    store->again = lower->program->target->launches && is_touched_again(lower, target->tensor);
    store->rounds = (target->tensor->type == TYPE_BF16 || is_units(target->tensor)) && !lane;
    if (inside) lower_end(lower);
    return store;
}

static void write_member(Lowering *lower, const Member *member, bool adds, const Term *value) {
    FormNode *store = lower_write(lower, member->statement, adds, value);
    store->scatters = member->statement->reduction == REDUCE_NONE && member->kept < member->depth &&
                      !member->column;
}

/* The element in memory, even if a variable holds the value as well. */
static const Term *memory_term(Lowering *lower, const Expr *target) {
    const Term *inside, *lane = lane_term(lower, target, true, false);
    return lane ? lane : element_term(lower, target, &inside);
}

static void store_scalar(Lowering *lower, Member *member, const Local *local, const Term *name,
                         const Term *value) {
    Statement *statement = member->statement;
    bool *known = known_local(lower, local);
    if (*known) {
        lower_join(lower, name, statement->accumulate ? REDUCE_SUM : REDUCE_NONE, value);
    } else if (statement->accumulate) {
        const Term *before = memory_term(lower, statement->target);
        value = term(lower->arena, TERM_ADD, before, value);
        lower_let(lower, name, value);
    } else {
        lower_let(lower, name, value);
    }
    *known = false; /* during the store to memory */
    if (local->stored) write_member(lower, member, false, name);
    *known = true;
}

void lower_store(Lowering *lower, Member *member, const Term *value) {
    Local *local;
    const Term *name = scalar_of(lower, member, &local);
    if (name)
        store_scalar(lower, member, local, name, value);
    else
        write_member(lower, member, member->statement->accumulate, value);
}

const Term *value_of(Lowering *lower, const Statement *statement) {
    if (statement->target->tensor->type == TYPE_INT)
        return term_cast(lower->arena, T_I32, integer_term(lower, statement->value));
    if (!statement->in_double) return real_term(lower, statement->value);
    const Term *value = double_term(lower, statement->value);
    bool kept = statement->target->tensor->type == TYPE_DOUBLE;
    return kept ? value : term_cast(lower->arena, T_F32, value);
}

void keep_before(Lowering *lower, Member *largest) {
    MemberTerms *terms = member_terms(lower, largest);
    terms->before = term_variable_of(lower->arena, terms->sum, "_before");
    lower_constant(lower, terms->before, terms->sum);
}

/* The value of a sum with the current maximum, which is in a variable. */
static const Term *online_value(Lowering *lower, const Member *member) {
    Local *local = NULL;
    scalar_of(lower, member->online_max, &local);
    bool *known = known_local(lower, local);
    *known = true;
    const Term *value = value_of(lower, member->statement);
    *known = false;
    return value;
}

const Term *faded(Arena *arena, const Term *sum, const MemberTerms *largest) {
    const Term *fade = term(arena, TERM_FADE, largest->before, largest->sum);
    return term(arena, TERM_MUL, sum, fade);
}

/* Adds to the variable of a reduction. */
static void join_value(Lowering *lower, const Member *member, const Term *sum, const Term *value) {
    Arena *arena = lower->arena;
    const MemberTerms *largest =
        member->online_max ? member_terms(lower, member->online_max) : NULL;
    if (largest)
        lower_set(lower, sum, term(arena, TERM_ADD, faded(arena, sum, largest), value));
    else
        lower_join(lower, sum, member->statement->reduction, value);
}

void lower_member(Lowering *lower, Member *member) {
    Statement *statement = member->statement;
    const MemberTerms *terms = member_terms(lower, member);
    if (terms->given) {
        lower_store(lower, member, terms->given);
        return;
    }
    if (member->is_online_max) keep_before(lower, member);
    const Term *value =
        member->online_max ? online_value(lower, member) : value_of(lower, statement);
    if (statement->reduction == REDUCE_NONE || member->kept == member->depth) {
        lower_store(lower, member, value);
        return;
    }
    const Term *sum = terms->part ? terms->part : terms->sum;
    if (member->column) {
        const Nest *inner = member->path[member->depth - 1];
        const Term *place = nest_terms(lower, inner)->variable;
        if (inner->block)
            place = term(lower->arena, TERM_SUB, place, nest_terms(lower, inner->block)->variable);
        sum = term_element(lower->arena, sum, place);
    }
    join_value(lower, member, sum, value);
}
