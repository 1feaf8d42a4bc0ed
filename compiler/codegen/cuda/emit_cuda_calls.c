/* emit_cuda_calls: top and pack as launches of the templates in runtime/kernels. */
#include "codegen/emit.h"

#include <string.h>

/* Limits of the variants for small tops and packs; the largest grid. */
enum {
    TOP_FEW = 256, /* numbers that a warp selects among */
    PACK_FEW = 32, /* maximum entries of a group if one block packs */
    MAX_GRID = 1 << 20
};

static const char *blocks(Emitter *emitter, long count) {
    return arena_format(emitter->lower.arena, "%ld",
                        count < 1          ? 1
                        : count < MAX_GRID ? count
                                           : MAX_GRID);
}

static void put(Text *arguments, const char *pointer) {
    text_add(arguments, "%sMOEC_POINTER(%s)", arguments->length ? ", " : "", pointer);
}

static void put_all(Emitter *emitter, Text *arguments, const List *operands, int first, int count) {
    for (int i = first; i < first + count; i++)
        put(arguments, pointer_text(&emitter->lower, operands->items[i]));
}

/* ---- top and pack ---- */

static void emit_top(Emitter *emitter, const Statement *statement) {
    long sizes[3];
    top_sizes(statement, sizes);
    Text arguments = {.arena = emitter->lower.arena};
    text_add(&arguments, "MOEC_NUMBER(%ld), MOEC_NUMBER(%ld), MOEC_NUMBER(%ld), MOEC_NUMBER(%ld)",
             sizes[0], sizes[1], sizes[2], statement->top.k);
    put_all(emitter, &arguments, &statement->inputs, 0, 1);
    put_all(emitter, &arguments, &statement->outputs, 0, 1);
    long choices = sizes[0] * sizes[2];
    bool few = sizes[1] <= TOP_FEW;
    emit_launch(
        emitter, device_kernel(emitter, few ? "moec_top_of_few" : "moec_top"),
        (Launch){blocks(emitter, few ? ceil_div(choices, MOEC_CHOICE_THREADS / 32) : choices),
                 MOEC_CHOICE_THREADS},
        arguments.text);
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
    bool in_order = true;
    for (int i = 0; i < mask->rank; i++) {
        keys[i] = statement->pack.key[i];
        in_order &= i == 0 || keys[i] >= keys[i - 1];
    }
    emit_line(emitter, "const MoecPackOnDevice pack = {");
    emitter->indent++;
    emit_line(emitter, ".rank = %d, .shape = %s, .key = %s,", mask->rank,
              numbers_text(emitter->lower.arena, mask->size, mask->rank),
              numbers_text(emitter->lower.arena, keys, mask->rank));
    emit_line(emitter, ".rows = %ld, .keys = %ld, .groups = %ld, .others = %ld,", sizes->rows,
              sizes->keys, sizes->groups, sizes->others);
    emit_line(emitter, ".in_order = %d, .mask = %s, .through_count = %d,", in_order,
              pointer_text(&emitter->lower, in->items[0]), in->count - 1);
    for (int i = 1; i < in->count; i++) {
        const Expr *through = in->items[i];
        through_strides(mask, through, strides);
        emit_line(emitter, ".through[%d] = %s, .through_size[%d] = %ld, .through_stride[%d] = %s,",
                  i - 1, pointer_text(&emitter->lower, through), i - 1, through->tensor->vocabulary,
                  i - 1, numbers_text(emitter->lower.arena, strides, mask->rank));
    }
    for (int i = 0; i < mask->rank; i++)
        emit_line(emitter, ".coordinate[%d] = %s,", i,
                  pointer_text(&emitter->lower, out->items[i]));
    const char *names[] = {"group", "row_of", "other", "start", "list"};
    for (int i = 0; i < 5; i++)
        emit_line(emitter, ".%s = %s,", names[i],
                  pointer_text(&emitter->lower, out->items[mask->rank + i]));
    emitter->indent--;
    emit_line(emitter, "};");
}

static void emit_pack(Emitter *emitter, const Statement *statement) {
    Shape mask = shape_of(statement->inputs.items[0]);
    PackSizes sizes = pack_sizes(statement, &mask);
    emit_line(emitter, "{");
    emitter->indent++;
    emit_pack_options(emitter, statement, &mask, &sizes);
    Launch by_group = {blocks(emitter, sizes.groups), MOEC_PACK_THREADS},
           by_other = {blocks(emitter, ceil_div(sizes.others, MOEC_CHOICE_THREADS)),
                       MOEC_CHOICE_THREADS},
           one = {"1", MOEC_PACK_THREADS};
    if (sizes.others <= PACK_FEW) {
        emit_launch(emitter, device_kernel(emitter, "moec_pack_of_few"), one, "&pack");
    } else {
        emit_launch(emitter, device_kernel(emitter, "moec_pack_count"), by_group, "&pack");
        emit_launch(emitter, device_kernel(emitter, "moec_pack_begin"), one, "&pack");
        emit_launch(emitter, device_kernel(emitter, "moec_pack_fill"), by_group, "&pack");
        emit_launch(emitter, device_kernel(emitter, "moec_pack_count_others"), by_other, "&pack");
        emit_launch(emitter, device_kernel(emitter, "moec_pack_begin_others"), one, "&pack");
        emit_launch(emitter, device_kernel(emitter, "moec_pack_list"), by_other, "&pack");
    }
    emitter->indent--;
    emit_line(emitter, "}");
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
