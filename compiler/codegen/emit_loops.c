/* emit_loops: the loops of a kernel, one after the other. */
#include "codegen/emit.h"

/* ---- who is in a nest ---- */

bool is_inside(const Member *member, const Nest *nest) {
    for (int i = 0; i < member->depth; i++)
        if (member->path[i] == nest) return true;
    return false;
}

bool reduces_at(const Member *member, const Nest *nest) {
    return member->statement->reduction != REDUCE_NONE && member->kept < member->depth &&
           member->path[member->kept] == nest;
}

bool is_innermost(const Nest *nest) {
    for (int i = 0; i < nest->children.count; i++)
        if (!((Nest *)nest->children.items[i])->member) return false;
    return true;
}

/* Member number `at` of the kernel that is being written, NULL after the last. */
Member *member_at(const Emitter *emitter, int at) {
    const List *members = &emitter->kernel->members;
    return at < members->count ? members->items[at] : NULL;
}

/* ---- sums ---- */

/* The least number, not less: two of those have no difference. */
static const char *start_of(const Member *member) {
    return member->is_online_max                        ? "-3.402823466e+38f"
           : member->statement->reduction == REDUCE_SUM ? "0.0f"
           : member->statement->reduction == REDUCE_MAX ? "-INFINITY"
                                                        : "INFINITY";
}

static const Nest *column_nest(const Member *member) {
    return member->path[member->depth - 1];
}

static long column_size(const Member *member) {
    return member->block >= 0 ? member->block_size : column_nest(member)->size;
}

/* The sum of a tensor that lives in a variable anyway can be that variable. */
static bool is_direct(const Member *member, const Local *local) {
    return local && !member->column && !local->stored && local->first == member &&
           !member->statement->accumulate;
}

/* The elements of a sum that is kept for each column. */
static const Term *column_of(Emitter *emitter, const Term *sum) {
    return term(emitter->arena, "$0[j]", sum);
}

/* Declares what a sum is kept in. */
static void declare_sum(Emitter *emitter, const Member *member) {
    const Term *start = term_number(emitter->arena, start_of(member));
    bool zeroed = member->statement->reduction == REDUCE_SUM;
    FormNode *let = member->column ? lower_array(emitter, "float", member->sum, column_size(member),
                                                 zeroed ? "{0.0f}" : NULL)
                                   : lower_let(emitter, "float", member->sum, start);
    let->sum_of = member->statement->target->tensor->name;
    let->reduces = member->statement->reduction;
    if (member->column && !zeroed) {
        lower_count(emitter, "int", named(emitter, "j"), column_size(member), ON_SAME_LINE);
        lower_set(emitter, column_of(emitter, member->sum), start);
        lower_end(emitter);
    }
}

/* Declares what the sums of a loop are kept in, before it. */
void begin_sums(Emitter *emitter, const Nest *nest) {
    Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (!reduces_at(member, nest)) continue;
        Local *local = NULL;
        const Term *scalar = scalar_of(emitter, member, &local);
        const char *wanted =
            arena_format(emitter->arena, "%s_sum", member->statement->target->tensor->name);
        member->sum_is_local = is_direct(member, local);
        member->sum = member->sum_is_local ? scalar : bind_variable(emitter, NULL, wanted);
        declare_sum(emitter, member);
    }
}

/* A sum over several loops is kept for each iteration of the outer ones first: so long chains of
 * additions do not lose digits. */
static bool sums_in_parts(const Member *member, const Nest *nest) {
    int innermost = member->depth - (member->column ? 2 : 1);
    return member->statement->reduction == REDUCE_SUM && innermost > member->kept &&
           member->path[innermost] == nest;
}

static void begin_parts(Emitter *emitter, const Nest *nest) {
    Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (!sums_in_parts(member, nest)) continue;
        const char *tensor = member->statement->target->tensor->name;
        const char *wanted = arena_format(emitter->arena, "%s_part", tensor);
        member->part = bind_variable(emitter, NULL, wanted);
        FormNode *let =
            member->column
                ? lower_array(emitter, "float", member->part, column_size(member), "{0.0f}")
                : lower_let(emitter, "float", member->part, term_number(emitter->arena, "0.0f"));
        let->sum_of = member->statement->target->tensor->name;
        let->is_part = true;
    }
}

static void end_parts(Emitter *emitter, const Nest *nest) {
    Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (!sums_in_parts(member, nest)) continue;
        if (!member->column) {
            lower_join(emitter, member->sum, REDUCE_SUM, member->part);
            continue;
        }
        lower_count(emitter, "int", named(emitter, "j"), column_size(member), ON_SAME_LINE);
        lower_join(emitter, column_of(emitter, member->sum), REDUCE_SUM,
                   column_of(emitter, member->part));
        lower_end(emitter);
    }
}

const Term *nest_size(Emitter *emitter, const Nest *nest, long size) {
    const Axis *axis = nest->index->axis;
    return axis->size == size ? size_term(emitter, axis) : whole(emitter, size);
}

static const Term *last_of_block(Emitter *emitter, const Nest *block) {
    if (block->total % block->step == 0)
        return term(emitter->arena, "$0 + $1", block->variable, whole(emitter, block->step));
    return block->end;
}

void bind_loop(Emitter *emitter, Nest *nest) {
    Member *member;
    nest->variable = bind_variable(emitter, nest->index, nest->index->name);
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        for (int i = 0; i < member->depth; i++)
            if (member->path[i] == nest) bind_index(emitter, member->order[i], nest->variable);
    }
}

static FormNode *open_loop(Emitter *emitter, Nest *nest) {
    bind_loop(emitter, nest);
    const Term *from = whole(emitter, 0), *to = nest_size(emitter, nest, nest->size), *step = NULL;
    if (nest->block) {
        from = nest->block->variable;
        to = last_of_block(emitter, nest->block);
    } else if (nest->step > 1) {
        to = nest_size(emitter, nest, nest->total);
        step = whole(emitter, nest->step);
    } else if (nest->index->axis->kind == AXIS_ELEMENTS) {
        to = named(emitter, "elements");
    }
    return lower_for(emitter, "long", nest->variable, from, to, step);
}

void close_loop(Emitter *emitter, int bindings) {
    lower_end(emitter);
    emitter->binding_count = bindings;
}

/* Puts the sums where they belong, after the loop. */
void end_sums(Emitter *emitter, const Nest *nest) {
    Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (!reduces_at(member, nest)) continue;
        if (member->sum_is_local) {
            for (int i = 0; i < emitter->kernel->locals.count; i++)
                if (((Local *)emitter->kernel->locals.items[i])->first == member)
                    emitter->known[i] = true;
        } else if (!member->column) {
            emit_store(emitter, member, member->sum);
        } else {
            int bindings = emitter->binding_count;
            Nest inner = *column_nest(member);
            inner.index = member->order[member->depth - 1];
            open_loop(emitter, &inner);
            const Term *place = inner.variable;
            if (inner.block) place = term(emitter->arena, "$0 - $1", place, inner.block->variable);
            emit_store(emitter, member, term(emitter->arena, "$0[$1]", member->sum, place));
            close_loop(emitter, bindings);
        }
    }
}

/* ---- loops ---- */

void emit_rows(Emitter *emitter, const Nest *nest) {
    for (int i = 0; i < emitter->kernel->locals.count; i++) {
        const Local *local = emitter->kernel->locals.items[i];
        if (local->kind != LOCAL_ROW || local->scope != nest) continue;
        const char *type = local->tensor->type == TYPE_INT ? "int32_t" : "float";
        lower_array(emitter, type, emitter->locals[i], local->size, NULL)->head = true;
        emitter->known[i] = true;
    }
}

void emit_body(Emitter *emitter, Nest *nest, int level) {
    if (nest->step > 1 && nest->total % nest->step != 0) {
        nest->end = term_variable_of(emitter->arena, nest->variable, "_to");
        lower_let(emitter, "const long", nest->end,
                  term(emitter->arena, "$0 + $1 < $2 ? $0 + $1 : $2", nest->variable,
                       whole(emitter, nest->step), nest_size(emitter, nest, nest->total)))
            ->head = true;
    }
    emit_rows(emitter, nest);
    for (int i = 0; i < nest->children.count; i++) {
        Nest *child = nest->children.items[i];
        if (child->member)
            emit_member(emitter, child->member);
        else
            emit_loop(emitter, child, level + 1);
    }
}

/* Each statement inside has an element of its own in every iteration. */
static bool is_independent(const Emitter *emitter, const Nest *nest, int level) {
    const Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++)
        if (is_inside(member, nest) && level >= member->kept) return false;
    return true;
}

void emit_loop(Emitter *emitter, Nest *nest, int level) {
    begin_sums(emitter, nest);
    begin_parts(emitter, nest);
    int bindings = emitter->binding_count;
    FormNode *loop = open_loop(emitter, nest);
    loop->iterations = nest->size;
    loop->independent = is_independent(emitter, nest, level);
    emit_body(emitter, nest, level);
    close_loop(emitter, bindings);
    end_parts(emitter, nest);
    end_sums(emitter, nest);
}

/* ---- a whole kernel ---- */

void emit_nests(Emitter *emitter, Nest *root) {
    emit_rows(emitter, root);
    for (int i = 0; i < root->children.count; i++) {
        Nest *child = root->children.items[i];
        if (child->member)
            emit_member(emitter, child->member);
        else
            emit_loop(emitter, child, 0);
    }
}
