/* emit_cuda_attend: attention as launches of the templates in runtime/kernels, instantiated for its
 * sizes.
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
 * If warpgroups can compute it as well, there is a further variant, NAME_wgmma: the host selects
 * the faster one. */
#include "analysis/attend.h"
#include "codegen/emit.h"

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
    Emitter *emitter;
    const Statement *statement;
    Kernel *epilogue;    /* see ScheduleUnit */
    const char *options; /* name of the struct */
    Shape q, k, v;
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

static void add_options(const Attend *attend) {
    static const char *const masks[] = {"MOEC_MASK_CAUSAL", "MOEC_MASK_NONE", "MOEC_MASK_WINDOW"};
    Emitter *emitter = attend->emitter;
    const AttendOptions *options = &attend->statement->attention;
    const Shape *q = &attend->q, *k = &attend->k, *v = &attend->v;
    Text options_text = {.arena = emitter->lower.arena}, *text = &options_text;
    text_add(text, "struct %s {\n", attend->options);
    text_add(text,
             "    static constexpr long batch = %ld, queries = %ld, keys = %ld, places = %ld;\n",
             attend->batch, size_at(q, 3), size_at(k, 3),
             attend_places(emitter->lower.program, attend->statement));
    text_add(text, "    static constexpr int heads = %ld, key_heads = %ld, value_heads = %ld;\n",
             size_at(q, 2), size_at(k, 2), size_at(v, 2));
    text_add(text, "    static constexpr int width = %ld, value_width = %ld, mask = %s;\n",
             size_at(q, 1), size_at(v, 1), masks[options->mask]);
    text_add(text, "    static constexpr bool documents = %s;\n",
             options->documents ? "true" : "false");
    text_add(text, "    static constexpr long window = %ld, best = %ld, parts = %ld;\n",
             options->window, options->best, parts_of(attend));
    text_add(text, "    static constexpr float scale = %s, cap = %s;\n",
             number_text(emitter->lower.arena, options->scale),
             number_text(emitter->lower.arena, options->cap));
    text_add(text, "};\n");
    function_text(emitter, "%s", text->text);
    end_piece(emitter->module, NULL);
}

/* ---- kernels and their arguments ---- */

/* A kernel that calls a template: its parameters, the template arguments, the launch arguments. The
 * names of its parameters stay in use until it is written. */
typedef struct Call {
    Emitter *emitter;
    const char *name; /* of the template, without "moec_" */
    List params;      /* Param * */
    Text given;
    int bindings;
    LoopKernel *loops; /* of its store, or NULL */
} Call;

static Call call_of(const Attend *attend, const char *name) {
    Arena *arena = attend->emitter->lower.arena;
    return (Call){.emitter = attend->emitter,
                  .name = name,
                  .given = {.arena = arena},
                  .bindings = attend->emitter->lower.binding_count};
}

static void give_text(Call *call, const char *text) {
    text_add(&call->given, "%s%s", call->given.length ? ", " : "", text);
}

/* A parameter with a free name, which the template receives. */
static const char *add_given(Call *call, Param param) {
    param.name = bind_name(&call->emitter->lower, NULL, param.name);
    add_param(call->emitter->lower.arena, &call->params, param);
    return param.name;
}

static const char *pointer_type(Emitter *emitter, const Expr *operand, bool written) {
    return arena_format(emitter->lower.arena, "%s%s *", written ? "" : "const ",
                        type_name(operand->tensor));
}

static void give_operand(Emitter *emitter, Call *call, const Expr *operand, bool written,
                         const char *name) {
    give_text(call, add_given(call, (Param){.kind = PARAM_OPERAND,
                                            .type = pointer_type(emitter, operand, written),
                                            .name = name,
                                            .written = written,
                                            .address = pointer_term(&emitter->lower, operand)}));
}

/* Optional operands: a sink, document ids. */
static void give_perhaps(Emitter *emitter, Call *call, const Expr *operand, const char *name) {
    give_text(call,
              add_given(call, (Param){.kind = PARAM_OPERAND,
                                      .type = "const float *",
                                      .name = name,
                                      .address = operand ? pointer_term(&emitter->lower, operand)
                                                         : NULL}));
}

static void give_attended(const Attend *attend, Call *call) {
    static const char *const names[] = {"q", "k", "v"};
    const AttendOptions *options = &attend->statement->attention;
    const List *in = &attend->statement->inputs;
    for (int i = 0; i < 3; i++) give_operand(attend->emitter, call, in->items[i], false, names[i]);
    give_perhaps(attend->emitter, call, options->sink ? in->items[3] : NULL, "sink");
    give_perhaps(attend->emitter, call,
                 options->documents ? in->items[attend_document(options)] : NULL, "documents");
}

/* The scales of the rows of keys and values. */
static void give_scales(const Attend *attend, Call *call) {
    static const char *const names[] = {"k_scale", "v_scale"};
    const AttendOptions *options = &attend->statement->attention;
    const List *in = &attend->statement->inputs;
    for (int i = 0; i < 2; i++)
        give_perhaps(attend->emitter, call,
                     options->scaled[i] ? in->items[attend_scale(options, i)] : NULL, names[i]);
}

/* Scratch memory of one call, after the temporaries. */
static void give_scratch(const Attend *attend, Call *call, size_t floats, const char *type,
                         const char *name) {
    Emitter *emitter = attend->emitter;
    if (floats * 4 > emitter->lower.scratch_bytes) emitter->lower.scratch_bytes = floats * 4;
    give_text(call, add_given(call, (Param){.kind = PARAM_SCRATCH,
                                            .type = type,
                                            .name = name,
                                            .offset = emitter->lower.schedule->arena_bytes}));
}

/* One variant of a kernel. further: template parameters after the options. */
typedef struct Variant {
    const char *name, *template, *further;
    int threads;
} Variant;

static void add_variant(const Attend *attend, const Call *call, Variant variant) {
    Emitter *emitter = attend->emitter;
    function_line(emitter, "extern \"C\" __global__ void __launch_bounds__(%d, 1) %s(%s)",
                  variant.threads, variant.name,
                  params_text(emitter->lower.arena, &emitter->target->parameters, &call->params));
    Section *section =
        function_text(emitter, "{\n    moec_begin();\n    moec_%s<%s%s>(%s);\n}\n",
                      variant.template, attend->options, variant.further, call->given.text);
    if (call->loops) list_push(emitter->lower.arena, &section->loops, call->loops);
}

static const char *add_kernel(const Attend *attend, const Call *call, const char *further) {
    Emitter *emitter = attend->emitter;
    const char *name =
        device_kernel(emitter, arena_format(emitter->lower.arena, "%s_%s_%d", call->name,
                                            emitter->entry->name, emitter->entry->kernels));
    add_variant(attend, call, (Variant){name, call->name, further, MOEC_ATTEND_THREADS});
    end_piece(emitter->module, name);
    emitter->lower.binding_count = call->bindings;
    return name;
}

static void launch(const Attend *attend, const Call *call, long blocks) {
    add_launch(attend->emitter, add_kernel(attend, call, ""),
               launch_of(blocks, MOEC_ATTEND_THREADS), &call->params);
}

static const char *shape_text(const Attend *attend, const char *name, AttendShape shape) {
    return arena_format(attend->emitter->lower.arena, ", %s<%d, %d, %ld>", name, shape.tiles,
                        shape.part, shape.bytes);
}

static void launch_as(const Attend *attend, const Call *call, AttendShape shape, long blocks) {
    Emitter *emitter = attend->emitter;
    const char *name = add_kernel(attend, call, shape_text(attend, "MoecShape", shape));
    add_launch(emitter, name, launch_of(blocks, MOEC_ATTEND_THREADS), &call->params)->shared =
        shape.bytes;
}

static void launch_shaped(const Attend *attend, const Call *call, AttendShape shape, long rows,
                          long others) {
    launch_as(attend, call, shape, others * ceil_div(rows, 64L * shape.tiles));
}

/* ---- two variants ---- */

/* The shapes of both, the template of warpgroups; rows of one of `others`. */
typedef struct Variants {
    AttendShape warps, groups;
    const char *template;
    long rows, others;
} Variants;

/* True if warpgroups can compute it: all operands arrive by asynchronous copies. */
static bool has_groups(const Attend *attend, const Variants *variants) {
    if (!attend->emitter->target->variants || !attend->rounds || !variants->groups.tiles)
        return false;
    const List *in = &attend->statement->inputs;
    for (int i = 0; i < 3; i++)
        if (((const Expr *)in->items[i])->tensor->type != TYPE_BF16) return false;
    if (attend->statement->call != CALL_ATTEND_GRAD) return true;
    const Expr *grad = in->items[attend_operands(&attend->statement->attention) + 2];
    return grad->tensor->type == TYPE_BF16;
}

static void launch_variant(const Attend *attend, const Call *call, const Variants *variants,
                           const List *written) {
    Emitter *emitter = attend->emitter;
    Arena *arena = emitter->lower.arena;
    const AttendShape one = variants->warps, other = variants->groups;
    const Launch first = launch_of(variants->others * ceil_div(variants->rows, 64L * one.tiles),
                                   MOEC_ATTEND_THREADS);
    const Launch second = launch_of(variants->others * ceil_div(variants->rows, 64L * other.tiles),
                                    MOEC_GROUP_THREADS * other.tiles);
    const char *name = add_kernel(attend, call, shape_text(attend, "MoecShape", one));
    function_text(emitter, "\n#ifdef MOEC_WGMMA\n");
    add_variant(attend, call,
                (Variant){arena_format(arena, "%s_wgmma", name), variants->template,
                          shape_text(attend, "MoecGroupShape", other), second.threads});
    function_text(emitter, "#endif\n");
    end_piece(emitter->module, name);
    LaunchStep *step = add_launch(emitter, name, first, &call->params);
    step->written = *written;
    add_launch_variant(emitter, step, first, arena_format(arena, "%ld", one.bytes));
    add_launch_variant(emitter, step, second, arena_format(arena, "%ld", other.bytes));
}

/* ---- forward ---- */

/* The number of loops over positions; a loop of one iteration is not written. */
static int loops_of_places(const Shape *o) {
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

/* The store of o by the template, with its epilogue. */
static void give_store(const Attend *attend, Call *call) {
    Emitter *emitter = attend->emitter;
    const Expr *o = attend->statement->outputs.items[0];
    const Shape shape = shape_of(o);
    if (attend->epilogue) {
        Functor store = emit_functor(emitter, attend->epilogue, loops_of_places(&shape),
                                     takes_pairs(attend) ? 2 : 1);
        for (int i = 0; i < store.params.count; i++)
            list_push(emitter->lower.arena, &call->params, store.params.items[i]);
        give_text(call, store.text);
        call->loops = store.loops;
        return;
    }
    const char *name = add_given(call, (Param){.kind = PARAM_OPERAND,
                                               .type = pointer_type(emitter, o, true),
                                               .name = "o",
                                               .written = true,
                                               .address = pointer_term(&emitter->lower, o)});
    give_text(call,
              arena_format(emitter->lower.arena, "MoecPlainRows<%s>{%s, %ld}", type_name(o->tensor),
                           name, size_at(&shape, 2) * size_at(&shape, 1)));
}

/* Adds written elements as entries of MoecWritten; false if they are unknown. */
static bool written_by(const Attend *attend, List *written) {
    Emitter *emitter = attend->emitter;
    const List *out = &attend->statement->outputs;
    long rows = attend->batch * size_at(&attend->q, 3) * size_at(&attend->q, 2);
    put_written(emitter, out->items[1], rows, false, written);
    if (attend->epilogue) return put_targets(emitter, attend->epilogue, true, written);
    put_written(emitter, out->items[0], rows * size_at(&attend->v, 1), true, written);
    return true;
}

static void emit_whole(const Attend *attend) {
    const Statement *statement = attend->statement;
    Call call = call_of(attend, attend->rounds ? "attend_rounded" : "attend");
    long heads = attend->batch * size_at(&attend->q, 2), queries = size_at(&attend->q, 3);
    List written = {0};
    give_attended(attend, &call);
    give_store(attend, &call);
    give_operand(attend->emitter, &call, statement->outputs.items[1], true, "lse");
    const Variants variants = {attend_forward(statement), attend_forward_groups(statement),
                               "attend_groups", queries, heads};
    if (has_groups(attend, &variants) && written_by(attend, &written))
        launch_variant(attend, &call, &variants, &written);
    else if (attend->rounds)
        launch_shaped(attend, &call, variants.warps, queries, heads);
    else
        launch(attend, &call, heads * ceil_div(queries, MIN_PLACES));
}

static void give_position(const Attend *attend, Call *call) {
    const Expr *position =
        attend->statement->inputs.items[attend_operands(&attend->statement->attention)];
    give_operand(attend->emitter, call, position, false, "position");
}

/* Attention to the best scores only: the scratch memory has one score per key. */
static void emit_best(const Attend *attend, long rows) {
    Call call = call_of(attend, "attend_best");
    give_attended(attend, &call);
    give_scales(attend, &call);
    give_store(attend, &call);
    give_operand(attend->emitter, &call, attend->statement->outputs.items[1], true, "lse");
    give_position(attend, &call);
    give_scratch(attend, &call, (size_t)(rows * size_at(&attend->k, 3)), "float *", "scratch");
    launch(attend, &call, rows);
}

/* The scratch memory has the partial sums of parts of the keys. */
static void emit_parts(const Attend *attend, long rows) {
    Emitter *emitter = attend->emitter;
    const Statement *statement = attend->statement;
    bool tiles = steps_in_tiles(attend), sink = statement->attention.sink;
    long parts = parts_of(attend), floats = rows * parts * (size_at(&attend->v, 1) + 2);
    Call step = call_of(attend, tiles ? "attend_step_rounded" : "attend_step");
    give_attended(attend, &step);
    if (!tiles) give_scales(attend, &step);
    give_position(attend, &step);
    give_scratch(attend, &step, (size_t)floats, "float *", "scratch");
    if (tiles)
        launch_as(attend, &step, attend_step(statement), step_tasks(attend) * parts);
    else
        launch(attend, &step, rows * parts);

    Call join = call_of(attend, "attend_join");
    give_perhaps(emitter, &join, sink ? statement->inputs.items[3] : NULL, "sink");
    give_store(attend, &join);
    give_operand(emitter, &join, statement->outputs.items[1], true, "lse");
    give_scratch(attend, &join, (size_t)floats, "const float *", "scratch");
    launch(attend, &join, rows);
}

/* New tokens against a cache. */
static void emit_step(const Attend *attend) {
    long rows = attend->batch * size_at(&attend->q, 3) * size_at(&attend->q, 2);
    if (attend->statement->attention.best)
        emit_best(attend, rows);
    else
        emit_parts(attend, rows);
}

/* ---- backward ---- */

/* A kernel for one or two of the gradients. */
static Call grad_call(const Attend *attend, const char *name, int first, int count) {
    static const char *const names[] = {"dq", "dk", "dv", "dsink"};
    Emitter *emitter = attend->emitter;
    const List *in = &attend->statement->inputs, *out = &attend->statement->outputs;
    int own = attend_operands(&attend->statement->attention);
    const char *full =
        attend->rounds && first < 3 ? arena_format(emitter->lower.arena, "%s_rounded", name) : name;
    Call call = call_of(attend, full);
    give_attended(attend, &call);
    give_operand(emitter, &call, in->items[own], false, "o");
    give_operand(emitter, &call, in->items[own + 1], false, "lse");
    give_operand(emitter, &call, in->items[own + 2], false, "output_grad");
    if (attend->rounds && first < 3) {
        long totals = attend->batch * size_at(&attend->q, 3) * size_at(&attend->q, 2);
        give_scratch(attend, &call, (size_t)totals, first ? "const float *" : "float *", "totals");
    }
    for (int i = first; i < first + count; i++)
        give_operand(emitter, &call, out->items[i], true, names[i]);
    return call;
}

/* The gradients of keys, of values or of both. Warpgroups compute them one after the other if a
 * thread has too few registers for both. */
static void launch_keys(const Attend *attend, const char *name, bool keys, bool values) {
    Emitter *emitter = attend->emitter;
    const Statement *statement = attend->statement;
    const List *out = &statement->outputs;
    Call call = grad_call(attend, name, keys ? 1 : 2, keys + values);
    long heads = attend->batch * size_at(keys ? &attend->k : &attend->v, 2);
    long places = size_at(&attend->k, 3);
    Variants variants = {attend_grad_keys(statement, keys, values),
                         attend_grad_keys_groups(statement, keys, values),
                         arena_format(emitter->lower.arena, "%s_groups", name), places, heads};
    if (keys && values && !variants.groups.tiles) {
        variants.groups = attend_grad_keys_groups(statement, true, false);
        variants.template = "attend_grad_each_groups";
    }
    List written = {0};
    if (keys)
        put_written(emitter, out->items[1], heads * places * size_at(&attend->k, 1), true,
                    &written);
    if (values)
        put_written(emitter, out->items[2], heads * places * size_at(&attend->v, 1), true,
                    &written);
    if (has_groups(attend, &variants))
        launch_variant(attend, &call, &variants, &written);
    else if (attend->rounds)
        launch_shaped(attend, &call, variants.warps, places, heads);
    else
        launch(attend, &call, heads * ceil_div(places, MIN_PLACES));
}

/* The gradient of queries; the totals are in the memory of give_scratch. */
static void launch_queries(const Attend *attend) {
    Emitter *emitter = attend->emitter;
    const Statement *statement = attend->statement;
    long queries = size_at(&attend->q, 3), heads = attend->batch * size_at(&attend->q, 2);
    Call call = grad_call(attend, "attend_grad_query", 0, 1);
    const Variants variants = {attend_grad_query(statement), attend_grad_query_groups(statement),
                               "attend_grad_query_groups", queries, heads};
    List written = {0};
    put_written(emitter, statement->outputs.items[0], heads * queries * size_at(&attend->q, 1),
                true, &written);
    Written *totals = arena_alloc(emitter->lower.arena, sizeof *totals);
    *totals = (Written){.offset = emitter->lower.schedule->arena_bytes, .count = heads * queries};
    list_push(emitter->lower.arena, &written, totals);
    if (has_groups(attend, &variants))
        launch_variant(attend, &call, &variants, &written);
    else if (attend->rounds)
        launch_shaped(attend, &call, variants.warps, queries, heads);
    else
        launch(attend, &call, heads * ceil_div(queries, MIN_PLACES));
}

static void emit_grad(const Attend *attend) {
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
        launch(attend, &sink, heads);
    }
}

void emit_cuda_attend(Emitter *emitter, const Statement *statement, Kernel *epilogue) {
    const List *in = &statement->inputs;
    Attend attend = {.emitter = emitter,
                     .statement = statement,
                     .epilogue = epilogue,
                     .q = shape_of(in->items[0]),
                     .k = shape_of(in->items[1]),
                     .v = shape_of(in->items[2]),
                     .rounds = attend_rounds(emitter->lower.program, statement)};
    attend.options = arena_format(emitter->lower.arena, "options_%s_%d", emitter->entry->name,
                                  emitter->entry->kernels);
    attend.batch = leading_size(&attend.q, 3);
    if (epilogue) emit_equations_above(emitter, epilogue);
    add_options(&attend);
    count_attend(emitter, statement);
    if (statement->call == CALL_ATTEND_GRAD)
        emit_grad(&attend);
    else if (statement->attention.position)
        emit_step(&attend);
    else
        emit_whole(&attend);
    function_text(emitter, "\n");
    emitter->entry->kernels++;
}
