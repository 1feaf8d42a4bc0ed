/* readers: the statements that read the state after each position, and the terms of a recurrence
 * sorted by the dimensions that they sum over.
 *
 *     o[s,h,c] = sum[e] q[s,h,e] * S[s,h,e,c]      e is summed: its factors are multiplied with q;
 *                                                  c is a column: only the input v[s,h,c] uses it;
 *                                                  h is a head
 */
#include "transform/scan/scan.h"
#include "analysis/access.h"

#include <stdint.h>

static void fail(Recurrence *recurrence, const char *reason) {
    if (!recurrence->reason) recurrence->reason = reason;
}

Dims dims_of(const Recurrence *recurrence, const Expr *expr) {
    Dims dims = 0;
    for (int i = 0; i < recurrence->target->count; i++)
        if (i != recurrence->position && expr_uses_index(expr, recurrence->target->args[i]->index))
            dims |= 1u << i;
    return dims;
}

Dims dims_of_list(const Recurrence *recurrence, const List *factors) {
    Dims dims = 0;
    for (int i = 0; i < factors->count; i++) dims |= dims_of(recurrence, factors->items[i]);
    return dims;
}

/* ---- readers ---- */

/* The read has one loop index per dimension, and the same position of the scan's axis for all. */
static Reader *scan_reader(Recurrence *recurrence, Statement *statement) {
    Program *program = recurrence->program;
    const Tensor *state = recurrence->target->tensor;
    Reader *reader = arena_alloc(program->arena, sizeof *reader);
    Factors factors = {.number = 1};
    *reader = (Reader){.statement = statement, .rest.number = 1};
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_SUM) return NULL;
    multiply_by(program, &factors, statement->value);
    LIST_EACH(Expr, factor, &factors.list) {
        if (!expr_reads(factor, state)) continue;
        if (factor->kind != EXPR_READ || reader->read) return NULL;
        reader->read = factor;
    }
    for (int i = 0; reader->read && i < reader->read->count; i++) {
        const Expr *sub = reader->read->args[i];
        if (sub->kind != EXPR_INDEX || !statement_loops_over(statement, sub->index)) return NULL;
        for (int j = 0; j < i; j++)
            if (expr_equal(sub, reader->read->args[j])) return NULL;
        reader->own[i] = sub->index;
    }
    reader->rest = factors;
    return reader;
}

typedef struct Finding {
    Recurrence *recurrence;
    bool found;
} Finding;

static void find_read(Expr *expr, void *data) {
    Finding *finding = data;
    finding->found |=
        expr->kind == EXPR_READ && expr->tensor == finding->recurrence->target->tensor;
}

static void find_reader(Statement *statement, void *data) {
    Finding *finding = data;
    Recurrence *recurrence = finding->recurrence;
    const List *body = &recurrence->scan->body.statements;
    if (statement == recurrence->scan || statement->kind == STATEMENT_REPEAT) return;
    if (list_find(body, statement) >= 0) return;
    finding->found = false;
    statement_walk(statement, find_read, finding);
    if (!finding->found) return;
    Reader *reader = scan_reader(recurrence, statement);
    bool single = statement->kind == STATEMENT_LOOP && !statement->reduction;
    if (reader)
        list_push(recurrence->program->arena, &recurrence->readers, reader);
    else
        fail(recurrence, single ? "the states are read one by one"
                                : "a reader of the states is not a sum of products");
}

/* The dimensions that a reader sums over. */
static Dims summed_by(const Recurrence *recurrence, const Reader *reader) {
    Dims dims = 0;
    for (int i = 0; i < reader->read->count; i++)
        if (i != recurrence->position &&
            !expr_uses_index(reader->statement->target, reader->own[i]))
            dims |= 1u << i;
    return dims;
}

static bool uses_summed(const Recurrence *recurrence, const Reader *reader, const Expr *expr) {
    for (int i = 0; i < reader->read->count; i++)
        if (recurrence->summed >> i & 1 && expr_uses_index(expr, reader->own[i])) return true;
    return false;
}

/* Factors that use summed dimensions may use no indices other than those of the state. */
static void part_factors(Recurrence *recurrence, Reader *reader) {
    Arena *arena = recurrence->program->arena;
    Factors rest = {.number = reader->rest.number};
    LIST_EACH(Expr, factor, &reader->rest.list) {
        if (factor == reader->read) continue;
        if (is_random(factor)) fail(recurrence, "it uses random numbers");
        bool inside = uses_summed(recurrence, reader, factor);
        list_push(arena, inside ? &reader->inside : &rest.list, factor);
        for (int j = 0; inside && j < reader->statement->loop_count; j++) {
            const Index *loop = reader->statement->loops[j];
            bool own = false;
            for (int k = 0; k < reader->read->count; k++) own |= reader->own[k] == loop;
            if (!own && expr_uses_index(factor, loop))
                fail(recurrence, "a sum over the states has a factor with another index");
        }
    }
    reader->rest = rest;
}

/* The dimensions of the state that the factors inside use. */
static Dims dims_inside(const Recurrence *recurrence, const Reader *reader) {
    Dims dims = 0;
    for (int i = 0; i < reader->inside.count; i++)
        for (int j = 0; j < reader->read->count; j++)
            if (j != recurrence->position &&
                expr_uses_index(reader->inside.items[i], reader->own[j]))
                dims |= 1u << j;
    return dims;
}

/* ---- terms ---- */

static Input sorted(const Recurrence *recurrence, const Factors *factors) {
    Arena *arena = recurrence->program->arena;
    Input input = {.number = factors->number};
    LIST_EACH(Expr, factor, &factors->list) {
        Dims dims = dims_of(recurrence, factor);
        bool summed = dims & recurrence->summed, column = dims & recurrence->columns;
        list_push(arena, summed ? &input.summed : column ? &input.column : &input.scale, factor);
    }
    return input;
}

static bool same_list(const List *a, const List *b) {
    uint64_t taken = 0;
    if (a->count != b->count || a->count > 60) return false;
    for (int i = 0; i < a->count; i++) {
        int j = 0;
        while (j < b->count && (taken >> j & 1 || !expr_equal(a->items[i], b->items[j]))) j++;
        if (j == b->count) return false;
        taken |= (uint64_t)1 << j;
    }
    return true;
}

/* Heads: dimensions used by more than the columns of an input. */
static void find_heads(Recurrence *recurrence) {
    Dims all = (1u << recurrence->target->count) - 1, heads = 0;
    LIST_EACH(const StateTerm, term, &recurrence->terms) {
        for (int j = 0; j < term->factors.list.count; j++) {
            Dims dims = dims_of(recurrence, term->factors.list.items[j]);
            if (dims & recurrence->summed || term->kind == TERM_STATE) heads |= dims;
        }
        if (term->kind == TERM_CORRECTION) {
            heads |= dims_of_list(recurrence, &term->looked.list);
            heads |= dims_of_list(recurrence, &term->factors.list);
        }
    }
    for (int i = 0; i < recurrence->readers.count; i++)
        heads |= dims_inside(recurrence, recurrence->readers.items[i]);
    recurrence->heads = heads & ~recurrence->summed;
    recurrence->columns = all & ~heads & ~recurrence->summed & ~(1u << recurrence->position);
}

static void add_input(Recurrence *recurrence, const StateTerm *term) {
    if (recurrence->input_count == MAX_INPUTS) {
        fail(recurrence, "the input has too many terms");
        return;
    }
    recurrence->inputs[recurrence->input_count++] = sorted(recurrence, &term->factors);
}

/* Adds the correction to the input with the same factors, or as an input of its own. */
static void correct_reader(Recurrence *recurrence, const StateTerm *term) {
    Input correction = sorted(recurrence, &term->factors);
    if (recurrence->corrected >= 0) {
        fail(recurrence, "more than one input is corrected by the state");
        return;
    }
    recurrence->looked = sorted(recurrence, &term->looked);
    for (int i = 0; i < recurrence->input_count; i++) {
        const Input *input = &recurrence->inputs[i];
        if (!same_list(&input->summed, &correction.summed) ||
            !same_list(&input->scale, &correction.scale))
            continue;
        recurrence->corrected = i;
        recurrence->share = correction.number / input->number * recurrence->looked.number;
        return;
    }
    add_input(recurrence, term);
    recurrence->corrected = recurrence->input_count - 1;
    Input *bare = &recurrence->inputs[recurrence->corrected];
    bare->bare = true;
    recurrence->share = bare->number * recurrence->looked.number;
    bare->number = 1;
}

static void sort_terms(Recurrence *recurrence) {
    Program *program = recurrence->program;
    Expr *decay = expr_number(program, 0);
    recurrence->corrected = -1;
    for (int kind = TERM_STATE; kind <= TERM_CORRECTION; kind++)
        LIST_EACH(const StateTerm, term, &recurrence->terms) {
            if ((int)term->kind != kind) continue;
            Expr *product = product_of(program, &term->factors.list);
            Expr *number = expr_number(program, term->factors.number);
            if (kind == TERM_STATE)
                decay = expr_apply(program, OP_ADD, decay,
                                   expr_apply(program, OP_MUL, number, product, NULL), NULL);
            else if (kind == TERM_INPUT)
                add_input(recurrence, term);
            else
                correct_reader(recurrence, term);
        }
    recurrence->decay = expr_is_number(decay, 1) ? NULL : decay;
}

/* All sums must run over the same dimensions, which no other factor distinguishes. */
static void check_dims(Recurrence *recurrence) {
    for (int i = 0; i < recurrence->input_count; i++) {
        const Input *input = &recurrence->inputs[i];
        if (!input->summed.count || (dims_of_list(recurrence, &input->column) & recurrence->summed))
            fail(recurrence, "the input is not an outer product");
    }
    LIST_EACH(const StateTerm, term, &recurrence->terms)
        if (term->kind == TERM_CORRECTION && term->summed != recurrence->summed)
            fail(recurrence, "the correction and the readers sum over different dimensions");
    if (!recurrence->input_count) fail(recurrence, "there is no input");
}

void readers(Recurrence *recurrence) {
    Finding finding = {.recurrence = recurrence};
    if (recurrence->reason) return;
    block_walk(&recurrence->program->body, find_reader, &finding);
    for (int i = 0; i < recurrence->readers.count; i++) {
        Dims dims = summed_by(recurrence, recurrence->readers.items[i]);
        if (i && dims != recurrence->summed)
            fail(recurrence, "the readers sum over different dimensions");
        recurrence->summed = dims;
    }
    if (!recurrence->summed) fail(recurrence, "the states are read one by one");
    if (recurrence->reason) return;
    for (int i = 0; i < recurrence->readers.count; i++)
        part_factors(recurrence, recurrence->readers.items[i]);
    find_heads(recurrence);
    sort_terms(recurrence);
    check_dims(recurrence);
}
