/* interpreter_expr: the values of expressions, a strip of elements at a time. */
#include "interpret/interpreter.h"
#include "base/must.h"

#include <math.h>

/* ---- random numbers: the same bits as moec_uniform of runtime/kernels/prelude.h ---- */

static uint64_t mix_bits(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static double draw_uniform(uint64_t seed, uint64_t counter, uint64_t position) {
    uint64_t z = seed + 0x9E3779B97F4A7C15u * (counter * 0x100000001B3u + position + 1);
    return (double)(mix_bits(mix_bits(z)) >> 40) * 0x1p-24;
}

/* Box-Muller transform; 1 - u is never 0. */
static double draw_normal(uint64_t seed, uint64_t counter, uint64_t position) {
    double radius = draw_uniform(seed, counter, position);
    double angle = draw_uniform(seed, counter ^ 0x5BD1E995u, position);
    return sqrt(-2 * log(1 - radius)) * cos(2 * acos(-1.0) * angle);
}

/* ---- preparing ---- */

static int index_slot(const Interpreter *interpreter, const Index *index) {
    for (int slot = interpreter->slot_count - 1; slot >= 0; slot--)
        if (interpreter->slots[slot] == index) return slot;
    MUST(!"an index that well_formed accepted is not bound");
    return 0;
}

void interpreter_prepare_address(Interpreter *interpreter, ElementAddress *address,
                                 const Expr *read) {
    const Tensor *tensor = read->tensor;
    *address = (ElementAddress){.rounds = tensor->type == TYPE_BF16,
                                .real = interpreter->real[tensor->id],
                                .ints = interpreter->ints[tensor->id]};
    long stride = 1;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        const Expr *sub = read->args[i];
        if (sub->kind == EXPR_NUMBER) {
            address->base += stride * (long)sub->number;
        } else if (sub->kind == EXPR_INDEX) {
            address->slot[address->plain_count] = index_slot(interpreter, sub->index);
            address->stride[address->plain_count++] = stride;
        } else {
            EvalSub *computed = &address->computed[address->computed_count++];
            *computed = (EvalSub){interpreter_prepare_whole(interpreter, sub), stride,
                                  tensor->axes[i]->size};
        }
        stride *= tensor->axes[i]->size;
    }
}

EvalNode *interpreter_prepare(Interpreter *interpreter, const Expr *expr) {
    if (expr_is_exact(expr)) return interpreter_prepare_whole(interpreter, expr);
    EvalNode *node = arena_alloc(interpreter->arena, sizeof *node);
    node->kind = expr->kind;
    node->expr = expr;
    node->op = expr->op;
    if (expr->kind == EXPR_NUMBER)
        for (int i = 0; i < STRIP; i++) node->out[i] = expr->number;
    if (expr->kind == EXPR_INDEX) node->slot = index_slot(interpreter, expr->index);
    if (expr->kind == EXPR_READ) interpreter_prepare_address(interpreter, &node->address, expr);
    if (expr->kind != EXPR_APPLY) return node;
    node->count = expr->count;
    node->decides = interpreter->deciding && interpreter_is_decision(interpreter, expr);
    for (int i = 0; i < expr->count; i++)
        node->args[i] = interpreter_prepare(interpreter, expr->args[i]);
    return node;
}

/* ---- running ---- */

/* The part of the offset without computed subscripts, and its stride along the strip. */
static long plain_offset(const Interpreter *interpreter, const ElementAddress *address,
                         long *step) {
    long offset = address->base;
    *step = 0;
    for (int i = 0; i < address->plain_count; i++) {
        offset += address->stride[i] * interpreter->at[address->slot[i]];
        if (address->slot[i] == interpreter->running) *step += address->stride[i];
    }
    return offset;
}

void interpreter_offsets(Interpreter *interpreter, ElementAddress *address, int count,
                         long *offsets) {
    long step, first = plain_offset(interpreter, address, &step);
    for (int j = 0; j < count; j++) offsets[j] = first + step * j;
    for (int i = 0; i < address->computed_count; i++) {
        const EvalSub *sub = &address->computed[i];
        const int64_t *value = interpreter_whole_strip(interpreter, sub->value, count);
        for (int j = 0; j < count; j++) {
            bool inside = value[j] >= 0 && value[j] < sub->size;
            if (offsets[j] >= 0) offsets[j] = inside ? offsets[j] + sub->stride * value[j] : -1;
        }
    }
}

static void read_strip(Interpreter *interpreter, EvalNode *node, int count) {
    ElementAddress *address = &node->address;
    double *out = node->out;
    if (!address->computed_count) {
        long step, first = plain_offset(interpreter, address, &step);
        if (address->real)
            for (int j = 0; j < count; j++) out[j] = address->real[first + step * j];
        else
            for (int j = 0; j < count; j++) out[j] = (double)address->ints[first + step * j];
        return;
    }
    long offsets[STRIP];
    interpreter_offsets(interpreter, address, count, offsets);
    for (int j = 0; j < count; j++) {
        if (offsets[j] < 0)
            out[j] = 0;
        else
            out[j] = address->real ? address->real[offsets[j]] : (double)address->ints[offsets[j]];
    }
}

static void apply_strip(const Interpreter *interpreter, EvalNode *node, const double *const args[3],
                        int count) {
    double *out = node->out;
    if (!op_is_random(node->op)) {
        op_values(node->op, args, out, count);
        return;
    }
    for (int j = 0; j < count; j++) {
        uint64_t counter = (uint64_t)args[0][j], position = (uint64_t)args[1][j];
        out[j] = node->op == OP_NORMAL ? draw_normal(interpreter->seed, counter, position)
                                       : draw_uniform(interpreter->seed, counter, position);
    }
}

const double *interpreter_strip(Interpreter *interpreter, EvalNode *node, int count) {
    if (node->whole) {
        interpreter_whole_strip(interpreter, node, count);
        for (int j = 0; j < count; j++) node->out[j] = (double)node->whole_out[j];
        return node->out;
    }
    if (node->kind == EXPR_INDEX) {
        long step = node->slot == interpreter->running;
        for (int j = 0; j < count; j++)
            node->out[j] = (double)(interpreter->at[node->slot] + step * j);
    }
    if (node->kind == EXPR_READ) read_strip(interpreter, node, count);
    if (node->scale != 0)
        interpreter_round_all_at(node->out, node->out, (size_t)count, node->scale);
    if (node->kind == EXPR_APPLY) {
        const double *args[3] = {NULL, NULL, NULL};
        for (int i = 0; i < node->count; i++)
            args[i] = interpreter_strip(interpreter, node->args[i], count);
        apply_strip(interpreter, node, args, count);
        if (node->decides) interpreter_decide(interpreter, node, args, count);
        if (interpreter->noise != 0 && op_table[node->op].rounding == OP_ROUNDS)
            interpreter_disturb(interpreter, node->out, count);
    }
    return node->out;
}
