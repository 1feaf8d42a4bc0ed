/* emit_loops: the loops of a kernel.
 *
 * The outer loops of a large nest become one loop that is shared out among threads in equal parts;
 * a large sum without outer loops is cut into chunks whose number does not depend on the threads,
 * so that its value does not either.
 */
#include "codegen/emit.h"

/* Parts of a sum over everything; elements of a parameter that one thread updates alone. */
enum { CHUNKS = 64, MAX_ALONE = 16384 };

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

/* ---- values computed once, outside of the loops that do not change them ---- */

static int deepest_index(const Member *member, const Expr *expr) {
    int deepest = -1;
    for (int i = 0; i < member->depth; i++)
        if (expr_uses_index(expr, member->order[i])) deepest = i;
    return deepest;
}

static bool reads_what_is_written(const Emitter *emitter, const Expr *expr) {
    Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (expr_reads(expr, member->statement->target->tensor)) return true;
    }
    return false;
}

static bool contains_read(const Expr *expr) {
    if (expr->kind == EXPR_READ) return true;
    for (int i = 0; i < expr->count; i++)
        if (contains_read(expr->args[i])) return true;
    return false;
}

/* A number that the kernel only reads, read once. */
static void hoist_number(Emitter *emitter, const Expr *read) {
    const Term *inside, *element = element_term(emitter, read, &inside);
    if (element->kind == TERM_NAME) return; /* in a variable already */
    const char *name = bind_name(emitter, NULL, element,
                                 arena_format(emitter->arena, "%s_at", read->tensor->name));
    lower_let(emitter, read->tensor->type == TYPE_INT ? "const int32_t" : "const float", name,
              element);
}

/* reads: only subscripts that are reads themselves. They come first, so that a value which holds
 * one
 * is the same term wherever it is written. */
static void hoist(Emitter *emitter, const Member *member, const Expr *expr, bool is_sub, int level,
                  bool reads) {
    bool number = expr->kind == EXPR_READ && expr->count == 0;
    if (number && !reads_what_is_written(emitter, expr)) hoist_number(emitter, expr);
    for (int i = 0; i < expr->count; i++)
        hoist(emitter, member, expr->args[i], expr->kind == EXPR_READ, level, reads);
    if (number || (reads && expr->kind != EXPR_READ) || !is_sub || !contains_read(expr) ||
        deepest_index(member, expr) > level || reads_what_is_written(emitter, expr))
        return;
    const Term *value = integer_term(emitter, expr);
    if (value->kind != TERM_APPLY) return; /* has a name */
    const char *wanted =
        expr->kind == EXPR_READ ? arena_format(emitter->arena, "%s_at", expr->tensor->name) : "at";
    lower_let(emitter, "const long", bind_name(emitter, NULL, value, wanted), value);
}

void emit_hoisted(Emitter *emitter, const Nest *nest, int level) {
    Member *member;
    for (int reads = 1; reads >= 0; reads--)
        for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
            if (member->given || (nest->index && !is_inside(member, nest))) continue;
            hoist(emitter, member, member->statement->target, false, level, reads);
            hoist(emitter, member, member->statement->value, false, level, reads);
        }
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
static const Term *column_of(Emitter *emitter, const char *sum) {
    return term(emitter->arena, "$0[j]", named(emitter, sum));
}

/* Declares what a sum is kept in. */
static void declare_sum(Emitter *emitter, const Member *member) {
    const Term *start = term_number(emitter->arena, start_of(member));
    if (!member->column) {
        lower_let(emitter, "float", member->sum, start);
    } else if (member->statement->reduction == REDUCE_SUM) {
        lower_array(emitter, "float", member->sum, column_size(member), "{0.0f}");
    } else {
        lower_array(emitter, "float", member->sum, column_size(member), NULL);
        lower_count(emitter, "int", "j", column_size(member), ON_SAME_LINE);
        lower_set(emitter, column_of(emitter, member->sum), start);
        lower_end(emitter);
    }
}

/* Declares what the sums of a loop are kept in, before it. apart: in variables of their own. */
void begin_sums(Emitter *emitter, const Nest *nest, bool apart) {
    Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (!reduces_at(member, nest)) continue;
        Local *local = NULL;
        const char *scalar = scalar_of(emitter, member, &local);
        const char *wanted =
            arena_format(emitter->arena, "%s_sum", member->statement->target->tensor->name);
        member->sum_is_local = !apart && is_direct(member, local);
        member->sum = member->sum_is_local ? scalar : bind_name(emitter, NULL, NULL, wanted);
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
        member->part = bind_name(emitter, NULL, NULL, wanted);
        if (member->column)
            lower_array(emitter, "float", member->part, column_size(member), "{0.0f}");
        else
            lower_let(emitter, "float", member->part, term_number(emitter->arena, "0.0f"));
    }
}

static void end_parts(Emitter *emitter, const Nest *nest) {
    Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (!sums_in_parts(member, nest)) continue;
        if (!member->column) {
            lower_join(emitter, named(emitter, member->sum), REDUCE_SUM,
                       named(emitter, member->part));
            continue;
        }
        lower_count(emitter, "int", "j", column_size(member), ON_SAME_LINE);
        lower_join(emitter, column_of(emitter, member->sum), REDUCE_SUM,
                   column_of(emitter, member->part));
        lower_end(emitter);
    }
}

static const Term *last_of_block(Emitter *emitter, const Nest *block) {
    if (block->total % block->step == 0)
        return term(emitter->arena, "$0 + $1", named(emitter, block->text),
                    whole(emitter, block->step));
    return named(emitter, arena_format(emitter->arena, "%s_to", block->text));
}

void bind_loop(Emitter *emitter, Nest *nest) {
    Member *member;
    nest->text = bind_name(emitter, nest->index, NULL, nest->index->name);
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        for (int i = 0; i < member->depth; i++)
            if (member->path[i] == nest) bind_alias(emitter, member->order[i], nest->text);
    }
}

static FormNode *open_loop(Emitter *emitter, Nest *nest) {
    bind_loop(emitter, nest);
    const Term *from = whole(emitter, 0), *to = whole(emitter, nest->size), *step = NULL;
    if (nest->block) {
        from = named(emitter, nest->block->text);
        to = last_of_block(emitter, nest->block);
    } else if (nest->step > 1) {
        to = whole(emitter, nest->total);
        step = whole(emitter, nest->step);
    } else if (nest->index->axis->kind == AXIS_ELEMENTS) {
        to = named(emitter, "elements");
    }
    return lower_for(emitter, "long", nest->text, from, to, step);
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
            emit_store(emitter, member, named(emitter, member->sum));
        } else {
            int bindings = emitter->binding_count;
            Nest inner = *column_nest(member);
            inner.index = member->order[member->depth - 1];
            open_loop(emitter, &inner);
            const Term *place = named(emitter, inner.text);
            if (inner.block)
                place = term(emitter->arena, "$0 - $1", place, named(emitter, inner.block->text));
            emit_store(emitter, member,
                       term(emitter->arena, "$0[$1]", named(emitter, member->sum), place));
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
        if (emitter->storage) type = arena_format(emitter->arena, "%s%s", emitter->storage, type);
        lower_array(emitter, type, emitter->locals[i], local->size, NULL);
        emitter->known[i] = true;
    }
}

void emit_body(Emitter *emitter, Nest *nest, int level) {
    if (nest->step > 1 && nest->total % nest->step != 0)
        lower_let(emitter, "const long", arena_format(emitter->arena, "%s_to", nest->text),
                  term(emitter->arena, "$0 + $1 < $2 ? $0 + $1 : $2", named(emitter, nest->text),
                       whole(emitter, nest->step), whole(emitter, nest->total)));
    emit_rows(emitter, nest);
    emit_hoisted(emitter, nest, level);
    for (int i = 0; i < nest->children.count; i++) {
        Nest *child = nest->children.items[i];
        if (child->member)
            emit_member(emitter, child->member);
        else
            emit_loop(emitter, child, level + 1);
    }
}

void emit_loop(Emitter *emitter, Nest *nest, int level) {
    begin_sums(emitter, nest, false);
    begin_parts(emitter, nest);
    int bindings = emitter->binding_count;
    open_loop(emitter, nest)->iterations = nest->size;
    emit_body(emitter, nest, level);
    close_loop(emitter, bindings);
    end_parts(emitter, nest);
    end_sums(emitter, nest);
}

/* ---- loops shared out among threads ---- */

/* How many loops from `nest` inwards run in parallel as one. */
static int chain_length(const Emitter *emitter, const Nest *nest) {
    const Member *member;
    int length = 0;
    for (const Nest *at = nest; at && !at->member && !at->block; length++) {
        for (int i = 0; (member = member_at(emitter, i)) != NULL; i++)
            if (is_inside(member, at) && length >= member->kept) return length;
        if (length > 0 && is_innermost(at)) return length;
        at = at->children.count == 1 ? at->children.items[0] : NULL;
    }
    return length;
}

/* The place of one of the loops that became one: b = iteration / (s * h), s = iteration / h % s,
 * h = iteration % h. */
static const Term *place_in_chain(Emitter *emitter, const Nest *loop, long inner, bool outermost) {
    Arena *arena = emitter->arena;
    const Term *place = named(emitter, "iteration");
    if (inner > 1) place = term(arena, "$0 / $1", place, whole(emitter, inner));
    if (!outermost) place = term(arena, "$0 % $1", place, whole(emitter, loop->size));
    if (loop->step > 1) place = term(arena, "$0 * $1", place, whole(emitter, loop->step));
    return place;
}

/* `length` loops as one that is shared out. */
static void emit_chain(Emitter *emitter, Nest *nest, int length) {
    Nest *loops[MAX_LOOPS + 1];
    long iterations = 1;
    int bindings = emitter->binding_count;
    for (int i = 0; i < length; i++) {
        loops[i] = i ? loops[i - 1]->children.items[0] : nest;
        iterations *= loops[i]->size;
        bind_loop(emitter, loops[i]);
    }
    lower_count(emitter, "long", "iteration", iterations, IN_BRACES)->run = RUN_PARALLEL;
    for (int i = 0; i < length; i++) {
        iterations /= loops[i]->size;
        lower_place(emitter, loops[i]->text, place_in_chain(emitter, loops[i], iterations, i == 0));
    }
    emit_body(emitter, loops[length - 1], length - 1);
    close_loop(emitter, bindings);
}

/* ---- sums over everything ---- */

static bool only_sums(const Emitter *emitter, const Nest *nest) {
    Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (is_inside(member, nest) && !reduces_at(member, nest)) return false;
    }
    return true;
}

/* The sum of a chunk, or of one of its columns. */
static const Term *partial_of(Emitter *emitter, const Member *member) {
    return term(emitter->arena, member->column ? "$0[chunk][j]" : "$0[chunk]",
                named(emitter, member->partial));
}

static const Term *sum_of(Emitter *emitter, const Member *member) {
    return member->column ? column_of(emitter, member->sum) : named(emitter, member->sum);
}

static void add_partial(Emitter *emitter, const Member *member) {
    const Term *sum = sum_of(emitter, member), *part = partial_of(emitter, member);
    if (member->column) lower_count(emitter, "int", "j", column_size(member), ON_NEXT_LINE);
    lower_join(emitter, sum, member->statement->reduction, part);
    if (member->column) lower_end(emitter);
}

/* One chunk of the outermost loop, summed by itself. */
static void emit_chunk(Emitter *emitter, Nest *nest, long each) {
    Member *member;
    Arena *arena = emitter->arena;
    int bindings = emitter->binding_count;
    begin_sums(emitter, nest, true);
    bind_loop(emitter, nest);
    const char *name = nest->text,
               *to = bind_name(emitter, NULL, NULL, arena_format(arena, "%s_to", name));
    lower_let(emitter, "const long", to,
              term(arena, "(chunk + 1) * $0 < $1 ? (chunk + 1) * $0 : $1", whole(emitter, each),
                   whole(emitter, nest->size)));
    lower_for(emitter, "long", name, term(arena, "chunk * $0", whole(emitter, each)),
              named(emitter, to), NULL)
        ->iterations = nest->size;
    emit_body(emitter, nest, 0);
    lower_end(emitter);
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (!reduces_at(member, nest)) continue;
        if (member->column) lower_count(emitter, "int", "j", column_size(member), ON_SAME_LINE);
        lower_set(emitter, partial_of(emitter, member), sum_of(emitter, member));
        if (member->column) lower_end(emitter);
    }
    emitter->binding_count = bindings;
}

/* Each chunk sums by itself, then the chunks are summed in order. */
static void emit_chunks(Emitter *emitter, Nest *nest) {
    Member *member;
    long chunks = nest->size < CHUNKS ? nest->size : CHUNKS;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (!reduces_at(member, nest)) continue;
        const char *wanted =
            arena_format(emitter->arena, "%s_parts", member->statement->target->tensor->name);
        member->partial = bind_name(emitter, NULL, NULL, wanted);
        const char *rows = arena_format(emitter->arena, "%s[%ld]", member->partial, chunks);
        if (member->column)
            lower_array(emitter, "float", rows, column_size(member), NULL);
        else
            lower_let(emitter, "float", rows, NULL);
    }
    lower_count(emitter, "long", "chunk", chunks, IN_BRACES)->run = RUN_PARALLEL;
    emit_chunk(emitter, nest, (nest->size + chunks - 1) / chunks);
    lower_end(emitter);
    begin_sums(emitter, nest, false);
    lower_count(emitter, "long", "chunk", chunks, IN_BRACES);
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        if (reduces_at(member, nest)) add_partial(emitter, member);
    }
    lower_end(emitter);
    end_sums(emitter, nest);
}

/* ---- a whole kernel ---- */

static void emit_outermost(Emitter *emitter, Nest *nest) {
    bool small = emitter->kernel->work < target_processor.small_work;
    int length = small ? 0 : chain_length(emitter, nest);
    if (!small && length == 0 && only_sums(emitter, nest)) {
        emit_chunks(emitter, nest);
    } else if (length == 0) {
        emit_loop(emitter, nest, 0);
    } else if (length == 1 && is_innermost(nest)) {
        int bindings = emitter->binding_count;
        FormNode *loop = open_loop(emitter, nest);
        loop->iterations = nest->size;
        if (nest->size > 1) loop->run = RUN_PARALLEL;
        if (nest->index->axis->kind == AXIS_ELEMENTS) loop->alone = MAX_ALONE;
        emit_body(emitter, nest, 0);
        close_loop(emitter, bindings);
    } else {
        emit_chain(emitter, nest, length);
    }
}

void emit_nests(Emitter *emitter, Nest *root) {
    emit_rows(emitter, root);
    emit_hoisted(emitter, root, -1);
    for (int i = 0; i < root->children.count; i++) {
        Nest *child = root->children.items[i];
        if (child->member)
            emit_member(emitter, child->member);
        else
            emit_outermost(emitter, child);
    }
}
