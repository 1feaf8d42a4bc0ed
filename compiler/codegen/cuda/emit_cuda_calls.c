/* emit_cuda_calls: top and pack as launches of the templates in runtime/kernels. */
#include "codegen/emit.h"

#include <string.h>

/* Limits of the variants for small tops and packs. */
enum {
    TOP_FEW = 256, /* numbers that a warp selects among */
    PACK_FEW = 32  /* maximum entries of a group if one block packs */
};

/* ---- top and pack ---- */

static void emit_top(Emitter *emitter, const Statement *statement) {
    long sizes[3];
    top_sizes(statement, sizes);
    const long numbers[] = {sizes[0], sizes[1], sizes[2], statement->top.k};
    List arguments = {0};
    for (int i = 0; i < 4; i++)
        add_param(emitter->lower.arena, &arguments,
                  (Param){.kind = PARAM_NUMBER, .number = numbers[i]});
    add_operand_param(emitter, &arguments, statement->inputs.items[0], false);
    add_operand_param(emitter, &arguments, statement->outputs.items[0], true);
    long choices = sizes[0] * sizes[2];
    bool few = sizes[1] <= TOP_FEW;
    const long blocks = few ? ceil_div(choices, MOEC_CHOICE_THREADS / 32) : choices;
    add_launch(emitter, device_kernel(emitter, few ? "moec_top_of_few" : "moec_top"),
               launch_of(blocks, MOEC_CHOICE_THREADS), &arguments);
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
static void print_pack_record(Text *text, const HostStep *step, int indent) {
    Arena *arena = text->arena;
    const Statement *statement = step->call.statement;
    const List *in = &statement->inputs;
    const Shape mask = shape_of(in->items[0]);
    const PackSizes sizes = pack_sizes(statement, &mask);
    long keys[MAX_RANK], strides[MAX_RANK];
    bool in_order = true;
    for (int i = 0; i < mask.rank; i++) {
        keys[i] = statement->pack.key[i];
        in_order &= i == 0 || keys[i] >= keys[i - 1];
    }
    print_line(text, indent, "const MoecPackOnDevice pack = {");
    print_format(text, indent + 1, ".rank = %d, .shape = %s, .key = %s,", mask.rank,
                 numbers_text(arena, mask.size, mask.rank), numbers_text(arena, keys, mask.rank));
    print_format(text, indent + 1, ".rows = %ld, .keys = %ld, .groups = %ld, .others = %ld,",
                 sizes.rows, sizes.keys, sizes.groups, sizes.others);
    print_format(text, indent + 1, ".in_order = %d, .mask = %s, .through_count = %d,", in_order,
                 operand_text(arena, step, 0), in->count - 1);
    for (int i = 1; i < in->count; i++) {
        const Expr *through = in->items[i];
        through_strides(&mask, through, strides);
        print_format(text, indent + 1,
                     ".through[%d] = %s, .through_size[%d] = %ld, .through_stride[%d] = %s,", i - 1,
                     operand_text(arena, step, i), i - 1, through->tensor->vocabulary, i - 1,
                     numbers_text(arena, strides, mask.rank));
    }
    for (int i = 0; i < mask.rank; i++)
        print_format(text, indent + 1, ".coordinate[%d] = %s,", i,
                     operand_text(arena, step, in->count + i));
    const char *names[] = {"group", "row_of", "other", "start", "list"};
    for (int i = 0; i < 5; i++)
        print_format(text, indent + 1, ".%s = %s,", names[i],
                     operand_text(arena, step, in->count + mask.rank + i));
    print_line(text, indent, "};");
}

void print_device_pack(Text *text, const Module *module, const HostStep *step, int indent) {
    print_line(text, indent, "{");
    print_pack_record(text, step, indent + 1);
    print_steps(text, module, &step->body, indent + 1);
    print_line(text, indent, "}");
}

static void emit_pack(Emitter *emitter, const Statement *statement) {
    const Shape mask = shape_of(statement->inputs.items[0]);
    const PackSizes sizes = pack_sizes(statement, &mask);
    const long others = ceil_div(sizes.others, MOEC_CHOICE_THREADS);
    const Launch by_group = launch_of(sizes.groups, MOEC_PACK_THREADS),
                 by_other = launch_of(others, MOEC_CHOICE_THREADS), one = {1, MOEC_PACK_THREADS};
    const struct {
        const char *kernel;
        Launch launch;
    } few[] = {{"moec_pack_of_few", one}},
      many[] = {{"moec_pack_count", by_group},   {"moec_pack_begin", one},
                {"moec_pack_fill", by_group},    {"moec_pack_count_others", by_other},
                {"moec_pack_begin_others", one}, {"moec_pack_list", by_other}};
    const bool is_few = sizes.others <= PACK_FEW;
    List *steps = emitter->steps, arguments = {0};
    add_param(emitter->lower.arena, &arguments, (Param){.kind = PARAM_RECORD, .name = "pack"});
    emitter->steps = &add_call(emitter, statement)->body;
    for (size_t i = 0; i < (is_few ? 1 : sizeof many / sizeof *many); i++)
        add_launch(emitter, device_kernel(emitter, (is_few ? few : many)[i].kernel),
                   (is_few ? few : many)[i].launch, &arguments);
    emitter->steps = steps;
}

void emit_cuda_call(Emitter *emitter, const Statement *statement, Kernel *epilogue) {
    if (statement->call == CALL_SCAN) {
        emit_cuda_scan(emitter, statement);
        return;
    }
    emit_equation(emitter, statement);
    switch (statement->call) {
    case CALL_ATTEND:
    case CALL_ATTEND_GRAD:
        emit_cuda_attend(emitter, statement, epilogue);
        break;
    case CALL_TOP:
        emit_top(emitter, statement);
        break;
    case CALL_PACK:
        emit_pack(emitter, statement);
        break;
    case CALL_SCAN:
        break;
    }
}
