/* smaller_weights: products read parameters from copies with fewer bytes.
 *
 * Needs:   a program without training, with `weights` or `head_weights` set: the types of
 *          inference.weight_dtype and inference.head_dtype. The head are the parameters after whose
 *          products no other parameter is multiplied.
 * Leaves:  reads of ROLE_ROUNDED tensors instead of the parameters that products multiply. Lookup
 *          tables, scales, biases, activations and sums stay f32: the products are exactly those of
 *          the rounded parameters.
 *
 *     y[b,f] = sum[d] x[b,d] * up[d,f]        y[b,f] = sum[d] x[b,d] * up_rounded[d,f]
 *
 * bf16 rounds to 8 binary digits. int8 is -127 .. 127 times a scale: the largest absolute value of
 * a group of INT8_GROUP adjacent elements divided by 127. A product reads whole groups. Parameters
 * stay f32 if their rows in the product are not a multiple of a group, if a selection depends on
 * them, or if they are small; with int8 also if a scan multiplies them.
 *
 * int4 is -8 .. 7 times a binary16 scale that INT4_GROUP terms of a sum share: Q4_0 of GGUF, whose
 * rows are the columns here (interpret_round.c). The copy has the axes of the columns, then those
 * of the sum:
 *
 *     y[b,h,e] = sum[d] x[b,d] * query[d,h,e]     y[b,h,e] = sum[d] x[b,d] * query_rounded[h,e,d]
 *
 * Parameters stay f32 as with int8, if a sum has a rest beyond whole groups, if several matrices
 * begin within a panel of columns, and if they multiply a cached tensor: absorb.c sums over their
 * columns instead.
 *
 * ternary is the same with -1, 0 and 1 times an f32 scale that TERNARY_GROUP terms share. Weights
 * that have these values already stay as they are. fp8, mxfp8, mxfp4 and nvfp4 are the same with
 * the scales and the rounding of operand_formats.c.
 *
 * Prepared tensors (prepare.c) become ternary, the format of the products (train.precision), or
 * else int8: ternary weights are exact multiples of an int8 scale, but int4 has -8 but no 8.
 */
#include "transform/lower/smaller_weights.h"
#include "base/must.h"

#include "analysis/access.h"
#include "analysis/contraction.h"
#include "analysis/parameter_facts.h"
#include "ir/weight_type.h"
#include "passes.h"

#include <string.h>

Tensor *smaller_parameter(Program *program, Tensor *parameter, Type type) {
    LIST_EACH(Tensor, tensor, &program->tensors)
        if (tensor->role == ROLE_ROUNDED && tensor->of == parameter) return tensor;
    MUST(parameter->role == ROLE_PARAMETER);
    Tensor *copy =
        tensor_new(program, arena_format(program->arena, "%s_rounded", parameter->name),
                   ROLE_ROUNDED, type, parameter->rank, parameter->axes, parameter->span);
    copy->of = parameter;
    copy->path = parameter->path;
    return copy;
}

void read_instead(Program *program, Statement *statement, int operand, Expr *read) {
    MUST(statement->value->op == OP_MUL && (operand == 0 || operand == 1));
    Expr *both[2] = {statement->value->args[0], statement->value->args[1]};
    read->span = both[operand]->span;
    both[operand] = read;
    Span span = statement->value->span;
    statement->value = expr_apply(program, OP_MUL, both[0], both[1], NULL);
    statement->value->span = span;
}

static bool is_whole_read(long step) {
    return step % INT8_GROUP == 0;
}

/* True if operand b of the product consists of whole groups: its rows and the strides between
 * them. */
static bool lies_in_groups(const Contraction *found) {
    const Product *product = &found->product;
    bool batches = true;
    for (int i = 0; i < 2; i++)
        batches &= product->batch[i] == 1 || is_whole_read(product->b_batch[i]);
    for (int i = 0; i < found->outer_count; i++) batches = false;
    return batches &&
           (product->b_n == 1 ? is_whole_read(product->n) && is_whole_read(product->b_k)
                              : is_whole_read(product->k) && is_whole_read(product->b_n));
}

/* True if it starts at a group: the axes before those of a row are steps and groups, which are
 * whole. */
static bool begins_with_group(const Expr *read) {
    MUST(read->kind == EXPR_READ);
    long elements = 1;
    for (int i = read->count - 1; i >= 0; i--) {
        const Expr *sub = read->args[i];
        bool plain = sub->kind == EXPR_INDEX || (sub->kind == EXPR_NUMBER && sub->number == 0);
        if (!plain && !is_whole_read(elements)) return false;
        elements *= read->tensor->axes[i]->size;
    }
    return is_whole_read(elements);
}

/* A parameter with fewer elements is not multiplied with a single row by a kernel. Programs of all
 * row counts round the same parameters. */
enum { MIN_ELEMENTS = 256 };

/* ---- types with several columns ---- */

typedef enum Sort { SORT_BATCH, SORT_COLUMN, SORT_SUM, SORTS } Sort;

/* Whether an axis of b is one of the matrices, of their columns or of the sum; SORTS: none. */
static Sort sort_of_axis(const Contraction *found, const Statement *statement, int axis) {
    const Expr *sub = found->b->args[axis];
    for (int i = 0; i < statement->loop_count; i++) {
        const Index *loop = statement->loops[i];
        if (loop->axis->kind == AXIS_ROWS || !expr_uses_index(sub, loop)) continue;
        if (sub->kind != EXPR_INDEX) return SORTS;
        const bool kept = expr_uses_index(found->c, loop);
        return !kept ? SORT_SUM : expr_uses_index(found->a, loop) ? SORT_BATCH : SORT_COLUMN;
    }
    return SORT_BATCH;
}

/* Joins the axes of a sort, which are contiguous in the parameter. */
static bool join_parameter_axes(const Tensor *parameter, const Sort *sorts, Sort sort, long *size,
                                long *stride) {
    long step = 1;
    *size = 1, *stride = 1;
    for (int i = parameter->rank - 1; i >= 0; i--) {
        if (sorts[i] == sort && parameter->axes[i]->size > 1) {
            if (*size == 1) *stride = step;
            if (*stride * *size != step) return false;
            *size *= parameter->axes[i]->size;
        }
        step *= parameter->axes[i]->size;
    }
    return true;
}

/* The matrices of operand b, or NULL if it has none. */
static Matrices *matrices_of(Program *program, const Contraction *found, const Statement *statement,
                             const WeightType *type) {
    const Tensor *parameter = found->b->tensor;
    Sort sorts[MAX_RANK];
    Matrices *made = arena_alloc(program->arena, sizeof *made);
    int count = 0;
    for (int i = 0; i < parameter->rank; i++)
        if ((sorts[i] = sort_of_axis(found, statement, i)) == SORTS) return NULL;
    for (Sort sort = SORT_BATCH; sort < SORTS; sort++)
        for (int i = 0; i < parameter->rank; i++)
            if (sorts[i] == sort) made->order[count++] = i;
    const bool joined =
        join_parameter_axes(parameter, sorts, SORT_BATCH, &made->batch, &made->batch_stride) &&
        join_parameter_axes(parameter, sorts, SORT_COLUMN, &made->n, &made->n_stride) &&
        join_parameter_axes(parameter, sorts, SORT_SUM, &made->k, &made->k_stride);
    return joined && made->k % type->terms == 0 &&
                   (made->batch == 1 || made->n % type->columns == 0)
               ? made
               : NULL;
}

static bool same_matrices(const Matrices *a, const Matrices *b) {
    return a->batch == b->batch && a->n == b->n && a->k == b->k && a->n_stride == b->n_stride &&
           a->k_stride == b->k_stride;
}

static Tensor *packed_parameter(Program *program, Tensor *parameter, Matrices *matrices,
                                const WeightType *type) {
    Tensor *copy = smaller_parameter(program, parameter, type->type);
    if (copy->matrices) return same_matrices(copy->matrices, matrices) ? copy : NULL;
    copy->matrices = matrices;
    for (int i = 0; i < copy->rank; i++) copy->axes[i] = parameter->axes[matrices->order[i]];
    return copy;
}

/* True if the product reads all columns and the whole sum of one matrix at a time. */
static bool reads_matrices(const Contraction *found, const Matrices *matrices) {
    const Product *product = &found->product;
    return found->outer_count == 0 && product->n == matrices->n && product->k == matrices->k &&
           product->b_k == 1 && product->b_n == matrices->k;
}

static void read_packed(Program *program, Statement *statement, const Contraction *found,
                        const WeightType *type) {
    const Expr *read = found->b;
    Expr *const former = statement->value;
    const int operand = former->args[1] == read;
    Matrices *matrices = matrices_of(program, found, statement, type);
    if (!matrices || read->tensor->of_cached || found->product.n != matrices->n ||
        found->product.k != matrices->k)
        return;
    Tensor *copy = packed_parameter(program, read->tensor, matrices, type);
    if (!copy) return;
    Expr *subs[MAX_RANK];
    for (int i = 0; i < copy->rank; i++) subs[i] = read->args[matrices->order[i]];
    read_instead(program, statement, operand, expr_read(program, copy, subs));
    const Contraction *made = unit_product(program, statement);
    if (made && reads_matrices(made, matrices))
        program->has[type->form] = true;
    else
        statement->value = former;
}

/* ---- all types ---- */

static Type type_of_prepared(const Program *program, Type wanted) {
    const bool of_products =
        program->formats && operand_formats_are(program->formats, real_type_name(wanted));
    return wanted == TYPE_REAL || wanted == TYPE_BF16 || wanted == TYPE_TERNARY || of_products
               ? wanted
               : TYPE_INT8;
}

static void read_smaller(Program *program, Statement *statement, bool in_scan) {
    if (statement->kind != STATEMENT_LOOP || statement->exact) return;
    const Contraction *found = unit_product(program, statement);
    if (!found || found->kind == CONTRACTION_ROWS_BY_ROWS) return;
    const Expr *read = found->b;
    if (read->tensor->role != ROLE_PARAMETER) return;
    Type wanted = read->tensor->head ? program->head_weights : program->weights;
    if (read->tensor->prepared) wanted = type_of_prepared(program, wanted);
    if (wanted == TYPE_REAL || (in_scan && wanted != TYPE_BF16)) return;
    const WeightType *type = weight_type(wanted);
    if (found->product.n * found->product.k < MIN_ELEMENTS) return;
    if (type->columns > 1) {
        read_packed(program, statement, found, type);
        return;
    }
    if (wanted == TYPE_INT8 && !(lies_in_groups(found) && begins_with_group(read))) return;
    int operand = statement->value->args[1] == read;
    Tensor *copy = smaller_parameter(program, read->tensor, wanted);
    program->has[type->form] = true;
    read_instead(program, statement, operand, expr_read(program, copy, read->args));
}

/* The body of a scan is loops without product kernels. Loops read bf16, but not int8. */
static void shrink_block(Program *program, Block *block, bool in_scan) {
    LIST_EACH(Statement, statement, &block->statements) {
        bool scan = statement_is_scan(statement);
        shrink_block(program, &statement->body, in_scan || scan);
        if (scan) scan_operands(program, statement);
        read_smaller(program, statement, in_scan);
    }
}

void smaller_weights(Program *program) {
    if (!reads_copies(program)) return;
    mark_exact(program, false);
    shrink_block(program, &program->body, false);
}

static void mark_of_cached(Statement *statement, void *data) {
    Expr *a, *b;
    (void)data;
    if (statement->kind != STATEMENT_LOOP || !product_of_reads(statement, &a, &b)) return;
    a->tensor->of_cached |= b->tensor->cached;
    b->tensor->of_cached |= a->tensor->cached;
}

/* ---- the head ---- */

typedef struct HeadSearch {
    Program *program;
    bool *before; /* by tensor id: the product of a parameter is computed from it */
    bool changed;
} HeadSearch;

/* Whether the read is that of a matrix in a product, not of rows that a token selects. */
static bool is_matrix_read(const Expr *read) {
    for (int i = 0; i < read->count; i++)
        if (expr_has_reads(read->args[i])) return false;
    return read->tensor->role == ROLE_PARAMETER && read->tensor->facts &&
           read->tensor->facts->product;
}

static bool leads_to_product(const HeadSearch *search, const Statement *statement) {
    bool leads = statement->kind == STATEMENT_LOOP && statement->target &&
                 search->before[statement->target->tensor->id];
    for (int i = 0; i < statement->outputs.count; i++)
        leads |= search->before[((const Expr *)statement->outputs.items[i])->tensor->id];
    return leads;
}

static void mark_before(Statement *statement, void *data) {
    HeadSearch *search = data;
    List reads = {0};
    if (statement->kind == STATEMENT_REPEAT || statement_is_scan(statement)) return;
    reads_of(search->program->arena, statement, &reads);
    bool leads = leads_to_product(search, statement);
    for (int i = 0; i < reads.count; i++) leads |= is_matrix_read(reads.items[i]);
    for (int i = 0; leads && i < reads.count; i++) {
        const Tensor *tensor = ((const Expr *)reads.items[i])->tensor;
        search->changed |= !search->before[tensor->id];
        search->before[tensor->id] = true;
    }
}

/* A parameter is not of the head if a product of it leads to another one. */
static void mark_head(Statement *statement, void *data) {
    const HeadSearch *search = data;
    List reads = {0};
    if (statement->kind == STATEMENT_REPEAT || statement_is_scan(statement)) return;
    reads_of(search->program->arena, statement, &reads);
    LIST_EACH(const Expr, read, &reads)
        if (is_matrix_read(read)) read->tensor->head &= !leads_to_product(search, statement);
}

void find_head(Program *program) {
    HeadSearch search = {.program = program};
    search.before =
        arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *search.before);
    do {
        search.changed = false;
        block_walk(&program->body, mark_before, &search);
    } while (search.changed);
    LIST_EACH(Tensor, tensor, &program->tensors) tensor->head = tensor->role == ROLE_PARAMETER;
    block_walk(&program->body, mark_head, &search);
}

/* ---- options ---- */

static Type type_of_weights(const char *name) {
    for (int i = 0; name && i < weight_type_count; i++)
        if (!strcmp(name, weight_types[i].name)) return weight_types[i].type;
    return TYPE_REAL;
}

static bool has_integers(Type type) {
    return type != TYPE_REAL && type != TYPE_BF16;
}

static bool has_columns(Type type) {
    return has_integers(type) && weight_type(type)->columns > 1;
}

void choose_weights(Program *program, const char *weights, const char *head) {
    if (program->graph == GRAPH_TRAIN || program->graph == GRAPH_UPDATE) return;
    const Type body = type_of_weights(weights),
               last = head && strcmp(head, "same") != 0 ? type_of_weights(head) : body;
    const bool integers = has_integers(body) || has_integers(last);
    if (program->rounded && !integers) return; /* products are of bf16 */
    program->weights = body;
    program->head_weights = last;
    if (integers) program->rounded = false;
    if (has_columns(body) || has_columns(last)) block_walk(&program->body, mark_of_cached, NULL);
    if (body != last) find_head(program);
}

bool weights_fit(const Program *program, Reports *reports) {
    if (!reads_copies(program)) return true;
    if (reports->errors) return false;
    const bool body = program->weights != TYPE_REAL;
    const char *option = body ? "weight_dtype" : "head_dtype";
    report_error(reports, (Span){0}, "inference.%s = %s is available on CPUs only", option,
                 real_type_name(body ? program->weights : program->head_weights));
    return report_help(
        reports,
        "add --set inference.%s=f32; on a GPU train.precision = bf16 halves the bytes of "
        "the weights",
        option);
}
