/* attend_lower_device: attention as launches of the templates in runtime/kernels, instantiated for
 * its sizes.
 *
 *     struct options_train_3 {
 *         static constexpr long batch = 2, queries = 1024, keys = 1024;
 *         ...
 *     };
 *     extern "C" __global__ void attend_train_3(const MoecBf16 *q, ..., float *o, float *lse)
 *     {
 *         moec_attend_rounded<options_train_3, MoecShape<2, 32, 69632>>(q, k, v, ...);
 *     }
 *
 * If warpgroups can compute it as well, there are further variants, NAME_wgmma and NAME_wide: the
 * host selects the fastest one. */
#include "analysis/attend.h"
#include "calls/attend/attend_row.h"
#include "lower/lower_entry.h"

#include <string.h>

/* Minimum queries or keys of a block of the exact templates. */
enum {
    MIN_PLACES = 8,
    MAX_PARTS = 64,
    MAX_TASKS = 4096,
    STEP_BLOCKS = 384,
    STEP_PARTS = 128,
    STEP_KEYS = 64 /* minimum keys of a part */
};

/* An attention under construction. */
typedef struct Attend {
    EntryLowering *lowering;
    const Statement *statement;
    Kernel *epilogue; /* see ScheduleUnit */
    Kernel *const *elements;
    const char *options; /* name of the struct */
    CallShape q, k, v;
    long batch;
    bool rounds;
} Attend;

static bool steps_in_tiles(const Attend *attend) {
    return attend->statement->attention.position && attend->rounds;
}

/* Blocks of a step in tiles per part of the keys. */
static long step_tasks(const Attend *attend) {
    long groups = attend_groups(attend->statement),
         rows = 16L * attend_step(attend->statement).tiles;
    long heads = size_at(&attend->q, 2) / groups;
    return attend->batch * groups * ceil_div(heads * size_at(&attend->q, 3), rows);
}

/* One block then has all heads that share keys or values, and the new position is in the last part
 * only. */
bool attend_fuses_operands(const Program *program, const Statement *statement) {
    const Expr *q = statement->inputs.items[0];
    const CallShape shape = call_shape(q);
    if (!statement->attention.position || statement->attention.best ||
        !attend_rounds(program, statement))
        return false;
    return size_at(&shape, 3) == 1 &&
           size_at(&shape, 2) / attend_groups(statement) <= 16L * attend_step(statement).tiles;
}

/* The number of parts of the keys of a step: enough to fill the GPU. */
static long parts_of(const Attend *attend) {
    if (steps_in_tiles(attend)) {
        long parts = STEP_BLOCKS / step_tasks(attend),
             most = ceil_div(size_at(&attend->k, 3), STEP_KEYS);
        most = most < STEP_PARTS ? most : STEP_PARTS;
        return parts < 1 ? 1 : parts < most ? parts : most;
    }
    long tasks = attend->batch * size_at(&attend->q, 3) * size_at(&attend->q, 2);
    long parts = MAX_TASKS / tasks;
    return parts < 1 ? 1 : parts < MAX_PARTS ? parts : MAX_PARTS;
}

/* A constant, in the declaration of the one before it if that has the same type and `joined`. */
static void add_constant(Arena *arena, TemplateOptions *options, const char *name, bool joined,
                         const Term *value) {
    FormNode *let = form_add(arena, &options->constants, FORM_LET);
    let->name = term_name(arena, value->type, name);
    let->values[0] = value;
    let->joined = joined;
}

static int chosen_rank(const Statement *statement) {
    const AttendOptions *options = &statement->attention;
    return options->chosen ? call_shape(call_input(statement, attend_chosen(options))).rank : 0;
}

static const TemplateOptions *options_of(const Attend *attend, const char *name) {
    const AttendOptions *options = &attend->statement->attention;
    const CallShape *q = &attend->q, *k = &attend->k, *v = &attend->v;
    const Program *program = attend->lowering->lower.program;
    Arena *arena = attend->lowering->lower.arena;
    TemplateOptions *made = arena_alloc(arena, sizeof *made);
    const struct {
        const char *name;
        TermType type;
        double value;
        bool begins;
    } constants[] = {{"batch", T_I64, (double)attend->batch, true},
                     {"queries", T_I64, (double)size_at(q, 3), false},
                     {"keys", T_I64, (double)size_at(k, 3), false},
                     {"places", T_I64, (double)attend_positions(program, attend->statement), false},
                     {"heads", T_INT, (double)size_at(q, 2), true},
                     {"key_heads", T_INT, (double)size_at(k, 2), false},
                     {"value_heads", T_INT, (double)size_at(v, 2), false},
                     {"width", T_INT, (double)size_at(q, 1), true},
                     {"value_width", T_INT, (double)size_at(v, 1), false},
                     {"mask", T_INT, options->mask, false},
                     {"documents", T_BOOL, options->documents, true},
                     {"window", T_I64, (double)options->window, true},
                     {"best", T_I64, (double)options->best, false},
                     {"parts", T_I64, (double)parts_of(attend), false},
                     {"scale", T_F32, options->scale, true},
                     {"cap", T_F32, options->cap, false}};
    made->name = name;
    const struct {
        const char *name;
        long value;
    } chosen[] = {{"chosen_queries", options->block[0]},
                  {"chosen_heads", options->block[1]},
                  {"chosen_keys", options->block[2]},
                  {"chosen_all", chosen_rank(attend->statement) == 3}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        add_constant(arena, made, constants[i].name, !constants[i].begins,
                     strcmp(constants[i].name, "mask")
                         ? term_number(arena, constants[i].type, constants[i].value)
                         : term_constant(arena, options->mask, mask_name(options)));
    for (int i = 0; i < 4 && options->chosen; i++)
        add_constant(arena, made, chosen[i].name, i > 0,
                     term_number(arena, T_I64, (double)chosen[i].value));
    if (options->bias) {
        const CallShape bias = call_shape(call_input(attend->statement, attend_bias(options)));
        add_constant(arena, made, "bias_all", false, term_number(arena, T_BOOL, bias.rank == 2));
    }
    for (int i = 0; i < STEP_OPERANDS; i++)
        if (attend->elements[i])
            add_statements(arena, attend->elements[i], NULL, &made->statements);
    if (attend->epilogue) add_statements(arena, attend->epilogue, NULL, &made->statements);
    return made;
}

/* ---- kernels and their arguments ---- */

/* A kernel that calls a template. The names of its parameters stay in use until it is complete. */
typedef struct Call {
    EntryLowering *lowering;
    const char *name; /* of the template, without "moec_" */
    List params;      /* Param * */
    List arguments;   /* const Term *, of the template */
    int bindings;
    List stores; /* TemplateStore *, of the arguments NULL */
} Call;

static Call call_of(const Attend *attend, const char *name) {
    return (Call){.lowering = attend->lowering,
                  .name = name,
                  .bindings = attend->lowering->lower.binding_count};
}

/* A parameter with a free name. */
static const Term *add_given(Call *call, Param param) {
    Arena *arena = call->lowering->lower.arena;
    param.name = bind_name(&call->lowering->lower, NULL, param.name);
    add_param(arena, &call->params, param);
    return term_name(arena, param.type, param.name);
}

/* The same, which the template receives. */
static void give_param(Call *call, Param param) {
    add_template_argument(call->lowering->lower.arena, &call->arguments, add_given(call, param));
}

/* operand: NULL: absent. */
static Param operand_param(Call *call, const Expr *operand, bool written, const char *name) {
    return (Param){.kind = PARAM_OPERAND,
                   .type = operand ? element_type(operand->tensor) : T_F32,
                   .written = written,
                   .name = name,
                   .address = operand ? pointer_term(&call->lowering->lower, operand) : NULL};
}

static void give_input(Call *call, const Expr *operand, const char *name) {
    give_param(call, operand_param(call, operand, false, name));
}

static void give_output(Call *call, const Expr *operand, const char *name) {
    give_param(call, operand_param(call, operand, true, name));
}

/* Queries that are computed where they are read are a function: see give_stores. */
static void give_attended(const Attend *attend, Call *call) {
    static const char *const names[] = {"q", "k", "v"};
    const AttendOptions *options = &attend->statement->attention;
    const List *in = &attend->statement->inputs;
    for (int i = 0; i < 3; i++) {
        if (!i && attend->elements[0])
            add_template_argument(call->lowering->lower.arena, &call->arguments, NULL);
        else
            give_input(call, in->items[i], names[i]);
    }
    give_input(call, options->sink ? in->items[3] : NULL, "sink");
    give_input(call, options->documents ? in->items[attend_document(options)] : NULL, "documents");
}

/* The scales of the rows of keys and values. */
static void give_scales(const Attend *attend, Call *call) {
    static const char *const names[] = {"k_scale", "v_scale"};
    const AttendOptions *options = &attend->statement->attention;
    const List *in = &attend->statement->inputs;
    for (int i = 0; i < 2; i++)
        give_input(call, options->scaled[i] ? in->items[attend_scale(options, i)] : NULL, names[i]);
}

/* The last arguments of a template: chosen pairs, a bias. */
static void give_pairs(const Attend *attend, Call *call) {
    Arena *arena = attend->lowering->lower.arena;
    const AttendOptions *options = &attend->statement->attention;
    const List *in = &attend->statement->inputs;
    if (options->chosen) give_input(call, in->items[attend_chosen(options)], "chosen");
    if (!options->bias) return;
    if (!options->chosen) {
        list_push(arena, &call->stores, no_store(arena, "MoecAll"));
        add_template_argument(arena, &call->arguments, NULL);
    }
    give_input(call, in->items[attend_bias(options)], "bias");
}

/* Scratch memory of one call, after the temporaries. */
static void give_scratch(const Attend *attend, Call *call, size_t floats, bool written,
                         const char *name) {
    EntryLowering *lowering = attend->lowering;
    if (floats * 4 > lowering->lower.scratch_bytes) lowering->lower.scratch_bytes = floats * 4;
    give_param(call, (Param){.kind = PARAM_SCRATCH,
                             .type = T_F32,
                             .written = written,
                             .name = name,
                             .offset = lowering->lower.schedule->arena_bytes});
}

/* One counter per task of a part, which is 0 between launches. */
static void give_counters(const Attend *attend, Call *call, long count) {
    give_param(call,
               (Param){.kind = PARAM_SCRATCH, .type = T_U32, .written = true, .name = "arrived"});
    add_counters(attend->lowering, call->params.items[call->params.count - 1], count);
}

static void add_shape_variant(const Attend *attend, const Call *call, TemplateKernel *kernel,
                              const char *ending, const char *name, const TemplateInstance *shape,
                              int threads, int blocks) {
    Arena *arena = attend->lowering->lower.arena;
    const TemplateInstance *options = template_of(arena, attend->options, "");
    TemplateVariant variant = {.ending = ending, .threads = threads, .params = call->params};
    if (blocks > 1) variant.bounds = arena_format(arena, "%d, %d", threads, blocks);
    add_template_call(
        arena, &variant,
        (TemplateCall){.function = template_of(arena, arena_format(arena, "moec_%s", name),
                                               shape ? "cc" : "c", options, shape),
                       .arguments = call->arguments,
                       .stores = call->stores});
    add_variant(arena, kernel, variant);
}

static TemplateKernel *add_kernel(const Attend *attend, const Call *call,
                                  const TemplateInstance *shape) {
    EntryLowering *lowering = attend->lowering;
    const char *name =
        device_kernel(lowering, arena_format(lowering->lower.arena, "%s_%s_%d", call->name,
                                             lowering->entry->name, lowering->entry->kernels));
    TemplateKernel *kernel = add_template_kernel(
        lowering, (TemplateKernel){.name = name, .signals = true, .joined = true});
    add_shape_variant(attend, call, kernel, "", call->name, shape, MOEC_ATTEND_THREADS, 1);
    lowering->lower.binding_count = call->bindings;
    return kernel;
}

static const TemplateInstance *shape_template(const Attend *attend, const char *name,
                                              AttendShape shape) {
    return template_of(attend->lowering->lower.arena, name, shape.blocks > 1 ? "nnnn" : "nnn",
                       (long)shape.tiles, (long)shape.part, shape.bytes, (long)shape.blocks);
}

static const AttendShape no_shape; /* of the templates that do not round */

static void launch(const Attend *attend, const Call *call, AttendShape shape, long blocks) {
    const TemplateInstance *made = shape.tiles ? shape_template(attend, "MoecShape", shape) : NULL;
    add_launch(attend->lowering, add_kernel(attend, call, made)->name,
               launch_of(blocks, MOEC_ATTEND_THREADS), &call->params)
        ->shared = shape.bytes;
}

/* ---- variants ---- */

/* The shapes of all, the template of warpgroups; rows of one of `others`. */
typedef struct Variants {
    AttendShape warps, groups, blocks;
    const char *template;
    long rows, others;
} Variants;

/* True if warpgroups can compute it: all operands arrive by asynchronous copies. */
static bool has_groups(const Attend *attend, const Variants *variants) {
    if (attend->lowering->module->hosting == TARGET_STANDALONE || !attend->rounds ||
        !variants->groups.tiles || attend->statement->attention.bias)
        return false;
    const List *in = &attend->statement->inputs;
    for (int i = 0; i < 3; i++)
        if (((const Expr *)in->items[i])->tensor->type != TYPE_BF16) return false;
    if (attend->statement->call != CALL_ATTEND_GRAD) return true;
    const Expr *grad = in->items[attend_operands(&attend->statement->attention) + 2];
    return grad->tensor->type == TYPE_BF16;
}

/* Warpgroups in the shape with more blocks, if there is one, then in that with one block. */
static void launch_shapes(const Attend *attend, const Call *call, const Variants *variants,
                          const List *written) {
    static const char *const endings[] = {"_wgmma", "_wide"};
    const AttendShape one = variants->warps, others[] = {variants->blocks, variants->groups};
    const Launch first = launch_of(variants->others * ceil_div(variants->rows, 64L * one.tiles),
                                   MOEC_ATTEND_THREADS);
    TemplateKernel *kernel = add_kernel(attend, call, shape_template(attend, "MoecShape", one));
    LaunchStep *step = add_launch(attend->lowering, kernel->name, first, &call->params);
    step->written = *written;
    add_launch_variant(attend->lowering, step, first, one.bytes);
    for (int i = !others[0].tiles, number = 0; i < 2; i++, number++) {
        const AttendShape other = others[i];
        const Launch launch =
            launch_of(variants->others * ceil_div(variants->rows, 64L * other.tiles),
                      MOEC_GROUP_THREADS * other.tiles);
        add_shape_variant(attend, call, kernel, endings[number], variants->template,
                          shape_template(attend, "MoecGroupShape", other), launch.threads,
                          other.blocks);
        add_launch_variant(attend->lowering, step, launch, other.bytes);
    }
}

/* In several variants if the elements that it writes are known. */
static void launch_rows(const Attend *attend, const Call *call, const Variants *variants,
                        const List *written) {
    const long rows = variants->rows, others = variants->others;
    if (!attend->rounds)
        launch(attend, call, no_shape, others * ceil_div(rows, MIN_PLACES));
    else if (written && has_groups(attend, variants))
        launch_shapes(attend, call, variants, written);
    else
        launch(attend, call, variants->warps, others * ceil_div(rows, 64L * variants->warps.tiles));
}

/* ---- forward ---- */

/* The number of loops over positions; a loop of one iteration is not written. */
static int loops_of_positions(const CallShape *o) {
    int count = 0;
    for (int i = 0; i < o->rank - 2; i++) count += o->size[i] > 1;
    return count;
}

/* True if the template passes two adjacent elements. moec_store_rows does so if possible; the other
 * templates have one element in each of the adjacent threads. */
static bool takes_pairs(const Attend *attend) {
    return attend->rounds && !attend->statement->attention.position &&
           size_at(&attend->v, 1) % 2 == 0;
}

/* The number of loops of a kernel of one element that are no head and no width. */
static int loops_of_rows(const Kernel *kernel) {
    const Member *last = kernel->members.items[kernel->members.count - 1];
    const Expr *target = last->statement->target;
    int count = last->depth;
    for (int i = 0; i < last->depth; i++)
        for (int j = target->count - 2; j < target->count; j++)
            count -= expr_uses_index(target->args[j], last->order[i]);
    return count;
}

/* The store of o by the template. */
static TemplateStore *own_store(const Attend *attend, const Term *o) {
    const Expr *target = attend->statement->outputs.items[0];
    const CallShape shape = call_shape(target);
    if (attend->epilogue)
        return add_store(attend->lowering, attend->epilogue, loops_of_positions(&shape),
                         takes_pairs(attend) ? 2 : 1, NULL);
    return plain_store(
        attend->lowering, "MoecPlainRows", target, o,
        term_whole(attend->lowering->lower.arena, size_at(&shape, 2) * size_at(&shape, 1)));
}

static void give_function(Call *call, TemplateStore *store) {
    list_push(call->lowering->lower.arena, &call->stores, store);
}

/* The functions among the arguments: queries (their argument comes first), new keys and new values
 * of a step in tiles, the store of o with its epilogue. */
static void give_stores(const Attend *attend, Call *call, bool in_tiles) {
    EntryLowering *lowering = attend->lowering;
    Arena *arena = lowering->lower.arena;
    const Expr *target = attend->statement->outputs.items[0];
    const Term *o = NULL;
    Kernel *all = arena_alloc(arena, sizeof *all);
    if (!attend->epilogue) o = add_given(call, operand_param(call, target, true, "o"));
    for (int i = 0; i < STEP_OPERANDS; i++)
        if (attend->elements[i]) merge_kernel(arena, all, attend->elements[i]);
    if (attend->epilogue) merge_kernel(arena, all, attend->epilogue);
    const int bindings = lowering->lower.binding_count;
    begin_kernel(&lowering->lower, all);
    for (int i = 0; in_tiles && i < STEP_OPERANDS; i++) {
        const Kernel *kernel = attend->elements[i];
        if (kernel)
            give_function(call, add_element(lowering, kernel, loops_of_rows(kernel), i == 0));
        else if (i)
            give_function(call, no_store(arena, "MoecNoElements"));
    }
    give_function(call, own_store(attend, o));
    end_stores(lowering, &call->params, bindings);
    for (int i = in_tiles ? 0 : 2; i < 3; i++) add_template_argument(arena, &call->arguments, NULL);
}

/* Adds written elements as entries of MoecWritten; false if they are unknown. */
static bool written_by(const Attend *attend, List *written) {
    EntryLowering *lowering = attend->lowering;
    const List *out = &attend->statement->outputs;
    long rows = attend->batch * size_at(&attend->q, 3) * size_at(&attend->q, 2);
    put_written(lowering, out->items[1], rows, false, written);
    if (attend->epilogue) return put_targets(lowering, attend->epilogue, true, written);
    put_written(lowering, out->items[0], rows * size_at(&attend->v, 1), true, written);
    return true;
}

static void lower_attend_whole(const Attend *attend) {
    const Statement *statement = attend->statement;
    Call call = call_of(attend, attend->rounds ? "attend_rounded" : "attend");
    long heads = attend->batch * size_at(&attend->q, 2), queries = size_at(&attend->q, 3);
    List written = {0};
    give_attended(attend, &call);
    give_stores(attend, &call, false);
    give_output(&call, statement->outputs.items[1], "lse");
    give_pairs(attend, &call);
    const Variants variants = {attend_forward(statement),
                               attend_forward_groups(statement),
                               attend_forward_blocks(statement),
                               "attend_groups",
                               queries,
                               heads};
    const bool known = has_groups(attend, &variants) && written_by(attend, &written);
    launch_rows(attend, &call, &variants, known ? &written : NULL);
}

static void give_position(const Attend *attend, Call *call) {
    const Expr *position =
        attend->statement->inputs.items[attend_operands(&attend->statement->attention)];
    give_input(call, position, "position");
}

/* Attention to the best scores only: the scratch memory has one score per key. */
static void lower_attend_best(const Attend *attend, long rows) {
    Call call = call_of(attend, "attend_best");
    give_attended(attend, &call);
    give_scales(attend, &call);
    give_stores(attend, &call, false);
    give_output(&call, attend->statement->outputs.items[1], "lse");
    give_position(attend, &call);
    give_scratch(attend, &call, (size_t)(rows * size_at(&attend->k, 3)), true, "scratch");
    give_pairs(attend, &call);
    launch(attend, &call, no_shape, rows);
}

/* The scratch memory has the states of parts of the keys. */
static void lower_attend_parts(const Attend *attend, long rows) {
    const Statement *statement = attend->statement;
    const bool tiles = steps_in_tiles(attend);
    const long parts = parts_of(attend), tasks = tiles ? step_tasks(attend) : rows;
    Call step = call_of(attend, tiles ? "attend_step_rounded" : "attend_step");
    give_attended(attend, &step);
    if (!tiles) give_scales(attend, &step);
    give_position(attend, &step);
    give_stores(attend, &step, tiles);
    give_output(&step, statement->outputs.items[1], "lse");
    give_scratch(attend, &step, (size_t)(rows * parts * (size_at(&attend->v, 1) + 2)), true,
                 "scratch");
    give_counters(attend, &step, tasks);
    give_pairs(attend, &step);
    launch(attend, &step, tiles ? attend_step(statement) : no_shape, tasks * parts);
}

/* New tokens against a cache. */
static void lower_attend_step(const Attend *attend) {
    long rows = attend->batch * size_at(&attend->q, 3) * size_at(&attend->q, 2);
    if (attend->statement->attention.best)
        lower_attend_best(attend, rows);
    else
        lower_attend_parts(attend, rows);
}

/* ---- backward ---- */

/* A kernel for one or two of the gradients. */
static Call grad_call(const Attend *attend, const char *name, int first, int count) {
    static const char *const names[] = {"dq", "dk", "dv", "dsink", "dbias"};
    EntryLowering *lowering = attend->lowering;
    const List *in = &attend->statement->inputs, *out = &attend->statement->outputs;
    int own = attend_operands(&attend->statement->attention);
    const char *full = attend->rounds && first < 3
                           ? arena_format(lowering->lower.arena, "%s_rounded", name)
                           : name;
    Call call = call_of(attend, full);
    give_attended(attend, &call);
    give_input(&call, in->items[own], "o");
    give_input(&call, in->items[own + 1], "lse");
    give_input(&call, in->items[own + 2], "output_grad");
    if (attend->rounds && first < 3) {
        long totals = attend->batch * size_at(&attend->q, 3) * size_at(&attend->q, 2);
        give_scratch(attend, &call, (size_t)(2 * totals), !first, "totals");
    }
    for (int i = first; i < first + count; i++)
        give_output(&call, out->items[i < 4 ? i : out->count - 1], names[i]);
    if (first != 3) give_pairs(attend, &call);
    return call;
}

/* The gradients of keys, of values or of both. Warpgroups compute them one after the other if a
 * thread has too few registers for both. */
static void launch_keys(const Attend *attend, const char *name, bool keys, bool values) {
    EntryLowering *lowering = attend->lowering;
    const Statement *statement = attend->statement;
    const List *out = &statement->outputs;
    Call call = grad_call(attend, name, keys ? 1 : 2, keys + values);
    long heads = attend->batch * size_at(keys ? &attend->k : &attend->v, 2);
    long positions = size_at(&attend->k, 3);
    Variants variants = {attend_grad_keys(statement, keys, values),
                         attend_grad_keys_groups(statement, keys, values),
                         attend_grad_keys_blocks(statement, keys, values),
                         arena_format(lowering->lower.arena, "%s_groups", name),
                         positions,
                         heads};
    if (keys && values && !variants.groups.tiles) {
        variants.groups = attend_grad_keys_groups(statement, true, false);
        variants.blocks = no_shape;
        variants.template = "attend_grad_each_groups";
    }
    List written = {0};
    if (keys)
        put_written(lowering, out->items[1], heads * positions * size_at(&attend->k, 1), true,
                    &written);
    if (values)
        put_written(lowering, out->items[2], heads * positions * size_at(&attend->v, 1), true,
                    &written);
    launch_rows(attend, &call, &variants, &written);
}

/* The gradient of queries; the totals are in the memory of give_scratch. */
static void launch_queries(const Attend *attend) {
    EntryLowering *lowering = attend->lowering;
    const Statement *statement = attend->statement;
    long queries = size_at(&attend->q, 3), heads = attend->batch * size_at(&attend->q, 2);
    Call call = grad_call(attend, "attend_grad_query", 0, 1);
    const Variants variants = {attend_grad_query(statement),
                               attend_grad_query_groups(statement),
                               attend_grad_query_blocks(statement),
                               "attend_grad_query_groups",
                               queries,
                               heads};
    List written = {0};
    put_written(lowering, statement->outputs.items[0], heads * queries * size_at(&attend->q, 1),
                true, &written);
    const Written totals = {.offset = lowering->lower.schedule->arena_bytes,
                            .count = 2 * heads * queries};
    list_copy(lowering->lower.arena, &written, &totals, sizeof totals);
    launch_rows(attend, &call, &variants, &written);
}

static void lower_attend_grad(const Attend *attend) {
    long heads = size_at(&attend->q, 2);
    launch_queries(attend);
    bool together = size_at(&attend->k, 2) == size_at(&attend->v, 2);
    if (together && (!attend->rounds || attend_grad_keys(attend->statement, true, true).tiles)) {
        launch_keys(attend, "attend_grad_both", true, true);
    } else {
        launch_keys(attend, "attend_grad_key", true, false);
        launch_keys(attend, "attend_grad_value", false, true);
    }
    if (attend->statement->attention.sink) {
        Call sink = grad_call(attend, "attend_grad_sink", 3, 1);
        launch(attend, &sink, no_shape, heads);
    }
    if (attend->statement->outputs.count > 3 + attend->statement->attention.sink) {
        Call bias = grad_call(attend, "attend_grad_bias", 4, 1);
        launch(attend, &bias, no_shape,
               attend->batch * heads * ceil_div(size_at(&attend->k, 3), MIN_PLACES));
    }
}

void lower_device_attend(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Statement *statement = unit->statement;
    const List *in = &statement->inputs;
    Attend attend = {.lowering = lowering,
                     .statement = statement,
                     .epilogue = unit->epilogue,
                     .elements = unit->elements,
                     .q = call_shape(in->items[0]),
                     .k = call_shape(in->items[1]),
                     .v = call_shape(in->items[2]),
                     .rounds = attend_rounds(lowering->lower.program, statement)};
    attend.options = arena_format(lowering->lower.arena, "options_%s_%d", lowering->entry->name,
                                  lowering->entry->kernels);
    attend.batch = leading_size(&attend.q, 3);
    add_section(lowering->lower.arena, &lowering->module->device,
                (Section){.constants = options_of(&attend, attend.options)});
    end_piece(lowering->module, NULL);
    if (statement->call == CALL_ATTEND_GRAD)
        lower_attend_grad(&attend);
    else if (statement->attention.position)
        lower_attend_step(&attend);
    else
        lower_attend_whole(&attend);
    add_section(lowering->lower.arena, &lowering->module->device, (Section){0});
    lowering->entry->kernels++;
}
