/* print_calls: calls of the kernels in runtime/kernels, and the constants with their options. */
#include "analysis/attend.h"
#include "codegen/emit.h"

/* ---- options ---- */

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

static void print_attend_options(Text *text, const HostStep *step) {
    static const char *const masks[] = {"MOEC_MASK_CAUSAL", "MOEC_MASK_NONE", "MOEC_MASK_WINDOW"};
    Arena *arena = text->arena;
    const Statement *statement = step->call.statement;
    const AttendOptions *options = &statement->attention;
    Shape q = shape_of(statement->inputs.items[0]), k = shape_of(statement->inputs.items[1]);
    Shape v = shape_of(statement->inputs.items[2]);
    print_format(text, 0, "static const MoecAttend %s = {", step->call.options);
    print_format(text, 1, ".batch = %ld, .queries = %ld, .keys = %ld, .places = %ld,",
                 leading_size(&q, 3), size_at(&q, 3), size_at(&k, 3),
                 attend_places(step->call.program, statement));
    print_format(text, 1, ".mask = %s, .window = %ld, .heads = %ld, .key_heads = %ld,",
                 masks[options->mask], options->window, size_at(&q, 2), size_at(&k, 2));
    print_format(text, 1, ".value_heads = %ld, .width = %ld, .value_width = %ld,", size_at(&v, 2),
                 size_at(&q, 1), size_at(&v, 1));
    print_format(text, 1, ".scale = %s, .cap = %s, .best = %ld,",
                 number_text(arena, options->scale), number_text(arena, options->cap),
                 options->best);
    const char *types = attended_types(arena, statement);
    if (attend_rounds(step->call.program, statement))
        print_format(text, 1, ".rounded = 1,%s", types);
    else if (*types)
        print_line(text, 1, types + 1);
    print_line(text, 0, "};");
}

const char *numbers_text(Arena *arena, const long *numbers, int count) {
    Text text = {.arena = arena};
    text_add(&text, "{");
    for (int i = 0; i < count; i++) text_add(&text, "%s%ld", i ? ", " : "", numbers[i]);
    text_add(&text, "}");
    return text.text;
}

static void print_pack_options(Text *text, const HostStep *step) {
    Arena *arena = text->arena;
    const Statement *statement = step->call.statement;
    const List *in = &statement->inputs;
    Shape mask = shape_of(in->items[0]);
    long keys[MAX_RANK], sizes[MAX_RANK];
    int further = in->count - 1;
    Text strides = {.arena = arena};
    for (int i = 0; i < mask.rank; i++) keys[i] = statement->pack.key[i];
    for (int i = 0; i < further; i++) {
        const Expr *through = in->items[i + 1];
        sizes[i] = through->tensor->vocabulary;
        long steps[MAX_RANK];
        through_strides(&mask, through, steps);
        text_add(&strides, "%s%s", i ? ", " : "", numbers_text(arena, steps, mask.rank));
    }
    const Tensor *row = ((Expr *)statement->outputs.items[0])->tensor;
    print_format(text, 0, "static const MoecPack %s = {", step->call.options);
    print_format(text, 1, ".rank = %d, .shape = %s, .key = %s, .rows = %ld,", mask.rank,
                 numbers_text(arena, mask.size, mask.rank), numbers_text(arena, keys, mask.rank),
                 row->axes[row->rank - 1]->size);
    if (further)
        print_format(text, 1, ".through_count = %d, .through_stride = {%s}, .through_size = %s,",
                     further, strides.text, numbers_text(arena, sizes, further));
    print_line(text, 0, "};");
}

void print_options(Text *text, const HostStep *step) {
    if (step->call.statement->call == CALL_PACK)
        print_pack_options(text, step);
    else
        print_attend_options(text, step);
    text_add(text, "\n");
}

/* ---- calls ---- */

/* The input and the output of a call with this index. */
static const char *input(Text *text, const HostStep *step, int index) {
    return operand_text(text->arena, step, index);
}

static const char *output(Text *text, const HostStep *step, int index) {
    return operand_text(text->arena, step, step->call.statement->inputs.count + index);
}

static const char *sink(Text *text, const HostStep *step) {
    return step->call.statement->attention.sink ? input(text, step, 3) : "NULL";
}

static const char *documents(Text *text, const HostStep *step) {
    const AttendOptions *options = &step->call.statement->attention;
    return options->documents ? input(text, step, attend_document(options)) : "NULL";
}

static void print_attend_step(Text *text, const HostStep *step, int indent) {
    const AttendOptions *options = &step->call.statement->attention;
    Text given = {.arena = text->arena};
    text_add(&given, "%s", "");
    if (options->sink) text_add(&given, " .sink = %s,", sink(text, step));
    if (options->documents) text_add(&given, " .documents = %s,", documents(text, step));
    for (int i = 0; i < 2; i++)
        if (options->scaled[i])
            text_add(&given, " .%c_scale = %s,", "kv"[i],
                     input(text, step, attend_scale(options, i)));
    print_format(text, indent,
                 "moec_attend_step(&%s, %s, &(const MoecAttendWork){.q = %s, .k = %s, .v = %s,%s "
                 ".o = %s, .lse = %s});",
                 step->call.options, input(text, step, attend_operands(options)),
                 input(text, step, 0), input(text, step, 1), input(text, step, 2), given.text,
                 output(text, step, 0), output(text, step, 1));
}

static void print_attend(Text *text, const HostStep *step, int indent) {
    if (step->call.statement->attention.position) {
        print_attend_step(text, step, indent);
        return;
    }
    print_format(text, indent, "moec_attend(&%s, %s, %s, %s, %s, %s, %s, %s);", step->call.options,
                 input(text, step, 0), input(text, step, 1), input(text, step, 2), sink(text, step),
                 documents(text, step), output(text, step, 0), output(text, step, 1));
}

static void print_attend_grad(Text *text, const HostStep *step, int indent) {
    const AttendOptions *options = &step->call.statement->attention;
    int own = attend_operands(options);
    print_format(text, indent, "moec_attend_grad(&%s,", step->call.options);
    print_format(
        text, indent + 2,
        "&(const MoecAttendSaved){.q = %s, .k = %s, .v = %s, .sink = %s, .o = %s, .lse = %s,",
        input(text, step, 0), input(text, step, 1), input(text, step, 2), sink(text, step),
        input(text, step, own), input(text, step, own + 1));
    print_format(text, indent + 2, "                         .documents = %s, .output_grad = %s},",
                 documents(text, step), input(text, step, own + 2));
    print_format(text, indent + 2, "%s, %s, %s, %s);", output(text, step, 0), output(text, step, 1),
                 output(text, step, 2), options->sink ? output(text, step, 3) : "NULL");
}

static void print_top(Text *text, const HostStep *step, int indent) {
    const Statement *statement = step->call.statement;
    long sizes[3];
    top_sizes(statement, sizes);
    print_format(text, indent, "moec_top(%ld, %ld, %ld, %ld, %s, %s);", sizes[0], sizes[1],
                 sizes[2], statement->top.k, input(text, step, 0), output(text, step, 0));
}

static void print_pack(Text *text, const HostStep *step, int indent) {
    Arena *arena = text->arena;
    const List *in = &step->call.statement->inputs;
    int rank = shape_of(in->items[0]).rank;
    Text through = {.arena = arena}, coordinates = {.arena = arena};
    for (int i = 1; i < in->count; i++)
        text_add(&through, "%s%s", i > 1 ? ", " : "", input(text, step, i));
    for (int i = 0; i < rank; i++)
        text_add(&coordinates, "%s%s", i ? ", " : "", output(text, step, i));
    const char *further =
        in->count > 1 ? arena_format(arena, "(const int *const[]){%s}", through.text) : "NULL";
    print_format(text, indent, "moec_pack(&%s, %s, %s,", step->call.options, input(text, step, 0),
                 further);
    print_format(text, indent + 2,
                 "&(const MoecPacked){.coordinate = (int *const[]){%s}, .group = %s, .row_of = %s,",
                 coordinates.text, output(text, step, rank), output(text, step, rank + 1));
    print_format(text, indent + 2, "                    .other = %s, .start = %s, .list = %s});",
                 output(text, step, rank + 2), output(text, step, rank + 3),
                 output(text, step, rank + 4));
}

void print_call(Text *text, const HostStep *step, int indent) {
    switch (step->call.statement->call) {
    case CALL_ATTEND:
        print_attend(text, step, indent);
        break;
    case CALL_ATTEND_GRAD:
        print_attend_grad(text, step, indent);
        break;
    case CALL_TOP:
        print_top(text, step, indent);
        break;
    case CALL_PACK:
        print_pack(text, step, indent);
        break;
    case CALL_SCAN: /* a kernel */
        break;
    }
}
