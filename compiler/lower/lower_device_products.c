/* lower_device_products: products as launches of the templates in kernels/cuda/product.cuh;
 * those over dispatched rows with epilogues.
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
#include "lower/lower_entry.h"

#include <string.h>

/* Threads of a block, as required by the templates; maximum blocks of a launch. */
enum {
    WIDE = 256,
    FEW_ROWS = 64 /* dispatched rows that are few */
};

/* ---- tiles ---- */

/* Tiles match the size of the product, to keep most of each tile in use. A warpgroup has 64 rows
 * and at least as many columns; for less than half of 64 by 64 it is too large. */
static Tile stored_tile(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    bool across = weight && product->b_k == 1;
    long rows = weight ? contraction->relation->rows->size / product->batch[0] : product->k;
    long height = rows > 64 ? 128 : 64, breadth = product->n > 64 ? 128 : 64;
    Tile tile = {.template = template_of(lowering->lower.arena, "MoecTileStored", "nnbb", height,
                                         breadth, weight, across),
                 .name = arena_format(lowering->lower.arena, "%ldx%ld%s", height, breadth,
                                      across ? "_across" : ""),
                 .bounds =
                     unit->accumulated_product ? "MOEC_STORED_TWICE_BOUNDS" : "MOEC_STORED_BOUNDS",
                 .height = height,
                 .breadth = breadth,
                 .threads = MOEC_TILE_THREADS};
    if (lowering->module->hosting != TARGET_STANDALONE && (height > 64 || breadth > 64))
        tile.wgmma = template_of(lowering->lower.arena, "MoecTileWgmma", "nnbb", height, breadth,
                                 weight, across);
    if (tile.wgmma && height > 64 && breadth > 64)
        tile.wide = template_of(lowering->lower.arena, "MoecTileWgmma", "nnbb", 128L, (long)WIDE,
                                weight, across);
    return tile;
}

static const TemplateInstance exact_template = {.name = "MoecTileExact"},
                              rounded_template = {.name = "MoecTileRounded"};
static const Tile exact_tile = {
    &exact_template, "exact", "MOEC_TILE_THREADS", 64, 64, NULL, NULL, true, MOEC_TILE_THREADS};
static const Tile rounded_tile = {
    &rounded_template, "rounded", "MOEC_TILE_THREADS", 128, 128, NULL, NULL, false,
    MOEC_TILE_THREADS};

/* True if there are so few rows that hardly two of them share a weight. */
static bool has_few_rows(const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    long rows = contraction->relation->rows->size;
    return contraction->kind == CONTRACTION_ROWS_BY_WEIGHT && !unit->accumulated_product &&
           rows <= FEW_ROWS && rows <= product->batch[0] && product->a_type == product->b_type &&
           product->rounded == (product->a_type == TYPE_BF16) &&
           fits_row_kernel(contraction, product->a_m);
}

static Tile tile_of(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Contraction *contraction = unit->contraction;
    if (has_few_rows(unit))
        return row_tile(lowering, unit, contraction->relation->rows->size * contraction->product.n);
    if (!contraction->product.rounded) return exact_tile;
    if (lies_in_vectors(contraction->a) && lies_in_vectors(contraction->b))
        return stored_tile(lowering, unit);
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

/* Scales of blocks need registers: such a tile has fewer rows. */
static Tile units_tile(EntryLowering *lowering, const Product *product) {
    const long block = product->scales.block;
    const long height = product->m > 64 && !block ? 128 : 64, breadth = product->n > 64 ? 128 : 64;
    return (Tile){
        .template =
            template_of(lowering->lower.arena, "MoecTileUnits", "nnn", height, breadth, block),
        .name = arena_format(lowering->lower.arena, "units_%ldx%ld_%ld", height, breadth, block),
        .bounds = "MOEC_STORED_TWICE_BOUNDS",
        .height = height,
        .breadth = breadth,
        .threads = MOEC_TILE_THREADS};
}

static Tile dense_tile(EntryLowering *lowering, const Contraction *contraction) {
    const Product *product = &contraction->product;
    bool along[2] = {product->a_k == 1, product->b_k == 1};
    if (contraction->a_scale) return units_tile(lowering, product);
    if (!product->rounded) return exact_tile;
    if (!begins_in_vectors(contraction, contraction->a, along[0] ? product->a_m : product->a_k,
                           product->a_batch) ||
        !begins_in_vectors(contraction, contraction->b, along[1] ? product->b_n : product->b_k,
                           product->b_batch))
        return rounded_tile;
    long height = product->m > 64 ? 128 : 64, breadth = product->n > 64 ? 128 : 64;
    return (Tile){template_of(lowering->lower.arena, "MoecTileStored", "nnbb", height, breadth,
                              along[0], along[1]),
                  arena_format(lowering->lower.arena, "%ldx%ld%s%s", height, breadth,
                               along[0] ? "" : "_down", along[1] ? "_across" : ""),
                  "MOEC_STORED_BOUNDS",
                  height,
                  breadth,
                  NULL,
                  NULL,
                  false,
                  MOEC_TILE_THREADS};
}

/* The name of the kernel of all products of one kind, after the types of their operands, with this
 * ending; true if it is new. */
static bool names_new_kernel(EntryLowering *lowering, const Contraction *contraction,
                             const char *ending, Text *name) {
    const Expr *const operands[] = {contraction->a, contraction->b, contraction->c};
    const int count = lowering->module->device_kernels.count;
    for (int i = 0; i < 3; i++) {
        const Type type = operands[i]->tensor->type;
        if (type == TYPE_BF16) text_add(name, "_%c", "abc"[i]);
        if (unit_type(type)) text_add(name, "_%s", unit_type(type)->name);
    }
    text_add(name, "%s", ending);
    device_kernel(lowering, name->text);
    return lowering->module->device_kernels.count > count;
}

/* The kernel of all dense products of one kind, for hosts without a library. */
static const char *dense_kernel(EntryLowering *lowering, const Contraction *contraction,
                                const Tile *tile) {
    static const char *const names[] = {"a", "b", "c"};
    const Expr *const operands[] = {contraction->a, contraction->b, contraction->c};
    Text name = {.arena = lowering->lower.arena};
    text_add(&name, "dense_%s", tile->name);
    if (!names_new_kernel(lowering, contraction, "", &name)) return name.text;
    Arena *arena = lowering->lower.arena;
    TemplateVariant variant = {.ending = "", .bounds = tile->bounds};
    add_param(arena, &variant.params,
              (Param){.kind = PARAM_RECORD, .record = "MoecProduct", .name = "product"});
    add_param(arena, &variant.params,
              (Param){.kind = PARAM_RECORD, .record = "MoecEpilogue", .name = "epilogue"});
    for (int i = 0; i < 3; i++)
        add_param(arena, &variant.params,
                  (Param){.kind = PARAM_OPERAND,
                          .type = element_type(operands[i]->tensor),
                          .name = names[i],
                          .written = i == 2});
    TemplateCall call = {
        .function = template_of(arena, contraction->a_scale ? "moec_dense_units" : "moec_dense",
                                "c", tile->template)};
    add_params_as_arguments(arena, &variant.params, &call.arguments);
    add_template_call(arena, &variant, call);
    TemplateKernel kernel = {.name = name.text, .signals = true, .first_line = 2};
    add_variant(arena, &kernel, variant);
    add_template_kernel(lowering, kernel);
    return name.text;
}

/* Adds the kernel for the entries of the product in the table. */
static void add_own(EntryLowering *lowering, const ScheduleUnit *unit, const char *kernel) {
    const Contraction *contraction = unit->contraction;
    const Expr *operands[] = {contraction->a, contraction->b, contraction->c,
                              unit->add,      unit->bias,     unit->kept};
    MoecOwnProduct *own = arena_alloc(lowering->lower.arena, sizeof *own);
    *own = (MoecOwnProduct){device_kernel_number(lowering->module, kernel), 16};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        const long alignment =
            operands[i] ? place_alignment(&lowering->lower, operands[i]) : own->alignment;
        if (alignment < own->alignment) own->alignment = (int)alignment;
    }
    while (lowering->module->own_products.count < lowering->module->products.count)
        list_push(lowering->lower.arena, &lowering->module->own_products, own);
}

void lower_device_dense(EntryLowering *lowering, const ScheduleUnit *unit, HostStep *step) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    const Tile tile = dense_tile(lowering, contraction);
    step->product.own = dense_kernel(lowering, contraction, &tile);
    add_own(lowering, unit, step->product.own);
    long tiles = ceil_div(product->m, tile.height) * ceil_div(product->n, tile.breadth) *
                 product->batch[0] * product->batch[1];
    step->product.blocks = launch_of(tiles, 0).blocks;
}

/* ---- kernels over dispatched rows ---- */

/* The names of the operands of a product and of its groups; of its maps. */
enum { GROUPED, GROUP, A_GATHER, B_GATHER, A, B, A_MAP, B_MAP, NAMES };
static const char *const plain_names[NAMES] = {"grouped", "group", "a_gather", "b_gather",
                                               "a",       "b",     "a_map",    "b_map"};
static const char *const more_names[NAMES] = {"more",          "more_group", "more_gather",
                                              "more_b_gather", "more_a",     "more_b",
                                              "more_a_map",    "more_b_map"};

/* The maps of a variant as parameters. */
static void put_maps(Arena *arena, const char *const names[NAMES], List *params) {
    for (int i = A_MAP; i <= B_MAP; i++)
        add_param(arena, params, (Param){.kind = PARAM_MAP, .name = names[i]});
}

/* The kernel of a product. */
typedef struct GroupedKernel {
    const ScheduleUnit *unit;
    const Tile *tile;
    const char *const *names; /* NAMES */
    List operands;            /* Param *: of its products */
    List params;              /* Param *: of its store */
    TemplateStore *store;
} GroupedKernel;

/* A variant with this tile. boxed: its operands arrive in boxes. */
static void add_tile(Arena *arena, TemplateKernel *kernel, const GroupedKernel *grouped,
                     const TemplateInstance *tile, TemplateVariant variant, bool boxed) {
    const ScheduleUnit *unit = grouped->unit;
    const bool second = unit->accumulated_product != NULL;
    TemplateCall call = {0};
    List maps = {0};
    list_push(arena, &call.stores, grouped->store);
    if (boxed) put_maps(arena, grouped->names, &maps);
    if (boxed && second) put_maps(arena, more_names, &maps);
    call.function = template_of(
        arena,
        arena_format(arena, "moec_by_%s%s%s",
                     unit->contraction->kind == CONTRACTION_ROWS_BY_WEIGHT ? "weight" : "rows",
                     second ? "_twice" : "", boxed ? "_boxed" : ""),
        "c", tile);
    add_params_as_arguments(arena, &grouped->operands, &call.arguments);
    add_params_as_arguments(arena, &maps, &call.arguments);
    add_template_argument(arena, &call.arguments, NULL);
    const List *parts[] = {&grouped->operands, &grouped->params, &maps};
    for (int i = 0; i < 3; i++) list_append(arena, &variant.params, parts[i]);
    add_template_call(arena, &variant, call);
    add_variant(arena, kernel, variant);
}

static void add_kernel(EntryLowering *lowering, TemplateKernel kernel,
                       const GroupedKernel *grouped) {
    Arena *arena = lowering->lower.arena;
    const Tile *tile = grouped->tile;
    const bool wide = tile->wide && (!grouped->unit->epilogue ||
                                     grouped->unit->contraction->product.n > tile->breadth);
    add_tile(arena, &kernel, grouped, tile->template,
             (TemplateVariant){.ending = "", .bounds = tile->bounds}, false);
    if (tile->wgmma)
        add_tile(arena, &kernel, grouped, tile->wgmma,
                 (TemplateVariant){.ending = "_wgmma", .bounds = "MOEC_STORED_BOUNDS"}, true);
    if (wide)
        add_tile(arena, &kernel, grouped, tile->wide,
                 (TemplateVariant){.ending = "_wide", .bounds = "MOEC_STORED_TWICE_BOUNDS"}, true);
    kernel.signals = true;
    add_template_kernel(lowering, kernel);
}

/* ---- stores of a kernel ---- */

void put_written(EntryLowering *lowering, const Expr *target, long count, bool rounded,
                 List *written) {
    list_copy(lowering->lower.arena, written,
              &(Written){.address = pointer_term(&lowering->lower, target),
                         .count = count,
                         .type = target->tensor->type,
                         .rounded = rounded},
              sizeof(Written));
}

/* The elements from the one where all loops are 0. False if they are not contiguous in the order of
 * the loops. */
static bool put_target(EntryLowering *lowering, const Statement *statement, bool rounded,
                       List *written) {
    long strides[MAX_LOOPS], count = 1;
    if (!strides_of(statement->target, statement->loops, statement->loop_count, strides))
        return false;
    for (int i = 0; i < statement->loop_count; i++)
        count += (statement->loops[i]->axis->size - 1) * strides[i];
    put_written(lowering, statement->target, count, rounded, written);
    return true;
}

bool put_targets(EntryLowering *lowering, const Kernel *epilogue, bool rounded, List *written) {
    for (int i = 0; i < epilogue->members.count; i++) {
        const Statement *statement = ((Member *)epilogue->members.items[i])->statement;
        if (lowering->lower.written[statement->target->tensor->id] &&
            !put_target(lowering, statement, rounded, written))
            return false;
    }
    return true;
}

static void put_result(EntryLowering *lowering, const Contraction *contraction, List *written) {
    const Product *product = &contraction->product;
    bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    long rows = weight ? contraction->relation->rows->size : product->k;
    long groups = weight ? 0 : (product->batch[0] - 1) * product->c_batch[0];
    put_written(lowering, contraction->c, groups + (rows - 1) * product->c_m + product->n, false,
                written);
}

/* ---- products over dispatched rows ---- */

/* The kernel of all products of one kind without an epilogue. */
static const char *plain_kernel(EntryLowering *lowering, GroupedKernel *grouped) {
    Arena *arena = lowering->lower.arena;
    const ScheduleUnit *unit = grouped->unit;
    const Contraction *contraction = unit->contraction;
    Text name = {.arena = arena};
    text_add(&name, "rows_by_%s_%s",
             contraction->kind == CONTRACTION_ROWS_BY_WEIGHT ? "weight" : "rows",
             grouped->tile->name);
    add_param(arena, &grouped->params,
              (Param){.kind = PARAM_OPERAND,
                      .type = element_type(contraction->c->tensor),
                      .written = true,
                      .name = "c",
                      .address = pointer_term(&lowering->lower, contraction->c)});
    if (!names_new_kernel(lowering, contraction, unit->accumulated_product ? "_twice" : "", &name))
        return name.text;
    grouped->store =
        plain_store(lowering, "MoecPlainStore", contraction->c,
                    term_name(arena, T_I64, grouped->names[GROUPED]), term_name(arena, T_F32, "c"));
    add_kernel(lowering, (TemplateKernel){.name = name.text}, grouped);
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
static const char *own_kernel(EntryLowering *lowering, GroupedKernel *grouped) {
    Arena *arena = lowering->lower.arena;
    Kernel *epilogue = grouped->unit->epilogue;
    /* A loop of one iteration is not written: for a single row all loops belong to the column. */
    int rows = grouped->unit->contraction->relation->rows->size > 1;
    int width = store_width(epilogue, grouped->tile, rows);
    TemplateStore *store = store_of(lowering, epilogue, rows, width, &grouped->params);
    if (width > 1) store->object = template_of(arena, "moec_in_lanes", "n", (long)width);
    grouped->store = store;
    TemplateKernel kernel = {
        .name = device_kernel(lowering, arena_format(arena, "product_%s_%d", lowering->entry->name,
                                                     lowering->entry->kernels++))};
    add_statements(arena, epilogue, NULL, &kernel.statements);
    add_kernel(lowering, kernel, grouped);
    return kernel.name;
}

static void put_table(EntryLowering *lowering, List *params, const char *name,
                      const Tensor *table) {
    if (table) lowering->lower.used[table->id] = true;
    add_param(lowering->lower.arena, params,
              (Param){.kind = PARAM_OPERAND,
                      .type = T_I32,
                      .name = name,
                      .address = table ? array_term(&lowering->lower, table) : NULL});
}

/* Sizes, rows and operands of a product; the groups once. */
static void put_product(EntryLowering *lowering, const ScheduleUnit *unit,
                        const char *const names[NAMES], bool groups, List *params) {
    Arena *arena = lowering->lower.arena;
    const Contraction *contraction = unit->contraction;
    const bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    const Tensor *weights = weight ? contraction->gather_b : NULL;
    if (weights) lowering->lower.used[weights->id] = true;
    add_param(arena, params,
              (Param){.kind = PARAM_GROUPED,
                      .name = names[GROUPED],
                      .product = unit,
                      .address = weights ? array_term(&lowering->lower, weights) : NULL});
    if (groups) put_table(lowering, params, names[GROUP], contraction->relation->group);
    put_table(lowering, params, names[A_GATHER], contraction->gather);
    if (!weight) put_table(lowering, params, names[B_GATHER], contraction->gather_b);
    /* b first: see set_product in lower_units.c. */
    const Expr *const reads[] = {contraction->b, contraction->a};
    const Term *addresses[2];
    for (int i = 0; i < 2; i++) addresses[i] = pointer_term(&lowering->lower, reads[i]);
    for (int i = 1; i >= 0; i--)
        add_param(arena, params,
                  (Param){.kind = PARAM_OPERAND,
                          .type = element_type(reads[i]->tensor),
                          .name = names[i ? A : B],
                          .address = addresses[i]});
}

/* ---- products over dispatched rows in several variants ---- */

static void put_matrix(EntryLowering *lowering, const Expr *read, const long shape[5],
                       List *matrices) {
    Matrix matrix = {.address = pointer_term(&lowering->lower, read)};
    memcpy(matrix.shape, shape, sizeof matrix.shape);
    list_copy(lowering->lower.arena, matrices, &matrix, sizeof matrix);
}

/* The operands of a product: dispatched rows and weights, or dispatched rows twice. */
static void put_matrices(EntryLowering *lowering, const ScheduleUnit *unit, List *matrices) {
    const Contraction *contraction = unit->contraction;
    const Product *product = &contraction->product;
    long rows = contraction->relation->rows->size;
    bool along = product->b_k == 1;
    const long left[] = {product->k, rows, 1, product->a_m, 0};
    const long right[] = {product->n, rows, 1, product->b_k, 0};
    const long weights[] = {along ? product->k : product->n, along ? product->n : product->k,
                            product->batch[0], along ? product->b_n : product->b_k,
                            product->b_batch[0]};
    put_matrix(lowering, contraction->a, left, matrices);
    put_matrix(lowering, contraction->b,
               contraction->kind == CONTRACTION_ROWS_BY_WEIGHT ? weights : right, matrices);
    if (unit->accumulated_product) put_matrices(lowering, unit->accumulated_product, matrices);
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

void add_launch_variant(EntryLowering *lowering, LaunchStep *step, Launch launch, long shared) {
    const MoecKernelVariant variant = {(unsigned)launch.blocks, (unsigned)launch.threads,
                                       (unsigned)shared};
    if (!step->variants.count) step->shared = shared; /* that of the first one */
    list_copy(lowering->lower.arena, &step->variants, &variant, sizeof variant);
}

void lower_device_grouped(EntryLowering *lowering, const ScheduleUnit *unit) {
    Arena *arena = lowering->lower.arena;
    Kernel *epilogue = unit->epilogue;
    const Contraction *contraction = unit->contraction;
    const int bindings = lowering->lower.binding_count;
    List arguments = {0}, written = {0};
    const Tile tile = tile_of(lowering, unit);
    const char *names[NAMES];
    for (int i = 0; i < NAMES; i++)
        names[i] = epilogue ? bind_name(&lowering->lower, NULL, plain_names[i]) : plain_names[i];
    GroupedKernel grouped = {.unit = unit, .tile = &tile, .names = names};
    put_product(lowering, unit, names, true, &grouped.operands);
    if (unit->accumulated_product)
        put_product(lowering, unit->accumulated_product, more_names, false, &grouped.operands);
    const char *kernel =
        epilogue ? own_kernel(lowering, &grouped) : plain_kernel(lowering, &grouped);
    lowering->lower.binding_count = bindings;
    bool known = tile.wgmma && (!epilogue || put_targets(lowering, epilogue, false, &written));
    if (!epilogue) put_result(lowering, contraction, &written);
    list_append(arena, &arguments, &grouped.operands);
    list_append(arena, &arguments, &grouped.params);
    if (known) add_param(arena, &arguments, (Param){.kind = PARAM_MAPS});
    const Launch launch = launch_of(grid_of(contraction, tile.height, tile.breadth), tile.threads);
    LaunchStep *step = add_launch(lowering, kernel, launch, &arguments);
    if (!known) return;
    step->written = written;
    put_matrices(lowering, unit, &step->matrices);
    add_launch_variant(lowering, step, launch, 0);
    add_launch_variant(lowering, step, launch, MOEC_WGMMA_SHARED);
    add_launch_variant(lowering, step,
                       launch_of(grid_of(contraction, tile.height, WIDE), tile.threads),
                       MOEC_WIDE_SHARED);
}
