/* emit_cuda_calls: attention, choices and packs as launches of the templates in runtime/kernels.
 * Attention is written out for its sizes. */
#include "emit.h"

#include <string.h>

/* Threads of a block, as the templates want them. */
enum { ATTEND_THREADS = 128, TOP_THREADS = 256, PACK_THREADS = 256 };
/* Queries or keys of a block of attention at least. */
enum { LEAST_PLACES = 8, MOST_GRID = 1 << 20, MOST_PARTS = 64, MOST_TASKS = 4096 };

static long dimension(const Shape *shape, int back) {
    return shape->size[shape->rank - back];
}

static long pieces(long count, long size) {
    return (count + size - 1) / size;
}

static const char *blocks(Emitter *emitter, long count) {
    return arena_format(emitter->arena, "%ld", count < 1 ? 1 : count < MOST_GRID ? count : MOST_GRID);
}

static void put(Text *arguments, const char *pointer) {
    text_add(arguments, "%sMOEC_POINTER(%s)", arguments->length ? ", " : "", pointer);
}

static void put_all(Emitter *emitter, Text *arguments, const List *operands, int first, int count) {
    for (int i = first; i < first + count; i++)
        put(arguments, pointer_text(emitter, operands->items[i]));
}

/* ---- attention ---- */

static long leading(const Shape *shape, int own) {
    long product = 1;
    for (int i = 0; i < shape->rank - own; i++) product *= shape->size[i];
    return product;
}

/* In how many parts the keys of a step are read: enough for all of a device. */
static long parts_of(const Shape *q) {
    long tasks = leading(q, 3) * dimension(q, 3) * dimension(q, 2), parts = MOST_TASKS / tasks;
    return parts < 1 ? 1 : parts < MOST_PARTS ? parts : MOST_PARTS;
}

static void add_options(Emitter *emitter, const Statement *statement, const char *name) {
    static const char *const masks[] = {"MOEC_MASK_CAUSAL", "MOEC_MASK_NONE", "MOEC_MASK_WINDOW"};
    const AttendOptions *options = &statement->attention;
    Shape q = shape_of(statement->inputs.items[0]), k = shape_of(statement->inputs.items[1]);
    Shape v = shape_of(statement->inputs.items[2]);
    Text *text = &emitter->functions;
    text_add(text, "struct %s {\n", name);
    text_add(text, "    static constexpr long batch = %ld, queries = %ld, keys = %ld;\n",
             leading(&q, 3), dimension(&q, 3), dimension(&k, 3));
    text_add(text, "    static constexpr int heads = %ld, key_heads = %ld, value_heads = %ld;\n",
             dimension(&q, 2), dimension(&k, 2), dimension(&v, 2));
    text_add(text, "    static constexpr int width = %ld, value_width = %ld, mask = %s;\n",
             dimension(&q, 1), dimension(&v, 1), masks[options->mask]);
    text_add(text, "    static constexpr bool documents = %s;\n", options->documents ? "true" : "false");
    text_add(text, "    static constexpr long window = %ld, best = %ld, parts = %ld;\n",
             options->window, options->best, parts_of(&q));
    text_add(text, "    static constexpr float scale = %s, cap = %s;\n",
             number_text(emitter->arena, options->scale),
             number_text(emitter->arena, options->cap));
    text_add(text, "};\n");
}

/* A kernel that calls a template with the options of one attention. */
static const char *add_kernel(Emitter *emitter, const char *options, const char *what,
                              const char *parameters, const char *names) {
    const char *name = device_kernel(
        emitter, arena_format(emitter->arena, "%s_%s_%d", what, emitter->prefix, emitter->kernels));
    bool step = !strcmp(what, "attend_step") || !strcmp(what, "attend_join"),
         rounds = emitter->program->rounded && !step && strcmp(what, "attend_grad_sink") != 0;
    text_add(&emitter->functions,
             "extern \"C\" __global__ void __launch_bounds__(%d) %s(%s)\n{\n    moec_%s%s<%s>(%s);\n}\n",
             ATTEND_THREADS, name, parameters, what, rounds ? "_rounded" : "", options, names);
    return name;
}

#define ATTEND_PARAMETERS                                                                          \
    "const float *q, const float *k, const float *v, const float *sink, const float *documents,\n    float *o, float *lse"
#define SAVED_PARAMETERS                                                                           \
    "const float *q, const float *k, const float *v, const float *sink, const float *documents,\n    " \
    "const float *o, const float *lse, const float *output_grad"

/* q k v, sink and documents or NULL. */
static void put_attended(Emitter *emitter, Text *arguments, const Statement *statement) {
    const AttendOptions *options = &statement->attention;
    const List *in = &statement->inputs;
    put_all(emitter, arguments, in, 0, 3);
    put(arguments, options->sink ? pointer_text(emitter, in->items[3]) : "NULL");
    put(arguments, options->documents ? pointer_text(emitter, in->items[attend_document(options)]) : "NULL");
}

static void emit_attend(Emitter *emitter, const Statement *statement, const char *options) {
    const List *in = &statement->inputs, *out = &statement->outputs;
    Shape q = shape_of(in->items[0]), v = shape_of(in->items[2]), k = shape_of(in->items[1]);
    long rows = leading(&q, 3) * dimension(&q, 2), queries = dimension(&q, 3);
    Text arguments = {.arena = emitter->arena};
    put_attended(emitter, &arguments, statement);
    put_all(emitter, &arguments, out, 0, 2);
    if (!statement->attention.position) {
        const char *name = add_kernel(emitter, options, "attend", ATTEND_PARAMETERS,
                                      "q, k, v, sink, documents, o, lse");
        emit_launch(emitter, name,
                    (Launch){blocks(emitter, rows * pieces(queries, LEAST_PLACES)), ATTEND_THREADS},
                    arguments.text);
        return;
    }
    /* A score for each key, or the unfinished sums of parts of the keys. */
    size_t scratch = (size_t)(rows * queries) *
                     (size_t)(statement->attention.best ? dimension(&k, 3)
                                                        : parts_of(&q) * (dimension(&v, 1) + 2)) *
                     4;
    if (scratch > emitter->scratch_bytes) emitter->scratch_bytes = scratch;
    put(&arguments, pointer_text(emitter, in->items[attend_operands(&statement->attention)]));
    put(&arguments, arena_format(emitter->arena, "run->arena + %zu", emitter->schedule->arena_bytes));
    const char *name =
        add_kernel(emitter, options, "attend_step", ATTEND_PARAMETERS
                   ",\n    const int32_t *position, void *scratch",
                   "q, k, v, sink, documents, o, lse, position, (float *)scratch");
    long parts = statement->attention.best ? 1 : parts_of(&q);
    emit_launch(emitter, name, (Launch){blocks(emitter, rows * queries * parts), ATTEND_THREADS},
                arguments.text);
    if (statement->attention.best) return;
    name = add_kernel(emitter, options, "attend_join", ATTEND_PARAMETERS
                      ",\n    const int32_t *position, void *scratch",
                      "sink, o, lse, (const float *)scratch");
    emit_launch(emitter, name, (Launch){blocks(emitter, rows * queries), ATTEND_THREADS},
                arguments.text);
}

static void launch_grad(Emitter *emitter, const char *options, const char *what, const char *saved,
                        const char *outputs, long grid) {
    bool two = strchr(outputs, ',') != NULL;
    const char *name =
        add_kernel(emitter, options, what,
                   two ? SAVED_PARAMETERS ", float *first, float *second"
                       : SAVED_PARAMETERS ", float *first",
                   two ? "q, k, v, sink, documents, o, lse, output_grad, first, second"
                       : "q, k, v, sink, documents, o, lse, output_grad, first");
    emit_launch(emitter, name, (Launch){blocks(emitter, grid), ATTEND_THREADS},
                arena_format(emitter->arena, "%s, %s", saved, outputs));
}

static const char *output(Emitter *emitter, const Statement *statement, int place) {
    return arena_format(emitter->arena, "MOEC_POINTER(%s)",
                        pointer_text(emitter, statement->outputs.items[place]));
}

static void emit_attend_grad(Emitter *emitter, const Statement *statement, const char *options) {
    const List *in = &statement->inputs;
    Shape q = shape_of(in->items[0]), k = shape_of(in->items[1]), v = shape_of(in->items[2]);
    long batch = leading(&q, 3), key_heads = dimension(&k, 2), value_heads = dimension(&v, 2);
    Text saved = {.arena = emitter->arena};
    put_attended(emitter, &saved, statement);
    put_all(emitter, &saved, in, attend_operands(&statement->attention), 3);
    long query_blocks = pieces(dimension(&q, 3), LEAST_PLACES),
         key_blocks = pieces(dimension(&k, 3), LEAST_PLACES);
    const char *dq = output(emitter, statement, 0), *dk = output(emitter, statement, 1),
               *dv = output(emitter, statement, 2);
    launch_grad(emitter, options, "attend_grad_query", saved.text, dq,
                batch * dimension(&q, 2) * query_blocks);
    if (key_heads == value_heads) {
        launch_grad(emitter, options, "attend_grad_both", saved.text,
                    arena_format(emitter->arena, "%s, %s", dk, dv), batch * key_heads * key_blocks);
    } else {
        launch_grad(emitter, options, "attend_grad_key", saved.text, dk,
                    batch * key_heads * key_blocks);
        launch_grad(emitter, options, "attend_grad_value", saved.text, dv,
                    batch * value_heads * key_blocks);
    }
    if (statement->attention.sink)
        launch_grad(emitter, options, "attend_grad_sink", saved.text,
                    output(emitter, statement, 3), dimension(&q, 2));
}

/* ---- choices and packs ---- */

static void emit_top(Emitter *emitter, const Statement *statement) {
    long sizes[3];
    top_sizes(statement, sizes);
    Text arguments = {.arena = emitter->arena};
    text_add(&arguments, "MOEC_NUMBER(%ld), MOEC_NUMBER(%ld), MOEC_NUMBER(%ld), MOEC_NUMBER(%ld)",
             sizes[0], sizes[1], sizes[2], statement->top.k);
    put_all(emitter, &arguments, &statement->inputs, 0, 1);
    put_all(emitter, &arguments, &statement->outputs, 0, 1);
    emit_launch(emitter, device_kernel(emitter, "moec_top"),
                (Launch){blocks(emitter, sizes[0] * sizes[2]), TOP_THREADS}, arguments.text);
}

static const char *longs(Emitter *emitter, const long *numbers, int count) {
    Text text = {.arena = emitter->arena};
    text_add(&text, "{");
    for (int i = 0; i < count; i++) text_add(&text, "%s%ld", i ? ", " : "", numbers[i]);
    text_add(&text, "}");
    return text.text;
}

typedef struct PackSizes {
    long keys, groups, others, rows;
} PackSizes;

static PackSizes pack_sizes(const Statement *statement, const Shape *mask) {
    const Tensor *row = ((Expr *)statement->outputs.items[0])->tensor;
    PackSizes sizes = {1, 1, 1, row->axes[row->rank - 1]->size};
    for (int i = 0; i < mask->rank; i++) {
        long *part = statement->pack.key[i] ? &sizes.keys : &sizes.others;
        *part *= mask->size[i];
    }
    sizes.groups = sizes.keys;
    for (int i = 1; i < statement->inputs.count; i++)
        sizes.groups *= ((Expr *)statement->inputs.items[i])->tensor->vocabulary;
    return sizes;
}

/* The sizes of a pack and all its tensors, in one parameter of the kernels. */
static void emit_pack_options(Emitter *emitter, const Statement *statement, const Shape *mask,
                              const PackSizes *sizes) {
    const List *in = &statement->inputs, *out = &statement->outputs;
    long keys[MAX_RANK], strides[MAX_RANK];
    for (int i = 0; i < mask->rank; i++) keys[i] = statement->pack.key[i];
    emit_line(emitter, "const MoecPackOnDevice pack = {");
    emitter->indent++;
    emit_line(emitter, ".rank = %d, .shape = %s, .key = %s,", mask->rank,
              longs(emitter, mask->size, mask->rank), longs(emitter, keys, mask->rank));
    emit_line(emitter, ".rows = %ld, .keys = %ld, .groups = %ld, .others = %ld,", sizes->rows,
              sizes->keys, sizes->groups, sizes->others);
    emit_line(emitter, ".mask = %s, .through_count = %d,", pointer_text(emitter, in->items[0]),
              in->count - 1);
    for (int i = 1; i < in->count; i++) {
        const Expr *through = in->items[i];
        through_strides(mask, through, strides);
        emit_line(emitter, ".through[%d] = %s, .through_size[%d] = %ld, .through_stride[%d] = %s,",
                  i - 1, pointer_text(emitter, through), i - 1, through->tensor->vocabulary, i - 1,
                  longs(emitter, strides, mask->rank));
    }
    for (int i = 0; i < mask->rank; i++)
        emit_line(emitter, ".coordinate[%d] = %s,", i, pointer_text(emitter, out->items[i]));
    const char *names[] = {"group", "row_of", "other", "start", "list"};
    for (int i = 0; i < 5; i++)
        emit_line(emitter, ".%s = %s,", names[i],
                  pointer_text(emitter, out->items[mask->rank + i]));
    emitter->indent--;
    emit_line(emitter, "};");
}

static void emit_pack(Emitter *emitter, const Statement *statement) {
    Shape mask = shape_of(statement->inputs.items[0]);
    PackSizes sizes = pack_sizes(statement, &mask);
    emit_line(emitter, "{");
    emitter->indent++;
    emit_pack_options(emitter, statement, &mask, &sizes);
    Launch by_group = {blocks(emitter, sizes.groups), PACK_THREADS},
           by_other = {blocks(emitter, pieces(sizes.others, PACK_THREADS)), PACK_THREADS},
           one = {"1", 1024};
    emit_launch(emitter, device_kernel(emitter, "moec_pack_count"), by_group, "&pack");
    emit_launch(emitter, device_kernel(emitter, "moec_pack_begin"), one, "&pack");
    emit_launch(emitter, device_kernel(emitter, "moec_pack_fill"), by_group, "&pack");
    emit_launch(emitter, device_kernel(emitter, "moec_pack_count_others"), by_other, "&pack");
    emit_launch(emitter, device_kernel(emitter, "moec_pack_begin_others"), one, "&pack");
    emit_launch(emitter, device_kernel(emitter, "moec_pack_list"), by_other, "&pack");
    emitter->indent--;
    emit_line(emitter, "}");
}

void emit_cuda_call(Emitter *emitter, const Statement *statement) {
    emit_equation(emitter, statement);
    const char *options =
        arena_format(emitter->arena, "options_%s_%d", emitter->prefix, emitter->kernels);
    switch (statement->call) {
    case CALL_ATTEND:
    case CALL_ATTEND_GRAD:
        add_options(emitter, statement, options);
        count_attend(emitter, statement);
        if (statement->call == CALL_ATTEND)
            emit_attend(emitter, statement, options);
        else
            emit_attend_grad(emitter, statement, options);
        text_add(&emitter->functions, "\n");
        emitter->kernels++;
        break;
    case CALL_TOP:
        emit_top(emitter, statement);
        break;
    case CALL_PACK:
        emit_pack(emitter, statement);
        break;
    }
}
