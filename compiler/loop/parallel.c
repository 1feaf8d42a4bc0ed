/* parallel: distributes the outermost loops of a large kernel among CPU threads.
 *
 * Loops with independent iterations become one:
 *
 *     for b = 0 .. 2                            for iteration = 0 .. 96 parallel
 *         for s = 0 .. 48                           let b = iteration / 48
 *             ...                     -->           let s = iteration % 48
 *                                                   ...
 *
 * A sum over everything is split into chunks. Their number, and therefore the result, does not
 * depend on the number of threads:
 *
 *     let sum = 0                               let parts[64]
 *     for i = 0 .. 6400                         for chunk = 0 .. 64 parallel
 *         sum += x[i]                               let sum = 0
 *     store y = sum                   -->           for i = 100 * chunk .. 100 * (chunk + 1)
 *                                                       sum += x[i]
 *                                                   parts[chunk] = sum
 *                                               let sum = 0
 *                                               for chunk = 0 .. 64
 *                                                   sum += parts[chunk]
 *                                               store y = sum
 */
#include "loop/form.h"

/* Chunks of a sum over everything; elements of a parameter that one thread updates alone. */
enum { CHUNKS = 64, MAX_ALONE = 16384 };

/* ---- joined loops ---- */

static bool is_innermost(const FormBlock *block) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (node->kind == FORM_FOR || !is_innermost(&node->body)) return false;
    return true;
}

/* The loop that is the whole body of another one. */
static FormNode *loop_inside(const FormNode *loop) {
    FormNode *inside = loop->body.first;
    return inside && inside->kind == FORM_FOR && !inside->next ? inside : NULL;
}

/* True if data determines the number of iterations. */
static bool is_bounded(const FormNode *loop) {
    return !loop->values[2] && loop->values[1]->op == TERM_CAST;
}

/* The number of loops that run in parallel as one. */
static int chain_length(const FormNode *loop) {
    int length = 0;
    for (; loop && loop->independent && term_is_zero(loop->values[0]); loop = loop_inside(loop)) {
        if (length > 0 && (is_innermost(&loop->body) || is_bounded(loop))) return length;
        length++;
    }
    return length;
}

/* The index of one of the joined loops: b = iteration / (s * h), s = iteration / h % s, h =
 * iteration % h. */
static const Term *place_in_chain(Arena *arena, const FormNode *loop, const Term *iteration,
                                  long inner, bool outermost) {
    const Term *place = iteration;
    if (inner > 1) place = term(arena, TERM_DIV, place, term_whole(arena, inner));
    const Term *count = loop->values[2] ? term_whole(arena, loop->iterations) : loop->values[1];
    if (!outermost) place = term(arena, TERM_MOD, place, count);
    return loop->values[2] ? term(arena, TERM_MUL, place, loop->values[2]) : place;
}

/* Joins the first loop with the `length` - 1 loops inside it. */
static void collapse(Arena *arena, FormNode *loop, int length) {
    const Term *iteration = term_name(arena, T_I64, "iteration");
    FormBlock body = {0};
    FormNode *last = loop;
    long inner = loop->iterations;
    for (int i = 1; i < length; i++) {
        last = loop_inside(last);
        inner *= last->iterations;
    }
    const Term *count = term_whole(arena, inner);
    if (is_bounded(loop))
        count = term(arena, TERM_MUL, loop->values[1], term_whole(arena, inner / loop->iterations));
    last = loop;
    for (int i = 0; i < length; i++, last = i < length ? loop_inside(last) : last) {
        inner /= last->iterations;
        FormNode *let = form_add(arena, &body, FORM_LET);
        let->name = last->name;
        let->values[0] = place_in_chain(arena, last, iteration, inner, i == 0);
        let->head = let->optional = let->constant = true;
    }
    form_append(&body, &last->body);
    *loop = (FormNode){.kind = FORM_FOR,
                       .name = iteration,
                       .values = {term_whole(arena, 0), count},
                       .run = RUN_PARALLEL,
                       .independent = true,
                       .body = body,
                       .next = loop->next};
}

/* ---- sums over everything ---- */

static const FormNode *sum_named(const FormBlock *sums, const Term *name) {
    for (const FormNode *node = sums->first; node; node = node->next)
        if (node->kind == FORM_LET && term_equal(node->name, name)) return node;
    return NULL;
}

/* True if the only results of the block are these sums; parts: names of their partial sums. */
static bool only_sums(Arena *arena, const FormBlock *block, const FormBlock *sums, List *parts) {
    for (const FormNode *node = block->first; node; node = node->next) {
        const Term *place = node->values[0];
        if (node->kind == FORM_LET && node->is_part)
            list_push(arena, parts, (void *)(uintptr_t)node->name);
        else if (node->kind == FORM_SET) {
            const Term *stored = term_stored(place);
            bool known = sum_named(sums, stored) != NULL;
            for (int i = 0; i < parts->count; i++) known |= term_equal(parts->items[i], stored);
            if (!known) return false;
        } else if (node->kind != FORM_FOR && !node->head)
            return false;
        if (!only_sums(arena, &node->body, sums, parts)) return false;
    }
    return true;
}

/* Joins or sets one sum, or each of its columns in a separate loop. */
static void add_set(Arena *arena, FormBlock *block, const FormNode *sum, const Term *const pair[2],
                    Reduction reduces, FormLayout layout) {
    const Term *terms[2] = {pair[0], pair[1]};
    if (sum->size) {
        FormNode *columns = form_add_loop(arena, block, T_INT, "j", sum->size);
        columns->layout = layout;
        block = &columns->body;
        for (int i = 0; i < 2; i++) terms[i] = term_element(arena, terms[i], columns->name);
    }
    FormNode *set = form_add(arena, block, FORM_SET);
    set->values[0] = terms[0];
    set->values[1] = terms[1];
    set->reduces = reduces;
}

/* A sum, its name in a chunk, and the array of all chunks. */
typedef struct Chunked {
    const FormNode *sum;
    const Term *inside, *parts;
} Chunked;

static List chunked_sums(Arena *arena, FormBlock *block, const FormBlock *sums, long chunks) {
    List list = {0};
    for (const FormNode *sum = sums->first; sum; sum = sum->next) {
        if (sum->kind != FORM_LET) continue;
        Chunked *chunked = arena_alloc(arena, sizeof *chunked);
        const char *tensor = sum->name->variable->tensor->name;
        *chunked =
            (Chunked){sum, term_variable(arena, T_F32, arena_format(arena, "%s_sum", tensor)),
                      term_variable(arena, T_F32, arena_format(arena, "%s_parts", tensor))};
        FormNode *let = form_add(arena, block, FORM_LET);
        let->name = chunked->parts;
        let->rows = sum->size ? chunks : 0;
        let->size = sum->size ? sum->size : chunks;
        list_push(arena, &list, chunked);
    }
    return list;
}

/* Sums one chunk of the loop. */
static void add_chunk(Arena *arena, FormNode *chunk, const FormBlock *sums, const List *chunked,
                      FormNode *loop) {
    const Term *number = chunk->name, *size = loop->values[1];
    const Term *each =
        term_whole(arena, (loop->iterations + chunk->iterations - 1) / chunk->iterations);
    FormBlock inside = form_copy(arena, sums);
    form_append(&chunk->body, &inside);
    FormNode *end = form_add(arena, &chunk->body, FORM_LET);
    end->constant = true;
    end->name = term_variable_of(arena, loop->name, "_to");
    const Term *next = term(arena, TERM_ADD, number, term_whole(arena, 1));
    end->values[0] = term(arena, TERM_LEAST, term(arena, TERM_MUL, next, each), size);
    loop->values[0] = term(arena, TERM_MUL, number, each);
    loop->values[1] = end->name;
    form_append(&chunk->body, &(FormBlock){.first = loop, .last = loop});
    LIST_EACH(const Chunked, one, chunked) {
        const Term *part = term_element(arena, one->parts, number);
        add_set(arena, &chunk->body, one->sum, (const Term *[]){part, one->sum->name}, REDUCE_NONE,
                ON_SAME_LINE);
    }
    LIST_EACH(const Chunked, one, chunked)
        form_rename(arena, chunk->body.first, one->sum->name, one->inside);
}

/* Sums each chunk, then the chunks in order. */
static void add_chunks(Arena *arena, FormBlock *block, FormBlock *sums, FormNode *loop) {
    long chunks = loop->iterations < CHUNKS ? loop->iterations : CHUNKS;
    List chunked = chunked_sums(arena, block, sums, chunks);
    FormNode *chunk = form_add_loop(arena, block, T_I64, "chunk", chunks);
    chunk->iterations = chunks;
    add_chunk(arena, chunk, sums, &chunked, loop);
    chunk->iterations = 0; /* it only moves results */
    chunk->run = RUN_PARALLEL;
    form_append(block, sums);
    FormNode *all = form_add_loop(arena, block, T_I64, "chunk", chunks);
    LIST_EACH(const Chunked, one, &chunked) {
        const Term *part = term_element(arena, one->parts, all->name);
        add_set(arena, &all->body, one->sum, (const Term *[]){one->sum->name, part},
                one->sum->reduces, ON_NEXT_LINE);
    }
}

/* ---- a whole kernel ---- */

/* True if the number of iterations is known only at run time. */
static bool has_unknown_count(const FormNode *loop) {
    return loop->values[1]->op == TERM_NAME;
}

static void share_out(Arena *arena, FormNode *loop, int length) {
    if (length > 1 || !is_innermost(&loop->body)) {
        collapse(arena, loop, length);
        return;
    }
    if (loop->iterations > 1) loop->run = RUN_PARALLEL;
    if (has_unknown_count(loop)) loop->alone = MAX_ALONE;
}

/* True for the sums of the loop and their initial values. */
static bool belongs_to_sums(const FormBlock *sums, const FormNode *node) {
    if (node->kind == FORM_LET) return node->reduces != REDUCE_NONE;
    return sums->first && node->kind == FORM_FOR && node->layout == ON_SAME_LINE;
}

void parallel(Arena *arena, KernelForm *form, const Target *target) {
    FormNode *node = form->block.first, *next;
    FormBlock *block = &form->block, sums = {0};
    if (target->launches || form->work < target->small_work) return;
    *block = (FormBlock){.outer = block->outer};
    for (; node; node = next) {
        FormBlock one = {.first = node, .last = node};
        List parts = {0};
        next = node->next;
        node->next = NULL;
        if (belongs_to_sums(&sums, node)) {
            form_append(&sums, &one);
            continue;
        }
        int length = node->kind == FORM_FOR ? chain_length(node) : 0;
        if (node->kind == FORM_FOR && !node->run && length == 0 && sums.first &&
            only_sums(arena, &node->body, &sums, &parts)) {
            add_chunks(arena, block, &sums, node);
            continue;
        }
        if (length > 0) share_out(arena, node, length);
        form_append(block, &sums);
        form_append(block, &one);
    }
    form_append(block, &sums);
}
