/* operand_formats: rounds the operands of products with parameters to a small number format.
 *
 * Needs:   products, `head` of parameters. In GRAPH_DECODE it runs before values of weights alone
 *          are prepared.
 * Leaves:  equations that round both operands of every product with a parameter and of every
 *          product that adds to the gradient of one. Rounding has no gradient of its own: it comes
 *          after differentiation (straight-through).
 *
 *     y[b,s,f] = sum[d] x[b,s,d] * up[d,f]
 *
 *     most[b,s] = max[d] abs(x[b,s,d])
 *     scale[b,s] = e8m0(most[b,s]) / 128                                     the same for up:
 *     x_fp8[b,s,d] = e4m3(x[b,s,d] / scale[b,s]) * scale[b,s]           -->  over d, for each f
 *     y[b,s,f] = sum[d] x_fp8[b,s,d] * up_fp8[d,f]
 *
 * The terms of a sum share a scale, or blocks of them do. bf16 holds the rounded operands, except
 * those of `ternary`, exactly. Left as they are: parameters of the head, products that a selection
 * depends on, and operands whose sum runs over dispatched rows.
 */
#include "analysis/contraction.h"
#include "analysis/reach.h"
#include "base/must.h"
#include "passes.h"

#include <string.h>

/* How the scale of a group follows from its elements. POWER: the power of two with which no element
 * exceeds the format. SHARED: half of it, and larger elements become the largest number, as in the
 * formats of OCP. SMALL: a number of E4M3 times a power of two that all groups of a sum share.
 * MEAN: the mean absolute value of the operand. */
typedef enum ScaleRule { SCALE_NONE, SCALE_POWER, SCALE_SHARED, SCALE_SMALL, SCALE_MEAN } ScaleRule;

/* OP_FLOOR rounds to integers. power: the largest power of two of the format. */
typedef struct ElementFormat {
    ScaleRule rule; /* NONE: not rounded */
    OpCode op;
    double power, most;
} ElementFormat;

enum { WHOLE_SUM = 0, WHOLE_OPERAND = -1 };

struct OperandFormats {
    const char *name;
    ElementFormat value, parameter, gradient;
    long block; /* terms of a sum that share a scale; or WHOLE_SUM, WHOLE_OPERAND */
};

#define E4M3(rule)                                                                                 \
    { SCALE_##rule, OP_E4M3, 256, 448 }
#define E5M2(rule)                                                                                 \
    { SCALE_##rule, OP_E5M2, 32768, 57344 }
#define E2M1(rule)                                                                                 \
    { SCALE_##rule, OP_E2M1, 4, 6 }
static const OperandFormats formats[] = {
    {"fp8", E4M3(POWER), E4M3(POWER), E5M2(POWER), WHOLE_SUM},
    {"fp8_tensor", E4M3(POWER), E4M3(POWER), E5M2(POWER), WHOLE_OPERAND},
    {"mxfp8", E4M3(SHARED), E4M3(SHARED), E4M3(SHARED), 32},
    {"mxfp4", E2M1(SHARED), E2M1(SHARED), E2M1(SHARED), 32},
    {"nvfp4", E2M1(SMALL), E2M1(SMALL), E2M1(SMALL), 16},
    {"ternary", {SCALE_POWER, OP_FLOOR, 128, 127}, {SCALE_MEAN, OP_FLOOR, 1, 1}, {0}, WHOLE_SUM},
};

const OperandFormats *operand_formats_find(const char *name) {
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(name, formats[i].name)) return &formats[i];
    return NULL;
}

bool operand_formats_are(const OperandFormats *one, const char *weights) {
    return strncmp(one->name, weights, strlen(weights)) == 0;
}

bool operand_formats_are_coarse(const OperandFormats *one) {
    return one->parameter.op == OP_E2M1 || one->parameter.op == OP_FLOOR;
}

/* ---- the equations of one operand ---- */

/* A rounded operand of a statement that other statements of the block can read. */
typedef struct RoundedOperand {
    const ElementFormat *format;
    Expr *source;            /* reads the exact values by `loops` */
    Index *loops[MAX_LOOPS]; /* the dimensions of `rounded` */
    bool summed[MAX_LOOPS];  /* by dimension */
    int rank, blocked;       /* blocked: the summed dimension that is cut into blocks */
    Tensor *rounded;
} RoundedOperand;

typedef struct Rounding {
    Program *program;
    const OperandFormats *formats;
    const bool *gradients; /* by id of a tensor that the pass found */
    List before;           /* Statement *: of the current block so far */
    List rounded;          /* RoundedOperand *: of the current block */
    Statement *statement;
} Rounding;

static Expr *rounding_apply(const Rounding *all, OpCode op, Expr *a, Expr *b) {
    return expr_apply(all->program, op, a, b, NULL);
}

static Expr *rounding_number(const Rounding *all, double value) {
    return expr_number(all->program, value);
}

/* Defines a tensor over these indices before the statement. */
static Tensor *define_before(Rounding *all, const RoundedOperand *operand, const char *suffix,
                             Index *const *dims, int rank, Reduction reduction,
                             Index *const *reduced, int reduced_count, Expr *value) {
    Program *program = all->program;
    Block made = {0};
    Tensor *tensor = tensor_over(
        program, arena_format(program->arena, "%s_%s", operand->source->tensor->name, suffix),
        ROLE_TEMP, TYPE_REAL, dims, rank, all->statement->span);
    Statement *statement =
        statement_loop(program, &made, expr_read_indices(program, tensor, dims), false, reduction,
                       reduced, reduced_count, value, all->statement->span);
    statement->application = all->statement->application;
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i]->axis->kind == AXIS_ROWS) statement->bound = all->statement->bound;
    list_push(program->arena, &all->before, statement);
    return tensor;
}

/* The indices of the scales: those of the operand that no sum runs over, and of the blocks. */
typedef struct ScaleShape {
    Index *dims[MAX_LOOPS], *reduced[MAX_LOOPS];
    Expr *at[MAX_LOOPS]; /* of an element: the subscripts of its scale */
    int rank, reduced_count;
    Expr *source; /* reads the elements by both */
} ScaleShape;

static void keep_dimension(const Rounding *all, ScaleShape *shape, Index *loop) {
    shape->at[shape->rank] = expr_index(all->program, loop);
    shape->dims[shape->rank++] = loop;
}

static ScaleShape scale_shape(const Rounding *all, const RoundedOperand *operand, long block) {
    ScaleShape shape = {.source = operand->source};
    Program *program = all->program;
    for (int i = 0; i < operand->rank; i++) {
        Index *loop = operand->loops[i];
        const long size = loop->axis->size;
        const bool whole = block == WHOLE_OPERAND || block == WHOLE_SUM || size <= block;
        if (block != WHOLE_OPERAND && !operand->summed[i]) {
            keep_dimension(all, &shape, loop);
        } else if (block > 0 && i != operand->blocked) {
            keep_dimension(all, &shape, loop);
        } else if (whole) {
            shape.reduced[shape.reduced_count++] = loop;
        } else {
            Axis *blocks = axis_new(program, arena_format(program->arena, "%s_block", loop->name),
                                    (size + block - 1) / block, AXIS_PLAIN, loop->axis->span);
            Axis *terms = axis_new(program, arena_format(program->arena, "%s_term", loop->name),
                                   block, AXIS_PLAIN, loop->axis->span);
            Index *at = index_over(program, blocks), *term = index_over(program, terms);
            Expr *element = rounding_apply(all, OP_ADD,
                                           rounding_apply(all, OP_MUL, expr_index(program, at),
                                                          rounding_number(all, (double)block)),
                                           expr_index(program, term));
            shape.at[shape.rank] =
                rounding_apply(all, OP_FLOOR,
                               rounding_apply(all, OP_DIV, expr_index(program, loop),
                                              rounding_number(all, (double)block)),
                               NULL);
            shape.dims[shape.rank++] = at;
            shape.reduced[shape.reduced_count++] = term;
            shape.source = expr_substitute(program, operand->source, &loop, &element, 1);
        }
    }
    return shape;
}

/* The smallest scale of a group without elements; products with it are not subnormal. */
#define LEAST_SIZE 0x1p-96

/* The largest magnitude of each group. */
static Tensor *group_most(Rounding *all, const RoundedOperand *operand, const ScaleShape *shape) {
    return define_before(all, operand, "most", shape->dims, shape->rank, REDUCE_MAX, shape->reduced,
                         shape->reduced_count, rounding_apply(all, OP_ABS, shape->source, NULL));
}

/* The power of two with which no element exceeds the format, for groups of this magnitude. */
static Expr *power_scale(Rounding *all, Expr *size, double factor) {
    return rounding_apply(
        all, OP_MUL,
        rounding_apply(all, OP_E8M0,
                       rounding_apply(all, OP_MAX, size, rounding_number(all, LEAST_SIZE)), NULL),
        rounding_number(all, factor));
}

/* Of the power of two that groups share: a magnitude is below 2048 of them, a scale below 342. */
#define SMALL_FACTOR 0x1p-10

/* A number of E4M3 times a power of two that all groups of a sum share. */
static Expr *small_scale(Rounding *all, const RoundedOperand *operand, const ScaleShape *shape,
                         Expr *most) {
    const ElementFormat *format = operand->format;
    const ScaleShape sum = scale_shape(all, operand, WHOLE_SUM);
    Index *groups[MAX_LOOPS];
    Expr *subs[MAX_LOOPS], *common = most;
    int count = 0, group_count = 0;
    for (int i = 0; i < shape->rank; i++) {
        bool of_sum = false;
        for (int j = 0; j < sum.rank; j++) of_sum |= shape->dims[i] == sum.dims[j];
        if (of_sum)
            subs[count++] = expr_index(all->program, shape->dims[i]);
        else
            groups[group_count++] = shape->dims[i];
    }
    MUST(count == sum.rank);
    if (group_count)
        common = expr_read(all->program,
                           define_before(all, operand, "sum_most", sum.dims, sum.rank, REDUCE_MAX,
                                         groups, group_count, most),
                           subs);
    Tensor *scale = define_before(all, operand, "common_scale", sum.dims, sum.rank, REDUCE_NONE,
                                  NULL, 0, power_scale(all, common, SMALL_FACTOR));
    Expr *shared = expr_read(all->program, scale, subs),
         *size = rounding_apply(
             all, OP_DIV, most,
             rounding_apply(all, OP_MUL, rounding_number(all, format->most), shared)),
         *small = rounding_apply(all, OP_MAX, rounding_apply(all, OP_E4M3, size, NULL),
                                 rounding_number(all, 0x1p-9));
    return rounding_apply(all, OP_MUL, small, shared);
}

static Expr *mean_scale(Rounding *all, const RoundedOperand *operand, const ScaleShape *shape) {
    Tensor *sum =
        define_before(all, operand, "sum", shape->dims, shape->rank, REDUCE_SUM, shape->reduced,
                      shape->reduced_count, rounding_apply(all, OP_ABS, shape->source, NULL));
    double elements = 1;
    for (int i = 0; i < shape->reduced_count; i++)
        elements *= (double)shape->reduced[i]->axis->size;
    Expr *mean = rounding_apply(all, OP_MUL, expr_read_indices(all->program, sum, shape->dims),
                                rounding_number(all, 1 / elements));
    return rounding_apply(all, OP_MAX, mean, rounding_number(all, LEAST_SIZE));
}

/* An element in units of its scale, rounded. */
static Expr *rounded_units(const Rounding *all, const ElementFormat *format, Expr *units) {
    if (format->op != OP_FLOOR) return rounding_apply(all, format->op, units, NULL);
    Expr *nearest = rounding_apply(
        all, OP_FLOOR, rounding_apply(all, OP_ADD, units, rounding_number(all, 0.5)), NULL);
    return rounding_apply(all, OP_MAX,
                          rounding_apply(all, OP_MIN, nearest, rounding_number(all, format->most)),
                          rounding_number(all, -format->most));
}

/* Only while training do positions share a scale: otherwise a later one would change an earlier. */
static long block_of(const Rounding *all, const RoundedOperand *operand) {
    const long block = all->formats->block;
    if (operand->format->rule == SCALE_MEAN) return WHOLE_OPERAND;
    return block == WHOLE_OPERAND && all->program->graph != GRAPH_TRAIN &&
                   operand->format == &all->formats->value
               ? WHOLE_SUM
               : block;
}

static void define_rounded(Rounding *all, RoundedOperand *operand) {
    const ElementFormat *format = operand->format;
    const double factor = (format->rule == SCALE_POWER ? 2 : 1) / format->power;
    const long block = block_of(all, operand);
    const ScaleShape shape = scale_shape(all, operand, block);
    Expr *value;
    if (format->rule == SCALE_MEAN) {
        value = mean_scale(all, operand, &shape);
    } else {
        Expr *most = expr_read_indices(all->program, group_most(all, operand, &shape), shape.dims);
        value = format->rule == SCALE_SMALL ? small_scale(all, operand, &shape, most)
                                            : power_scale(all, most, factor);
    }
    Tensor *scale =
        define_before(all, operand, "scale", shape.dims, shape.rank, REDUCE_NONE, NULL, 0, value);
    Tensor *inverse =
        define_before(all, operand, "inverse", shape.dims, shape.rank, REDUCE_NONE, NULL, 0,
                      rounding_apply(all, OP_DIV, rounding_number(all, 1),
                                     expr_read_indices(all->program, scale, shape.dims)));
    Expr *units = rounding_apply(all, OP_MUL, operand->source,
                                 expr_read(all->program, inverse, (Expr *const *)shape.at));
    operand->rounded = define_before(
        all, operand, all->formats->name, operand->loops, operand->rank, REDUCE_NONE, NULL, 0,
        rounding_apply(all, OP_MUL, rounded_units(all, format, units),
                       expr_read(all->program, scale, (Expr *const *)shape.at)));
    operand->rounded->small = true;
}

/* ---- operands ---- */

static bool is_summed_loop(const Statement *statement, const Index *loop) {
    return !expr_uses_index(statement->target, loop);
}

/* Adds a dimension for a subscript of the operand. False: its sum runs over dispatched rows. */
static bool add_dimension(const Rounding *all, RoundedOperand *operand, const Expr *read,
                          int dimension, Expr **source, Expr **from) {
    Program *program = all->program;
    const Statement *statement = all->statement;
    Expr *sub = read->args[dimension];
    Axis *axis = read->tensor->axes[dimension];
    Index *loop = sub_loop(sub, axis), *made;
    bool uses = false, summed = false;
    for (int i = 0; i < statement->loop_count; i++) {
        if (!expr_uses_index(sub, statement->loops[i])) continue;
        uses = true;
        summed |= is_summed_loop(statement, statement->loops[i]);
    }
    if (!uses && !expr_has_reads(sub)) return true;
    if (summed && (!loop || loop->axis->kind == AXIS_ROWS)) return false;
    made = index_new(program, axis->name, loop ? loop->axis : axis);
    Expr *index = expr_index(program, made);
    source[dimension] = loop ? expr_substitute(program, sub, &loop, &index, 1) : index;
    from[operand->rank] = loop ? expr_index(program, loop) : sub;
    if (summed && loop == statement->loops[statement->loop_count - 1])
        operand->blocked = operand->rank;
    operand->summed[operand->rank] = summed;
    operand->loops[operand->rank++] = made;
    return true;
}

static bool same_operand(const RoundedOperand *one, const RoundedOperand *other) {
    bool same = one->format == other->format && one->rank == other->rank &&
                one->blocked == other->blocked &&
                expr_matches(one->source, one->loops, other->source, other->loops, one->rank);
    for (int i = 0; i < one->rank && same; i++) same = one->summed[i] == other->summed[i];
    return same;
}

static const ElementFormat *format_of(const Rounding *all, const Tensor *tensor) {
    const ElementFormat *format = tensor->role == ROLE_PARAMETER ? &all->formats->parameter
                                  : all->gradients[tensor->id]   ? &all->formats->gradient
                                                                 : &all->formats->value;
    return format->rule == SCALE_NONE ? NULL : format;
}

/* The read of the rounded operand, or NULL if it stays. */
static Expr *rounded_read(Rounding *all, const Expr *read) {
    Program *program = all->program;
    Expr *source[MAX_RANK], *from[MAX_LOOPS];
    RoundedOperand *operand = arena_alloc(program->arena, sizeof *operand);
    operand->format = format_of(all, read->tensor);
    operand->blocked = -1;
    if (!operand->format || read->tensor->type != TYPE_REAL) return NULL;
    for (int i = 0; i < read->count; i++) {
        source[i] = read->args[i];
        if (!add_dimension(all, operand, read, i, source, from)) return NULL;
    }
    operand->source = expr_read(program, read->tensor, source);
    RoundedOperand *known = NULL;
    for (int i = 0; i < all->rounded.count && !known; i++) {
        known = all->rounded.items[i];
        if (!same_operand(known, operand)) known = NULL;
    }
    if (!known) {
        define_rounded(all, operand);
        list_push(program->arena, &all->rounded, operand);
        known = operand;
    }
    Expr *made = expr_read(program, known->rounded, from);
    made->span = read->span;
    return made;
}

/* ---- products ---- */

static bool is_rounded_parameter(const Tensor *tensor) {
    return tensor->role == ROLE_PARAMETER && !tensor->head;
}

static bool is_rounded_product(const Rounding *all, const Statement *statement, const Expr *a,
                               const Expr *b) {
    const Tensor *target = statement->target->tensor;
    if (statement->exact || !statement->product) return false;
    return is_rounded_parameter(a->tensor) || is_rounded_parameter(b->tensor) ||
           (target->role == ROLE_GRADIENT && is_rounded_parameter(target->of) &&
            all->formats->gradient.rule != SCALE_NONE);
}

static void round_operands(Rounding *all, Statement *statement) {
    Expr *a, *b;
    if (statement->kind != STATEMENT_LOOP || !product_of_reads(statement, &a, &b) ||
        !is_rounded_product(all, statement, a, b))
        return;
    all->statement = statement;
    Expr *one = rounded_read(all, a), *other = rounded_read(all, b);
    if (!one && !other) return;
    Expr *value = expr_apply(all->program, OP_MUL, one ? one : a, other ? other : b, NULL);
    value->span = statement->value->span;
    statement->value = value;
    find_product(all->program, statement);
}

static void round_block(Rounding *all, Block *block) {
    Rounding inner = {
        .program = all->program, .formats = all->formats, .gradients = all->gradients};
    LIST_EACH(Statement, statement, &block->statements) {
        if (!statement_is_scan(statement)) round_block(&inner, &statement->body);
        round_operands(&inner, statement);
        list_push(all->program->arena, &inner.before, statement);
    }
    block->statements = inner.before;
}

/* Reports processes that divide the sequences: each would have other scales. */
static bool refuses_mesh(Program *program) {
    if (program->mesh[MESH_DATA] <= 1) return false;
    report_invalid(
        program->reports, (Span){0},
        "set train.gradient_accumulation_steps to a multiple of the "
        "number of processes",
        "train.precision = %s cannot divide the sequences of a micro-batch over processes",
        program->formats->name);
    return true;
}

void operand_formats(Program *program) {
    Rounding all = {.program = program, .formats = program->formats};
    if (!program->formats || refuses_mesh(program)) return;
    all.gradients = gradient_values(program);
    mark_exact(program, true);
    round_block(&all, &program->body);
    program->has[HAS_OPERAND_FORMATS] = true;
}
