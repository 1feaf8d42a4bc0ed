/* lower_device_rows: products of single rows and matrices as one launch of the template in
 * kernels/cuda/product_row.cuh. A block selects its product by its number. With a prologue, the
 * row `a` is a function, which computes it in shared memory.
 *
 *     if (blockIdx.x < 16)
 *         moec_row_by_matrix<...>(blockIdx.x, ..., a, b, [&](...) { q[column] = sum; });
 *     else
 *         moec_row_by_matrix<...>(blockIdx.x - 16, ..., a, b_2, [&](...) { k[column] = sum; });
 */
#include "lower/lower_entry.h"

/* Tiles of one row: threads required by the template; the widest and the narrowest tile; minimum
 * number of blocks while tiles can be made narrower. */
enum { ROW_BREADTH = 64, MIN_BREADTH = 16, ROW_BLOCKS = 128 };

Tile row_tile(EntryLowering *lowering, const ScheduleUnit *unit, long columns) {
    Arena *arena = lowering->lower.arena;
    const Contraction *contraction = unit->contraction;
    const bool along = contraction->product.b_k == 1;
    long breadth = ROW_BREADTH;
    while (!along && breadth > MIN_BREADTH && ceil_div(columns, breadth) < ROW_BLOCKS) breadth /= 2;
    return (Tile){.template = template_of(arena, "MoecTileRow", unit->paired_row ? "tnbn" : "tnb",
                                          contraction->b->tensor, breadth, along, 2L),
                  .name = arena_format(arena, "row_%ld%s", breadth, along ? "_along" : ""),
                  .bounds = "MOEC_ROW_GROUPED_BOUNDS",
                  .height = 1,
                  .breadth = breadth,
                  .single = true,
                  .threads = MOEC_ROW_THREADS};
}

/* Rows that share a launch. */
typedef struct Rows {
    TemplateVariant *variant; /* the parameters of its operands come first */
    Kernel *all;              /* their prologue and stores, for lookups */
    long columns, blocks;     /* blocks so far */
} Rows;

/* An operand, which becomes a parameter at its first use. */
static const Term *row_operand(EntryLowering *lowering, const Expr *read, const char *wanted,
                               Rows *rows) {
    Arena *arena = lowering->lower.arena;
    const Term *address = pointer_term(&lowering->lower, read);
    const List *params = &rows->variant->params;
    LIST_EACH(const Param, known, params)
        if (term_equal(known->address, address)) return term_name(arena, known->type, known->name);
    Param param = {.kind = PARAM_OPERAND,
                   .type = element_type(read->tensor),
                   .name = bind_name(&lowering->lower, NULL, wanted),
                   .address = address};
    add_param(arena, &rows->variant->params, param);
    return term_name(arena, param.type, param.name);
}

/* A call for the next blocks. */
static void put_row(EntryLowering *lowering, const ScheduleUnit *unit, Rows *rows, bool last,
                    const Term *const operands[3]) {
    Arena *arena = lowering->lower.arena;
    const Contraction *contraction = unit->contraction;
    const ScheduleUnit *dual = unit->paired_row;
    const Product *product = &contraction->product;
    const Tile tile = row_tile(lowering, unit, rows->columns);
    const Role role = contraction->b->tensor->role;
    const bool along = product->b_k == 1, fixed = role == ROLE_PARAMETER || role == ROLE_ROUNDED;
    const long sizes[] = {product->n, product->k, along ? product->b_n : product->b_k};
    const Term *block = term(arena, TERM_BLOCK_NUMBER), *own = block;
    if (rows->blocks) own = term(arena, TERM_SUB, block, term_whole(arena, rows->blocks));
    rows->blocks += ceil_div(product->n, tile.breadth);
    TemplateCall call = {
        .blocks = last ? NULL : term(arena, TERM_LT, block, term_whole(arena, rows->blocks)),
        .function = template_of(arena, dual ? "moec_row_by_matrices" : "moec_row_by_matrix", "cbb",
                                tile.template, along, fixed)};
    list_push(arena, &call.stores,
              add_store(lowering, unit->epilogue, 0, 1, dual ? dual->statement : NULL));
    add_template_argument(arena, &call.arguments, own);
    for (int i = 0; i < 3; i++)
        add_template_argument(arena, &call.arguments, term_whole(arena, sizes[i]));
    for (int i = 0; i < (dual ? 3 : 2); i++)
        add_template_argument(arena, &call.arguments, operands[i]);
    add_template_argument(arena, &call.arguments, NULL);
    add_template_call(arena, rows->variant, call);
}

/* The index of the row in shared memory among the locals. */
static int shared_row(const Kernel *kernel) {
    int at = 0;
    while (!((const Local *)kernel->locals.items[at])->operand) at++;
    return at;
}

/* The first block stores the row for later launches. */
static void store_row(Lowering *lower, const Tensor *tensor, const Term *row, long size) {
    Arena *arena = lower->arena;
    const bool rounds = tensor->type == TYPE_BF16;
    const Term *part = bind_variable(lower, NULL, "part"), *value = term_element(arena, row, part);
    lower->used[tensor->id] = lower->written[tensor->id] = true;
    lower_if(lower, term(arena, TERM_EQ, term(arena, TERM_BLOCK_NUMBER), whole(lower, 0)),
             ON_NEXT_LINE);
    lower_shared(lower, part, whole(lower, size), BY_THREADS);
    FormNode *store = lower_join(lower, term_element(arena, array_term(lower, tensor), part),
                                 REDUCE_NONE, rounds ? term(arena, TERM_LOAD, value) : value);
    store->stores = true;
    store->rounds = rounds;
    lower_end(lower);
    lower_end(lower);
}

/* Every block computes the row. Returns the name of the function. */
static const Term *put_prologue(EntryLowering *lowering, const Kernel *kernel, Rows *rows) {
    Lowering *lower = &lowering->lower;
    LoopKernel *loops = arena_alloc(lower->arena, sizeof *loops);
    const int at = shared_row(rows->all);
    const Local *local = rows->all->locals.items[at];
    const Term *row = lower->locals[at];
    lower->block = &loops->form.block;
    lower_device_block(lower, kernel->root);
    if (local->stored) store_row(lower, local->tensor, row, local->size);
    loops->launch = (Launch){1, MOEC_ROW_THREADS};
    loops->inside = true;
    add_loops(lowering, loops, "row");
    rows->variant->prologue = loops;
    rows->variant->row = row;
    return rows->variant->make_row =
               term_name(lower->arena, row->type, bind_name(lower, NULL, "a"));
}

/* One kernel for the sizes of the rows: a block selects its row by its number. */
void lower_device_rows(EntryLowering *lowering, const List *units, int first, int count) {
    Arena *arena = lowering->lower.arena;
    int bindings = lowering->lower.binding_count;
    const Kernel *prologue = ((const ScheduleUnit *)units->items[first])->prologue;
    TemplateVariant variant = {.ending = "", .bounds = "MOEC_ROW_BOUNDS"};
    Rows rows = {.variant = &variant, .all = arena_alloc(arena, sizeof *rows.all)};
    const Term *(*operands)[3] = arena_alloc(arena, (size_t)count * sizeof *operands);
    if (prologue) merge_kernel(arena, rows.all, prologue);
    for (int i = 0; i < count; i++) {
        const ScheduleUnit *unit = units->items[first + i];
        merge_kernel(arena, rows.all, unit->epilogue);
        rows.columns += unit->contraction->product.n;
        if (!prologue) operands[i][0] = row_operand(lowering, unit->contraction->a, "a", &rows);
        operands[i][1] = row_operand(lowering, unit->contraction->b, "b", &rows);
        if (unit->paired_row)
            operands[i][2] = row_operand(lowering, unit->paired_row->contraction->b, "b", &rows);
    }
    begin_kernel(&lowering->lower, rows.all);
    const Term *row = prologue ? put_prologue(lowering, prologue, &rows) : NULL;
    for (int i = 0; i < count; i++) {
        if (prologue) operands[i][0] = row;
        put_row(lowering, units->items[first + i], &rows, i == count - 1, operands[i]);
    }
    end_stores(lowering, &variant.params, bindings);
    TemplateKernel kernel = {
        .name = device_kernel(lowering, arena_format(arena, "row_%s_%d", lowering->entry->name,
                                                     lowering->entry->kernels++))};
    add_statements(arena, rows.all, NULL, &kernel.statements);
    add_variant(arena, &kernel, variant);
    add_template_kernel(lowering, kernel);
    add_launch(lowering, kernel.name, (Launch){rows.blocks, MOEC_ROW_THREADS}, &variant.params);
}
