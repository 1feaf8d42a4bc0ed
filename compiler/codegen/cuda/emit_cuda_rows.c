/* emit_cuda_rows: products of single rows and matrices as one launch of the template in
 * runtime/kernels/product_row.cuh. A block selects its product by its number.
 *
 *     if (blockIdx.x < 16)
 *         moec_row_by_matrix<...>(blockIdx.x, ..., a, b, [&](...) { q[column] = sum; });
 *     else
 *         moec_row_by_matrix<...>(blockIdx.x - 16, ..., a, b_2, [&](...) { k[column] = sum; });
 */
#include "codegen/emit.h"

#include <string.h>

/* Tiles of one row: threads required by the template; the widest and the narrowest tile; minimum
 * number of blocks while tiles can be made narrower. */
enum { ROW_BREADTH = 64, MIN_BREADTH = 16, ROW_BLOCKS = 128 };

Tile row_tile(Emitter *emitter, const ScheduleUnit *unit, long columns) {
    const Contraction *contraction = unit->contraction;
    const char *matrices = unit->paired_row ? ", 2" : "";
    bool along = contraction->product.b_k == 1;
    long breadth = ROW_BREADTH;
    while (!along && breadth > MIN_BREADTH && ceil_div(columns, breadth) < ROW_BLOCKS) breadth /= 2;
    return (Tile){
        .text = arena_format(emitter->lower.arena, "MoecTileRow<%s, %ld, %s%s>",
                             type_name(contraction->b->tensor), breadth, along ? "true" : "false",
                             matrices),
        .name = arena_format(emitter->lower.arena, "row_%ld%s", breadth, along ? "_along" : ""),
        .bounds = "MOEC_ROW_GROUPED_BOUNDS",
        .height = 1,
        .breadth = breadth,
        .single = true,
        .threads = MOEC_ROW_THREADS};
}

/* Rows that share a launch: parameters of its kernel, calls of the template, blocks so far. */
typedef struct Rows {
    List params; /* Param *: operands first */
    Text calls;
    List loops;     /* LoopKernel *: of the stores */
    Kernel *stores; /* all of them, for lookups */
    long columns, blocks;
} Rows;

static void add_row_kernel(Arena *arena, Rows *rows, const ScheduleUnit *unit) {
    const Kernel *store = unit->epilogue;
    for (int i = 0; i < store->members.count; i++)
        list_push(arena, &rows->stores->members, store->members.items[i]);
    for (int i = 0; i < store->locals.count; i++)
        list_push(arena, &rows->stores->locals, store->locals.items[i]);
    rows->columns += unit->contraction->product.n;
}

/* The name of an operand, which becomes a parameter at its first use. */
static const char *row_operand(Emitter *emitter, const Expr *read, const char *wanted, Rows *rows) {
    Arena *arena = emitter->lower.arena;
    const Term *address = pointer_term(&emitter->lower, read);
    for (int i = 0; i < rows->params.count; i++) {
        const Param *known = rows->params.items[i];
        if (term_equal(known->address, address)) return known->name;
    }
    const char *name = bind_name(&emitter->lower, NULL, wanted);
    add_param(arena, &rows->params,
              (Param){.kind = PARAM_OPERAND,
                      .type = arena_format(arena, "const %s *", type_name(read->tensor)),
                      .name = name,
                      .address = address});
    return name;
}

/* A call for the next blocks; one of `count` kernels in a launch. */
static void put_row(Emitter *emitter, const ScheduleUnit *unit, Rows *rows, int place, int count,
                    const char *const names[3]) {
    const Contraction *contraction = unit->contraction;
    const ScheduleUnit *dual = unit->paired_row;
    const Product *product = &contraction->product;
    const Tile tile = row_tile(emitter, unit, rows->columns);
    const Role role = contraction->b->tensor->role;
    bool along = product->b_k == 1, fixed = role == ROLE_PARAMETER || role == ROLE_ROUNDED;
    long from = rows->blocks;
    rows->blocks += ceil_div(product->n, tile.breadth);
    if (place) text_add(&rows->calls, "    else");
    if (count > 1 && place < count - 1)
        text_add(&rows->calls, "%sif (blockIdx.x < %ld)", place ? " " : "    ", rows->blocks);
    int indent = count > 1 ? 2 : 1;
    text_add(&rows->calls, "%s%*smoec_row_by_%s<%s, %s, %s>(", count > 1 ? "\n" : "", 4 * indent,
             "", dual ? "matrices" : "matrix", tile.text, along ? "true" : "false",
             fixed ? "true" : "false");
    text_add(&rows->calls, from ? "blockIdx.x - %ld" : "blockIdx.x", from);
    LoopKernel *loops;
    const char *store = store_text(emitter, unit->epilogue,
                                   (Store){0, 1, dual ? dual->statement : NULL, indent}, &loops);
    list_push(emitter->lower.arena, &rows->loops, loops);
    text_add(&rows->calls, ", %ld, %ld, %ld, %s, %s, %s);\n", product->n, product->k,
             along ? product->b_n : product->b_k, names[0],
             dual ? arena_format(emitter->lower.arena, "%s, %s", names[1], names[2]) : names[1],
             store);
}

/* One kernel for the sizes of the rows: a block selects its row by its number. */
void emit_cuda_rows(Emitter *emitter, const List *units, int first, int count) {
    Arena *arena = emitter->lower.arena;
    int bindings = emitter->lower.binding_count;
    Rows rows = {.calls = {.arena = arena}};
    const char *(*names)[3] = arena_alloc(arena, (size_t)count * sizeof *names);
    rows.stores = arena_alloc(arena, sizeof *rows.stores);
    for (int i = 0; i < count; i++) {
        const ScheduleUnit *unit = units->items[first + i];
        add_row_kernel(arena, &rows, unit);
        names[i][0] = row_operand(emitter, unit->contraction->a, "a", &rows);
        names[i][1] = row_operand(emitter, unit->contraction->b, "b", &rows);
        if (unit->paired_row)
            names[i][2] = row_operand(emitter, unit->paired_row->contraction->b, "b", &rows);
    }
    begin_kernel(&emitter->lower, rows.stores);
    for (int i = 0; i < count; i++)
        put_row(emitter, units->items[first + i], &rows, i, count, names[i]);
    const List params = end_stores(emitter, bindings);
    for (int i = 0; i < params.count; i++) list_push(arena, &rows.params, params.items[i]);
    const char *name = device_kernel(
        emitter, arena_format(arena, "row_%s_%d", emitter->entry->name, emitter->entry->kernels++));
    emit_equations_above(emitter, rows.stores);
    function_line(emitter, "extern \"C\" __global__ void __launch_bounds__(MOEC_ROW_BOUNDS) %s(%s)",
                  name, params_text(arena, &emitter->target->parameters, &rows.params));
    function_text(emitter, "{\n%s}\n\n", rows.calls.text)->loops = rows.loops;
    end_piece(emitter->module, name);
    add_launch(emitter, name, (Launch){rows.blocks, MOEC_ROW_THREADS}, &rows.params);
}
