/* emit_cuda_products: products as launches of the templates in runtime/kernels/product.cuh; those
 * over dispatched rows with epilogues.
 *
 *     (* a[r,f] = sum[d] x[r,d] * up[n[r],d,f]
 *        h[r,f] = silu(g[r,f]) * a[r,f] *)
 *     extern "C" __global__ void product_train_3(MoecGroupedOnDevice grouped, ..., float *h)
 *     {
 *         moec_by_weight<MoecTileRounded>(grouped, group, a_gather, a, b,
 *                                         [&](long row, long column, float sum) {
 *             h[row * 64 + column] = moec_silu(g[row * 64 + column]) * sum;
 *         });
 *     }
 *
 * If warpgroups can compute a kernel as well, there are further variants, NAME_wgmma and NAME_wide:
 * the host selects the fastest one. Their last parameters are tensor maps, which the host creates
 * from the operands of the launch. */
#include "codegen/emit.h"

#include <string.h>

/* Threads of a block, as required by the templates; maximum blocks of a launch. */
enum {
    WIDE = 256,
    FEW_ROWS = 64 /* dispatched rows that are few */
};

/* ---- tiles ---- */

/* Tiles match the size of the product, to keep most of each tile in use. A warpgroup has 64 rows
 * and at least as many columns; for less than half of 64 by 64 it is too large. */
static Tile stored_tile(Emitter *emitter, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    bool across = weight && product->b_k == 1;
    long rows = weight ? contraction->relation->rows->size / product->batch[0] : product->k;
    long height = rows > 64 ? 128 : 64, breadth = product->n > 64 ? 128 : 64;
    const char *along = arena_format(emitter->lower.arena, "%s, %s", weight ? "true" : "false",
                                     across ? "true" : "false");
    Tile tile = {.text = arena_format(emitter->lower.arena, "MoecTileStored<%ld, %ld, %s>", height,
                                      breadth, along),
                 .name = arena_format(emitter->lower.arena, "%ldx%ld%s", height, breadth,
                                      across ? "_across" : ""),
                 .bounds =
                     unit->accumulated_product ? "MOEC_STORED_TWICE_BOUNDS" : "MOEC_STORED_BOUNDS",
                 .height = height,
                 .breadth = breadth,
                 .threads = MOEC_TILE_THREADS};
    if (emitter->target->variants && (height > 64 || breadth > 64))
        tile.wgmma = arena_format(emitter->lower.arena, "MoecTileWgmma<%ld, %ld, %s>", height,
                                  breadth, along);
    if (tile.wgmma && height > 64 && breadth > 64)
        tile.wide = arena_format(emitter->lower.arena, "MoecTileWgmma<128, %d, %s>", WIDE, along);
    return tile;
}

static const Tile exact_tile = {
    "MoecTileExact", "exact", "MOEC_TILE_THREADS", 64, 64, NULL, NULL, true, MOEC_TILE_THREADS};
static const Tile rounded_tile = {
    "MoecTileRounded", "rounded", "MOEC_TILE_THREADS", 128, 128, NULL, NULL, false,
    MOEC_TILE_THREADS};

/* True if there are so few rows that hardly two of them share a weight. */
static bool has_few_rows(const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    long rows = contraction->relation->rows->size;
    return contraction->kind == CONTRACTION_ROWS_BY_WEIGHT && !unit->accumulated_product &&
           rows <= FEW_ROWS && rows <= product->batch[0] && product->a_type == product->b_type &&
           product->rounded == (product->a_type == TYPE_BF16) &&
           lines_begin_in_vectors(contraction->a, product->a_m) &&
           lines_begin_in_vectors(contraction->b, product->b_k == 1 ? product->b_n : product->b_k);
}

static Tile tile_of(Emitter *emitter, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    if (has_few_rows(unit))
        return row_tile(emitter, unit, contraction->relation->rows->size * contraction->product.n);
    if (!contraction->product.rounded) return exact_tile;
    if (lies_in_vectors(contraction->a) && lies_in_vectors(contraction->b))
        return stored_tile(emitter, unit);
    return rounded_tile;
}

/* ---- dense products ---- */

/* True if every row of the operand of a dense product is aligned to 16 bytes; across: the stride
 * between its rows. */
static bool begins_in_vectors(const Contraction *contraction, const Expr *read, long across,
                              const long batch[2]) {
    return lies_in_vectors(read) && !contraction->outer_count && across % MOEC_VECTOR == 0 &&
           batch[0] % MOEC_VECTOR == 0 && batch[1] % MOEC_VECTOR == 0;
}

static Tile dense_tile(Emitter *emitter, const Contraction *contraction) {
    const Product *product = &contraction->product;
    bool along[2] = {product->a_k == 1, product->b_k == 1};
    if (!product->rounded) return exact_tile;
    if (!begins_in_vectors(contraction, contraction->a, along[0] ? product->a_m : product->a_k,
                           product->a_batch) ||
        !begins_in_vectors(contraction, contraction->b, along[1] ? product->b_n : product->b_k,
                           product->b_batch))
        return rounded_tile;
    long height = product->m > 64 ? 128 : 64, breadth = product->n > 64 ? 128 : 64;
    return (Tile){arena_format(emitter->lower.arena, "MoecTileStored<%ld, %ld, %s, %s>", height,
                               breadth, along[0] ? "true" : "false", along[1] ? "true" : "false"),
                  arena_format(emitter->lower.arena, "%ldx%ld%s%s", height, breadth,
                               along[0] ? "" : "_down", along[1] ? "_across" : ""),
                  "MOEC_STORED_BOUNDS",
                  height,
                  breadth,
                  NULL,
                  NULL,
                  false,
                  MOEC_TILE_THREADS};
}

/* The kernel of all dense products of one kind, for hosts without a library. */
static const char *dense_kernel(Emitter *emitter, const Contraction *contraction,
                                const Tile *tile) {
    const Tensor *tensors[3] = {contraction->a->tensor, contraction->b->tensor,
                                contraction->c->tensor};
    Text name = {.arena = emitter->lower.arena};
    text_add(&name, "dense_%s", tile->name);
    for (int i = 0; i < 3; i++)
        if (tensors[i]->type == TYPE_BF16) text_add(&name, "_%c", "abc"[i]);
    int count = emitter->module->device_kernels.count;
    device_kernel(emitter, name.text);
    if (emitter->module->device_kernels.count == count) return name.text;
    function_text(emitter,
                  "extern \"C\" __global__ void __launch_bounds__(%s) %s(MoecProduct product, "
                  "MoecEpilogue epilogue,\n        const %s *a, const %s *b, %s *c)\n"
                  "{\n    moec_begin();\n    moec_dense<%s>(product, epilogue, a, b, c);\n}\n\n",
                  tile->bounds, name.text, type_name(tensors[0]), type_name(tensors[1]),
                  type_name(tensors[2]), tile->text);
    end_piece(emitter->module, name.text);
    return name.text;
}

/* Adds the kernel for the entries of the product in the table. */
static void add_own(Emitter *emitter, const ScheduleUnit *unit, const char *kernel) {
    const Contraction *contraction = unit->contraction;
    const Expr *operands[] = {contraction->a, contraction->b, contraction->c,
                              unit->add,      unit->bias,     unit->kept};
    OwnProduct *own = arena_alloc(emitter->lower.arena, sizeof *own);
    *own = (OwnProduct){kernel, 16};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        long alignment =
            operands[i] ? place_alignment(&emitter->lower, operands[i]) : own->alignment;
        if (alignment < own->alignment) own->alignment = alignment;
    }
    while (emitter->module->own_products.count < emitter->module->products.count)
        list_push(emitter->lower.arena, &emitter->module->own_products, own);
}

void emit_cuda_dense(Emitter *emitter, const ScheduleUnit *unit, HostStep *step) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    const Tile tile = dense_tile(emitter, contraction);
    step->product.own = dense_kernel(emitter, contraction, &tile);
    add_own(emitter, unit, step->product.own);
    long tiles = ceil_div(product->m, tile.height) * ceil_div(product->n, tile.breadth) *
                 product->batch[0] * product->batch[1];
    step->product.blocks = launch_of(tiles, 0).blocks;
}

/* ---- kernels over dispatched rows ---- */

/* The first parameters of a kernel, then the maps of its other variants. */
enum { PARAMETERS = 6, NAMES = 8 };
static const char *const parameter_names[NAMES] = {"grouped", "group", "a_gather", "b_gather",
                                                   "a",       "b",     "a_map",    "b_map"};

/* The parts of the kernel of a product. */
typedef struct Body {
    const char *name, *parameters, *store;
    const char *const *names; /* NAMES */
    LoopKernel *loops;        /* of the store, or NULL */
} Body;

/* One of the variants of a kernel. boxed: its operands arrive in boxes. */
typedef struct Variant {
    const char *tile, *ending, *bounds;
    bool boxed;
} Variant;

/* The maps of a variant as parameters and as arguments. */
static void put_maps(const ScheduleUnit *unit, const Body *body, Text *parameters,
                     Text *arguments) {
    const char *names[] = {body->names[PARAMETERS], body->names[PARAMETERS + 1], "more_a_map",
                           "more_b_map"};
    for (int i = 0; i < (unit->accumulated_product ? 4 : 2); i++) {
        text_add(parameters, ", const __grid_constant__ MoecMap %s", names[i]);
        text_add(arguments, "%s, ", names[i]);
    }
}

/* A kernel that calls a template with a store. */
static void add_variant(Emitter *emitter, const ScheduleUnit *unit, const Body *body,
                        Variant variant) {
    const Contraction *contraction = unit->contraction;
    const char *const *names = body->names;
    bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    bool second = unit->accumulated_product != NULL;
    Text tables = {.arena = emitter->lower.arena};
    Text parameters = {.arena = emitter->lower.arena}, maps = {.arena = emitter->lower.arena};
    if (variant.boxed) put_maps(unit, body, &parameters, &maps);
    for (int i = 1; i < (weight ? 3 : 4); i++) text_add(&tables, ", const int32_t *%s", names[i]);
    function_line(
        emitter,
        "extern \"C\" __global__ void __launch_bounds__(%s) "
        "%s%s(MoecGroupedOnDevice %s%s, const %s *%s, const %s *%s, %s%s%s)",
        variant.bounds, body->name, variant.ending, names[0], tables.text,
        type_name(contraction->a->tensor), names[4], type_name(contraction->b->tensor), names[5],
        second ? "MoecGroupedOnDevice more, const int32_t *more_gather, const MoecBf16 *more_a, "
                 "const MoecBf16 *more_b, "
               : "",
        body->parameters, variant.boxed ? parameters.text : "");
    Section *section = function_text(
        emitter,
        "{\n    moec_begin();\n    moec_by_%s%s%s<%s>(%s, %s, %s, %s%s%s, %s, %s%s%s);\n}\n",
        weight ? "weight" : "rows", second ? "_twice" : "", variant.boxed ? "_boxed" : "",
        variant.tile, names[0], names[1], names[2], weight ? "" : names[3], weight ? "" : ", ",
        names[4], names[5], second ? "more, more_gather, more_a, more_b, " : "",
        variant.boxed ? maps.text : "", body->store);
    if (body->loops) list_push(emitter->lower.arena, &section->loops, body->loops);
}

static void add_kernel(Emitter *emitter, const ScheduleUnit *unit, const Tile *tile,
                       const Body *body) {
    const Variant variants[] = {{tile->wgmma, "_wgmma", "MOEC_STORED_BOUNDS", true},
                                {tile->wide, "_wide", "MOEC_STORED_TWICE_BOUNDS", true}};
    add_variant(emitter, unit, body, (Variant){tile->text, "", tile->bounds, false});
    function_text(emitter, "\n");
    end_piece(emitter->module, body->name);
    for (int i = 0; i < 2; i++) {
        if (!variants[i].tile) continue;
        function_text(emitter, "#ifdef MOEC_WGMMA\n");
        add_variant(emitter, unit, body, variants[i]);
        function_text(emitter, "#endif\n\n");
        end_piece(emitter->module, body->name);
    }
}

/* ---- stores of a kernel ---- */

void put_written(Emitter *emitter, const Expr *target, long count, bool rounded, List *written) {
    Written *added = arena_alloc(emitter->lower.arena, sizeof *added);
    *added = (Written){.address = pointer_term(&emitter->lower, target),
                       .count = count,
                       .type = target->tensor->type,
                       .rounded = rounded};
    list_push(emitter->lower.arena, written, added);
}

/* The elements from the one where all loops are 0. False if they are not contiguous in the order of
 * the loops. */
static bool put_target(Emitter *emitter, const Statement *statement, bool rounded, List *written) {
    long strides[MAX_LOOPS], count = 1;
    if (!strides_of(statement->target, statement->loops, statement->loop_count, strides))
        return false;
    for (int i = 0; i < statement->loop_count; i++)
        count += (statement->loops[i]->axis->size - 1) * strides[i];
    put_written(emitter, statement->target, count, rounded, written);
    return true;
}

bool put_targets(Emitter *emitter, const Kernel *epilogue, bool rounded, List *written) {
    for (int i = 0; i < epilogue->members.count; i++) {
        const Statement *statement = ((Member *)epilogue->members.items[i])->statement;
        if (emitter->lower.written[statement->target->tensor->id] &&
            !put_target(emitter, statement, rounded, written))
            return false;
    }
    return true;
}

static void put_result(Emitter *emitter, const Contraction *contraction, List *written) {
    const Product *product = &contraction->product;
    bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    long rows = weight ? contraction->relation->rows->size : product->k;
    long groups = weight ? 0 : (product->batch[0] - 1) * product->c_batch[0];
    put_written(emitter, contraction->c, groups + (rows - 1) * product->c_m + product->n, false,
                written);
}

/* ---- products over dispatched rows ---- */

/* The kernel of all products of one kind without an epilogue. */
static const char *plain_kernel(Emitter *emitter, const ScheduleUnit *unit, const Tile *tile,
                                List *arguments) {
    const Contraction *contraction = unit->contraction;
    const Tensor *tensors[3] = {contraction->a->tensor, contraction->b->tensor,
                                contraction->c->tensor};
    Text name = {.arena = emitter->lower.arena}, parameters = {.arena = emitter->lower.arena};
    text_add(&name, "rows_by_%s_%s",
             contraction->kind == CONTRACTION_ROWS_BY_WEIGHT ? "weight" : "rows", tile->name);
    for (int i = 0; i < 3; i++)
        if (tensors[i]->type == TYPE_BF16) text_add(&name, "_%c", "abc"[i]);
    if (unit->accumulated_product) text_add(&name, "_twice");
    text_add(&parameters, "%s *c", type_name(tensors[2]));
    add_operand_param(emitter, arguments, contraction->c, true);
    int count = emitter->module->device_kernels.count;
    device_kernel(emitter, name.text);
    const Body body = {
        name.text, parameters.text,
        arena_format(emitter->lower.arena, "MoecPlainStore<%s>{grouped, c}", type_name(tensors[2])),
        parameter_names, NULL};
    if (emitter->module->device_kernels.count > count) add_kernel(emitter, unit, tile, &body);
    return name.text;
}

/* The number of adjacent elements of a row per store: each read and write of them is one access.
 * The tile without tensor cores passes single results. */
static int store_width(const Kernel *epilogue, const Tile *tile, int rows) {
    enum { WIDTH = 4 };
    const Nest *nest = epilogue->root;
    int count = 0;
    for (; !((Nest *)nest->children.items[0])->member; count++) nest = nest->children.items[0];
    return !tile->single && count > rows && nest->size % WIDTH == 0 ? WIDTH : 1;
}

/* A separate kernel for a product with an epilogue. */
static const char *own_kernel(Emitter *emitter, const ScheduleUnit *unit, const Tile *tile,
                              Kernel *epilogue, List *arguments) {
    const Contraction *contraction = unit->contraction;
    const char *names[NAMES];
    int bindings = emitter->lower.binding_count;
    for (int i = 0; i < NAMES; i++) names[i] = bind_name(&emitter->lower, NULL, parameter_names[i]);
    /* A loop of one iteration is not written: for a single row all loops belong to the column. */
    int rows = contraction->relation->rows->size > 1;
    int width = store_width(epilogue, tile, rows);
    Functor functor = emit_functor(emitter, epilogue, rows, width);
    if (width > 1)
        functor.text =
            arena_format(emitter->lower.arena, "moec_in_lanes<%d>(%s)", width, functor.text);
    emitter->lower.binding_count = bindings;
    for (int i = 0; i < functor.params.count; i++)
        list_push(emitter->lower.arena, arguments, functor.params.items[i]);
    const char *name =
        device_kernel(emitter, arena_format(emitter->lower.arena, "product_%s_%d",
                                            emitter->entry->name, emitter->entry->kernels++));
    emit_equations_above(emitter, epilogue);
    Tile own = *tile;
    if (contraction->product.n <= tile->breadth) own.wide = NULL;
    add_kernel(emitter, unit, &own,
               &(const Body){
                   name,
                   params_text(emitter->lower.arena, &emitter->target->parameters, &functor.params),
                   functor.text, names, functor.loops});
    return name;
}

static void put_table(Emitter *emitter, List *arguments, const Tensor *table) {
    if (table) emitter->lower.used[table->id] = true;
    add_param(emitter->lower.arena, arguments,
              (Param){.kind = PARAM_OPERAND,
                      .address = table ? array_term(&emitter->lower, table) : NULL});
}

/* Sizes, rows and operands of a product; the groups once. */
static void put_product(Emitter *emitter, const Contraction *contraction, bool groups,
                        List *arguments) {
    bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    add_param(emitter->lower.arena, arguments,
              (Param){.kind = PARAM_GROUPED, .contraction = contraction});
    if (groups) put_table(emitter, arguments, contraction->relation->group);
    put_table(emitter, arguments, contraction->gather);
    if (!weight) put_table(emitter, arguments, contraction->gather_b);
    /* b first: see set_product in emit_units.c. */
    const Term *b = pointer_term(&emitter->lower, contraction->b);
    add_operand_param(emitter, arguments, contraction->a, false);
    add_param(emitter->lower.arena, arguments, (Param){.kind = PARAM_OPERAND, .address = b});
}

/* ---- products over dispatched rows in several variants ---- */

static void put_matrix(Emitter *emitter, const Expr *read, const long shape[5], List *matrices) {
    Matrix *matrix = arena_alloc(emitter->lower.arena, sizeof *matrix);
    matrix->address = pointer_term(&emitter->lower, read);
    memcpy(matrix->shape, shape, sizeof matrix->shape);
    list_push(emitter->lower.arena, matrices, matrix);
}

/* The operands of a product: dispatched rows and weights, or dispatched rows twice. */
static void put_matrices(Emitter *emitter, const ScheduleUnit *unit, List *matrices) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    long rows = contraction->relation->rows->size;
    bool along = product->b_k == 1;
    const long left[] = {product->k, rows, 1, product->a_m, 0};
    const long right[] = {product->n, rows, 1, product->b_k, 0};
    const long weights[] = {along ? product->k : product->n, along ? product->n : product->k,
                            product->batch[0], along ? product->b_n : product->b_k,
                            product->b_batch[0]};
    put_matrix(emitter, contraction->a, left, matrices);
    put_matrix(emitter, contraction->b,
               contraction->kind == CONTRACTION_ROWS_BY_WEIGHT ? weights : right, matrices);
    if (unit->accumulated_product) put_matrices(emitter, unit->accumulated_product, matrices);
}

/* One block per tile: the count that moec_by_weight and moec_by_rows number. */
static long grid_of(const Contraction *contraction, long height, long breadth) {
    const Product *product = &contraction->product;
    long groups = product->batch[0], rows = contraction->relation->rows->size;
    long columns = ceil_div(product->n, breadth), numbers = rows / height + groups;
    return contraction->kind == CONTRACTION_ROWS_BY_WEIGHT
               ? (numbers < rows ? numbers : rows) * columns
               : groups * ceil_div(product->k, height) * columns;
}

void add_launch_variant(Emitter *emitter, LaunchStep *step, Launch launch, const char *shared) {
    LaunchVariant *variant = arena_alloc(emitter->lower.arena, sizeof *variant);
    *variant = (LaunchVariant){launch, shared};
    list_push(emitter->lower.arena, &step->variants, variant);
}

void emit_cuda_grouped(Emitter *emitter, const ScheduleUnit *unit) {
    Kernel *epilogue = unit->epilogue;
    const Contraction *contraction = unit->contraction;
    List arguments = {0}, written = {0};
    const Tile tile = tile_of(emitter, unit);
    put_product(emitter, contraction, true, &arguments);
    if (unit->accumulated_product)
        put_product(emitter, unit->accumulated_product->contraction, false, &arguments);
    const char *kernel = epilogue ? own_kernel(emitter, unit, &tile, epilogue, &arguments)
                                  : plain_kernel(emitter, unit, &tile, &arguments);
    bool known = tile.wgmma && (!epilogue || put_targets(emitter, epilogue, false, &written));
    if (!epilogue) put_result(emitter, contraction, &written);
    if (known) add_param(emitter->lower.arena, &arguments, (Param){.kind = PARAM_MAPS});
    const Launch launch = launch_of(grid_of(contraction, tile.height, tile.breadth), tile.threads);
    LaunchStep *step = add_launch(emitter, kernel, launch, &arguments);
    if (!known) return;
    step->written = written;
    put_matrices(emitter, unit, &step->matrices);
    add_launch_variant(emitter, step, launch, "0");
    add_launch_variant(emitter, step, launch, "MOEC_WGMMA_SHARED");
    add_launch_variant(emitter, step,
                       launch_of(grid_of(contraction, tile.height, WIDE), tile.threads),
                       "MOEC_WIDE_SHARED");
}
