/* emit_calls: operations that are not loops, as calls of runtime/kernels. */
#include "analysis/attend.h"
#include "codegen/emit.h"

#include <string.h>

Shape shape_of(const Expr *operand) {
    Shape shape = {.rank = 0};
    for (int i = 0; i < operand->count; i++) {
        if (operand->args[i]->kind != EXPR_INDEX || operand->args[i]->index->of_repeat) continue;
        shape.index[shape.rank] = operand->args[i]->index;
        shape.size[shape.rank++] = operand->tensor->axes[i]->size;
    }
    return shape;
}

static long product_of(const long *sizes, int count) {
    long product = 1;
    for (int i = 0; i < count; i++) product *= sizes[i];
    return product;
}

/* Size of the dimension `back` before the end. */
static long size_at(const Shape *shape, int back) {
    return shape->size[shape->rank - back];
}

static const char *operand(Emitter *emitter, const List *list, int place) {
    return pointer_text(&emitter->lower, list->items[place]);
}

long attend_places(const Emitter *emitter, const Statement *statement) {
    Shape k = shape_of(statement->inputs.items[1]);
    return statement->attention.position ? emitter->lower.program->context : size_at(&k, 3);
}

/* The number of query-key pairs, for the count of operations. */
static double pairs_seen(const AttendOptions *options, double queries, double places) {
    if (options->mask == MASK_NONE) return queries * places;
    double full = options->position ? queries * places / 2 : queries * (queries + 1) / 2;
    double window = queries * (double)options->window;
    return options->mask == MASK_WINDOW && window < full ? window : full;
}

void count_attend(Emitter *emitter, const Statement *statement) {
    Shape q = shape_of(statement->inputs.items[0]), v = shape_of(statement->inputs.items[2]);
    long batch = product_of(q.size, q.rank - 3);
    double pairs = pairs_seen(&statement->attention, (double)size_at(&q, 3),
                              (double)attend_places(emitter, statement));
    double flops = 2 * pairs * (double)(batch * size_at(&q, 2) * (size_at(&q, 1) + size_at(&v, 1)));
    emitter->entry->flops +=
        emitter->repeats * flops * (statement->call == CALL_ATTEND_GRAD ? 2.5 : 1);
}

/* The storage types of the operands: bf16 or bytes. */
static const char *attended_types(Arena *arena, const Statement *statement) {
    const bool grad = statement->call == CALL_ATTEND_GRAD;
    const List *in = &statement->inputs;
    const int own = attend_operands(&statement->attention);
    Text text = {.arena = arena};
    const Expr *const stored[] = {in->items[0], in->items[1], in->items[2],
                                  grad ? in->items[own] : statement->outputs.items[0],
                                  grad ? in->items[own + 2] : NULL};
    static const char *const names[] = {"q", "k", "v", "o", "grad"};
    text_add(&text, "%s", "");
    for (int i = 0; i < 4 + grad; i++) {
        if (stored[i]->tensor->type == TYPE_BF16)
            text_add(&text, " .%s_type = MOEC_BF16,", names[i]);
        if (stored[i]->tensor->type == TYPE_BYTE)
            text_add(&text, " .%s_type = MOEC_BYTE,", names[i]);
    }
    return text.text;
}

static void add_attend(Emitter *emitter, const Statement *statement, const char *name) {
    static const char *const masks[] = {"MOEC_MASK_CAUSAL", "MOEC_MASK_NONE", "MOEC_MASK_WINDOW"};
    const AttendOptions *options = &statement->attention;
    Shape q = shape_of(statement->inputs.items[0]), k = shape_of(statement->inputs.items[1]);
    Shape v = shape_of(statement->inputs.items[2]);
    long batch = product_of(q.size, q.rank - 3);
    emit_line(emitter, "static const MoecAttend %s = {", name);
    emitter->indent++;
    emit_line(emitter, ".batch = %ld, .queries = %ld, .keys = %ld, .places = %ld,", batch,
              size_at(&q, 3), size_at(&k, 3), attend_places(emitter, statement));
    emit_line(emitter, ".mask = %s, .window = %ld, .heads = %ld, .key_heads = %ld,",
              masks[options->mask], options->window, size_at(&q, 2), size_at(&k, 2));
    emit_line(emitter, ".value_heads = %ld, .width = %ld, .value_width = %ld,", size_at(&v, 2),
              size_at(&q, 1), size_at(&v, 1));
    emit_line(emitter, ".scale = %s, .cap = %s, .best = %ld,",
              number_text(emitter->lower.arena, options->scale),
              number_text(emitter->lower.arena, options->cap), options->best);
    const char *types = attended_types(emitter->lower.arena, statement);
    if (attend_rounds(emitter->lower.program, statement))
        emit_line(emitter, ".rounded = 1,%s", types);
    else if (*types)
        emit_line(emitter, "%s", types + 1);
    emitter->indent--;
    emit_line(emitter, "};");
    count_attend(emitter, statement);
}

static void emit_attend_step(Emitter *emitter, const Statement *statement, const char *name) {
    const List *in = &statement->inputs, *out = &statement->outputs;
    const AttendOptions *options = &statement->attention;
    Text given = {.arena = emitter->lower.arena};
    if (options->sink) text_add(&given, " .sink = %s,", operand(emitter, in, 3));
    if (options->documents)
        text_add(&given, " .documents = %s,", operand(emitter, in, attend_document(options)));
    for (int i = 0; i < 2; i++)
        if (options->scaled[i])
            text_add(&given, " .%c_scale = %s,", "kv"[i],
                     operand(emitter, in, attend_scale(options, i)));
    emit_line(emitter,
              "moec_attend_step(&%s, %s, &(const MoecAttendWork){.q = %s, .k = %s, .v = %s,%s .o = "
              "%s, .lse = %s});",
              name,
              term_text(emitter->lower.arena,
                        integer_term(&emitter->lower, in->items[attend_operands(options)])),
              operand(emitter, in, 0), operand(emitter, in, 1), operand(emitter, in, 2),
              given.length ? given.text : "", operand(emitter, out, 0), operand(emitter, out, 1));
}

static void emit_attend(Emitter *emitter, const Statement *statement, const char *name) {
    const List *in = &statement->inputs, *out = &statement->outputs;
    const AttendOptions *options = &statement->attention;
    const char *q = operand(emitter, in, 0), *k = operand(emitter, in, 1),
               *v = operand(emitter, in, 2);
    const char *s = options->sink ? operand(emitter, in, 3) : "NULL";
    const char *d = options->documents ? operand(emitter, in, attend_document(options)) : "NULL";
    const char *o = operand(emitter, out, 0), *lse = operand(emitter, out, 1);
    emit_line(emitter, "moec_attend(&%s, %s, %s, %s, %s, %s, %s, %s);", name, q, k, v, s, d, o,
              lse);
}

static void emit_attend_grad(Emitter *emitter, const Statement *statement, const char *name) {
    const List *in = &statement->inputs, *out = &statement->outputs;
    const AttendOptions *options = &statement->attention;
    int own = attend_operands(options);
    emit_line(emitter, "moec_attend_grad(&%s,", name);
    emitter->indent += 2;
    emit_line(emitter,
              "&(const MoecAttendSaved){.q = %s, .k = %s, .v = %s, .sink = %s, .o = %s, .lse = %s,",
              operand(emitter, in, 0), operand(emitter, in, 1), operand(emitter, in, 2),
              options->sink ? operand(emitter, in, 3) : "NULL", operand(emitter, in, own),
              operand(emitter, in, own + 1));
    emit_line(emitter, "                         .documents = %s, .output_grad = %s},",
              options->documents ? operand(emitter, in, attend_document(options)) : "NULL",
              operand(emitter, in, own + 2));
    emit_line(emitter, "%s, %s, %s, %s);", operand(emitter, out, 0), operand(emitter, out, 1),
              operand(emitter, out, 2), options->sink ? operand(emitter, out, 3) : "NULL");
    emitter->indent -= 2;
}

void top_sizes(const Statement *statement, long sizes[3]) {
    const Expr *scores = statement->inputs.items[0];
    int dimension = 0; /* of the subscripts that iterate */
    for (int i = 0; i < 3; i++) sizes[i] = 1;
    for (int i = 0; i < scores->count; i++) {
        if (scores->args[i]->kind != EXPR_INDEX || scores->args[i]->index->of_repeat) continue;
        int part = (dimension >= statement->top.dimension) + (dimension > statement->top.dimension);
        sizes[part] *= scores->tensor->axes[i]->size;
        dimension++;
    }
}

static void emit_top(Emitter *emitter, const Statement *statement) {
    long sizes[3];
    top_sizes(statement, sizes);
    emit_line(emitter, "moec_top(%ld, %ld, %ld, %ld, %s, %s);", sizes[0], sizes[1], sizes[2],
              statement->top.k, operand(emitter, &statement->inputs, 0),
              operand(emitter, &statement->outputs, 0));
}

const char *numbers_text(Emitter *emitter, const long *numbers, int count) {
    Text text = {.arena = emitter->lower.arena};
    text_add(&text, "{");
    for (int i = 0; i < count; i++) text_add(&text, "%s%ld", i ? ", " : "", numbers[i]);
    text_add(&text, "}");
    return text.text;
}

void through_strides(const Shape *mask, const Expr *through, long strides[MAX_RANK]) {
    Shape shape = shape_of(through);
    long stride = 1;
    for (int i = 0; i < MAX_RANK; i++) strides[i] = 0;
    for (int i = shape.rank - 1; i >= 0; i--) {
        for (int j = 0; j < mask->rank; j++)
            if (mask->index[j] == shape.index[i]) strides[j] = stride;
        stride *= shape.size[i];
    }
}

static void add_pack(Emitter *emitter, const Statement *statement, const char *name) {
    const List *in = &statement->inputs;
    Shape mask = shape_of(in->items[0]);
    long keys[MAX_RANK], sizes[MAX_RANK];
    int further = in->count - 1;
    Text strides = {.arena = emitter->lower.arena};
    for (int i = 0; i < mask.rank; i++) keys[i] = statement->pack.key[i];
    for (int i = 0; i < further; i++) {
        const Expr *through = in->items[i + 1];
        sizes[i] = through->tensor->vocabulary;
        long steps[MAX_RANK];
        through_strides(&mask, through, steps);
        text_add(&strides, "%s%s", i ? ", " : "", numbers_text(emitter, steps, mask.rank));
    }
    const Tensor *row = ((Expr *)statement->outputs.items[0])->tensor;
    emit_line(emitter, "static const MoecPack %s = {", name);
    emitter->indent++;
    emit_line(emitter, ".rank = %d, .shape = %s, .key = %s, .rows = %ld,", mask.rank,
              numbers_text(emitter, mask.size, mask.rank), numbers_text(emitter, keys, mask.rank),
              row->axes[row->rank - 1]->size);
    if (further)
        emit_line(emitter, ".through_count = %d, .through_stride = {%s}, .through_size = %s,",
                  further, strides.text, numbers_text(emitter, sizes, further));
    emitter->indent--;
    emit_line(emitter, "};");
}

static void emit_pack(Emitter *emitter, const Statement *statement, const char *name) {
    const List *in = &statement->inputs, *out = &statement->outputs;
    int rank = shape_of(in->items[0]).rank;
    Text through = {.arena = emitter->lower.arena}, coordinates = {.arena = emitter->lower.arena};
    for (int i = 1; i < in->count; i++)
        text_add(&through, "%s%s", i > 1 ? ", " : "", operand(emitter, in, i));
    for (int i = 0; i < rank; i++)
        text_add(&coordinates, "%s%s", i ? ", " : "", operand(emitter, out, i));
    const char *further =
        in->count > 1 ? arena_format(emitter->lower.arena, "(const int *const[]){%s}", through.text)
                      : "NULL";
    emit_line(emitter, "moec_pack(&%s, %s, %s,", name, operand(emitter, in, 0), further);
    emitter->indent += 2;
    emit_line(emitter,
              "&(const MoecPacked){.coordinate = (int *const[]){%s}, .group = %s, .row_of = %s,",
              coordinates.text, operand(emitter, out, rank), operand(emitter, out, rank + 1));
    emit_line(emitter, "                    .other = %s, .start = %s, .list = %s});",
              operand(emitter, out, rank + 2), operand(emitter, out, rank + 3),
              operand(emitter, out, rank + 4));
    emitter->indent -= 2;
}

/* The CPU has no epilogues for calls. */
void emit_call(Emitter *emitter, const Statement *statement, Kernel *epilogue) {
    (void)epilogue;
    if (statement->call == CALL_SCAN) {
        emit_scan(emitter, statement);
        return;
    }
    emit_equation(emitter, statement);
    const char *name = arena_format(emitter->lower.arena, "moec_options_%s_%d",
                                    emitter->entry->name, emitter->entry->kernels);
    /* Options are constants of the file, above the function that uses them. */
    Text *out = emitter->out, constant = {.arena = emitter->lower.arena};
    int indent = emitter->indent;
    emitter->out = &constant;
    emitter->indent = 0;
    if (statement->call == CALL_PACK)
        add_pack(emitter, statement, name);
    else if (statement->call != CALL_TOP)
        add_attend(emitter, statement, name);
    emitter->out = out;
    emitter->indent = indent;
    if (constant.length) {
        emitter->entry->kernels++;
        function_text(emitter, "%s\n", constant.text);
    }
    switch (statement->call) {
    case CALL_ATTEND:
        if (statement->attention.position)
            emit_attend_step(emitter, statement, name);
        else
            emit_attend(emitter, statement, name);
        break;
    case CALL_ATTEND_GRAD:
        emit_attend_grad(emitter, statement, name);
        break;
    case CALL_TOP:
        emit_top(emitter, statement);
        break;
    case CALL_PACK:
        emit_pack(emitter, statement, name);
        break;
    case CALL_SCAN:
        break;
    }
}
